import { type NativeCrc32c, setNativeCrc32c } from './codec/crc32c.js';
import { functionOf, type ImportModule, loadFirst } from './optional-module.js';

let loading: Promise<boolean> | undefined;

/**
 * Takes the optional peer dependency `@node-rs/crc32` into use where it is installed and computes what it should; ours
 * stays where it is not. Looked for once per process.
 *
 * @param importModule a test's own in place of `import()`; looked for anew then
 * @returns whether the native function is in use
 */
export function loadNativeCrc32c(importModule?: ImportModule): Promise<boolean> {
  if (importModule !== undefined) return load(importModule);
  return (loading ??= load());
}

async function load(importModule?: ImportModule): Promise<boolean> {
  try {
    await loadFirst(
      'A native CRC-32C',
      [{ name: '@node-rs/crc32', use: (crc) => setNativeCrc32c(functionOf<NativeCrc32c>(crc, 'crc32c')) }],
      importModule,
    );
    return true;
  } catch {
    // Not installed, or built for another platform: slower, not wrong.
    return false;
  }
}
