import { type HandlerEntry } from './handler-registry.js';

/** What one strategy that starts in this turn is known by. */
interface Starting {
  readonly name: string;
  /** Nest keeps them with the method, so they are the same ones for every strategy. */
  readonly extras: ReadonlySet<unknown>;
}

/**
 * Whether another strategy of the same application has this name and these handlers: Nest gives each strategy the handlers
 * of its name, so both would run every one of them. `startAllMicroservices()` starts all of an application in one turn;
 * another application in the same process, with the same controllers and at home there, starts in a turn of its own.
 */
export function hasTwin(name: string, entries: Iterable<HandlerEntry>): boolean {
  const extras = new Set<unknown>();
  for (const { callback } of entries) if (callback.extras !== undefined) extras.add(callback.extras);
  const twin = starting.some((other) => other.name === name && [...extras].some((each) => other.extras.has(each)));
  if (starting.length === 0) queueMicrotask(() => (starting = []));
  starting.push({ name, extras });
  return twin;
}

let starting: Starting[] = [];
