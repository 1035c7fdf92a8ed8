import { transformFileSync } from '@swc/core';
import { cpSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

/**
 * `lib` and the given program as JavaScript for a process of its own, in a few seconds and without a type check.
 *
 * @param program path from the root of the repository
 * @returns the path of the program to run
 */
export function transpile(program: string): string {
  const root = process.cwd();
  // One folder per program: specs run side by side.
  const out = join(root, '.cache', 'child-programs', basename(program, '.ts'));
  rmSync(join(out, 'lib'), { recursive: true, force: true });
  const sources = readdirSync(join(root, 'lib'), { recursive: true, encoding: 'utf8' }).map((path) =>
    join('lib', path),
  );
  for (const source of [...sources, program]) {
    const target = join(out, source);
    if (/\.c?ts$/.test(source) && !source.endsWith('.d.ts')) {
      mkdirSync(dirname(target), { recursive: true });
      const { code } = transformFileSync(join(root, source), {
        jsc: {
          parser: { syntax: 'typescript', decorators: true },
          transform: { legacyDecorator: true, decoratorMetadata: true },
          target: 'es2023',
          keepClassNames: true,
        },
        module: { type: source.endsWith('.cts') ? 'commonjs' : 'es6' },
      });
      writeFileSync(target.replace(/ts$/, 'js'), code);
    } else if (/\.(js|json|cjs|mjs|proto)$/.test(source)) {
      mkdirSync(dirname(target), { recursive: true });
      cpSync(join(root, source), target);
    }
  }
  return join(out, program.replace(/\.ts$/, '.js'));
}
