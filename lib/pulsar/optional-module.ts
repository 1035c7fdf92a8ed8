import { TransportError } from '../errors.js';

/** A package that may be installed, and what of it is used. */
export interface OptionalModule<T> {
  readonly name: string;
  /** Gets what `require` would give. May wait for a start of its own (WebAssembly). */
  readonly use: (exports: Record<string, unknown>) => T | Promise<T>;
}

/** A function of a package, or an error that says which one is missing. */
export function functionOf<F>(exports: Record<string, unknown>, name: string): F {
  const value = exports[name];
  if (typeof value !== 'function') throw new TypeError(`The package has no function '${name}'`);
  return value as F;
}

/** Loads a package by its name; a test's own in its place. */
export type ImportModule = (name: string) => Promise<unknown>;

/**
 * The first of `candidates` that can be loaded. One that is installed but does not load (a native file for another
 * platform) is passed over as well.
 *
 * @param purpose for the message, such as "LZ4 compression"
 * @throws TransportError ERR_DEPENDENCY that names what to install
 */
export async function loadFirst<T>(
  purpose: string,
  candidates: readonly OptionalModule<T>[],
  importModule: ImportModule = (name) => import(name),
): Promise<T> {
  const failures: unknown[] = [];
  for (const { name, use } of candidates) {
    try {
      const loaded = (await importModule(name)) as Record<string, unknown>;
      return await use((loaded.default ?? loaded) as Record<string, unknown>);
    } catch (error) {
      failures.push(error);
    }
  }
  const names = candidates.map(({ name }) => `'${name}'`).join(' or ');
  throw new TransportError('ERR_DEPENDENCY', `${purpose} needs a package that is not installed: npm install ${names}`, {
    cause: failures.length === 1 ? failures[0] : new AggregateError(failures),
  });
}
