/**
 * CommonJS on purpose: its `require` looks beside this package, at once, both where Node loads the package as ES modules and
 * where a test runner has made CommonJS of it (which has no `import.meta`).
 *
 * @throws what `require` throws if the optional peer dependency `avsc` is not installed
 */
export function requireAvsc(): unknown {
  return require('avsc');
}
