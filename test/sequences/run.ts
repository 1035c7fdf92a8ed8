import { exceptionOf } from './exceptions.js';
import { play, type PlayOptions } from './play.js';
import { nameOf, type Sequence } from './sequence.js';

export interface Result {
  readonly passed: number;
  readonly total: number;
  readonly failures: readonly { readonly sequence: Sequence; readonly what: string }[];
  /** Lines that contradict the specification, with the clause. */
  readonly excepted: readonly { readonly sequence: Sequence; readonly clause: string }[];
  /** Lines of MQTT 3.1, which is not supported. */
  readonly unsupported: readonly Sequence[];
}

/** Plays the sequences, so many at a time; lines of MQTT 3.1 and excepted ones leave the total. */
export async function runSequences(
  sequences: readonly Sequence[],
  options: PlayOptions & { readonly concurrency?: number } = {},
): Promise<Result> {
  const unsupported = sequences.filter((sequence) => sequence.version === 3);
  const excepted = sequences.flatMap((sequence) => {
    const exception = exceptionOf(sequence);
    return exception === undefined ? [] : [{ sequence, clause: exception.clause }];
  });
  const left = new Set([...unsupported, ...excepted.map((each) => each.sequence)]);
  const counted = sequences.filter((sequence) => !left.has(sequence));
  const verdicts = new Map<Sequence, string>();
  const queue = counted.values();
  const worker = async (): Promise<void> => {
    for (const sequence of queue) {
      let what: string | undefined;
      try {
        what = await play(sequence, options);
      } catch (error) {
        what = `the runner failed: ${String(error)}`;
      }
      if (what !== undefined) verdicts.set(sequence, what);
    }
  };
  await Promise.all(Array.from({ length: options.concurrency ?? 32 }, worker));
  const failures = counted.flatMap((sequence) => {
    const what = verdicts.get(sequence);
    return what === undefined ? [] : [{ sequence, what }];
  });
  return { passed: counted.length - failures.length, total: counted.length, failures, excepted, unsupported };
}

/** One line each for what failed and what was left out, and `passed/total` last. */
export function report({ passed, total, failures, excepted, unsupported }: Result): string[] {
  return [
    ...failures.map(({ sequence, what }) => `FAILED ${nameOf(sequence)}: ${what}`),
    ...excepted.map(({ sequence, clause }) => `EXCEPTED ${nameOf(sequence)}: ${clause}`),
    ...(unsupported.length > 0 ? [`NOT SUPPORTED ${unsupported.length} lines of MQTT 3.1 (version 3)`] : []),
    `${passed}/${total}`,
  ];
}
