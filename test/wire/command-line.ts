import { parseArgs, type ParseArgsConfig } from 'node:util';

/** The command line; `--help` prints the usage and ends the process, a wrong option does so with one line more and exit 2. */
export function commandLine<T extends ParseArgsConfig>(usage: string, config: T): ReturnType<typeof parseArgs<T>> {
  if (process.argv.includes('--help')) {
    console.log(usage);
    process.exit(0);
  }
  try {
    return parseArgs(config);
  } catch (error) {
    console.error(`${(error as Error).message}\n${usage}`);
    process.exit(2);
  }
}
