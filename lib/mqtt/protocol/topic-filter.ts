import { LocalProtocolError } from '../../errors.js';

/**
 * Finds what is registered for a topic. Exact filters are one Map lookup; filters with wildcards are a trie, so the cost
 * depends on the topic's levels and the matches, not on how many filters there are. `$share/{group}/` is stripped.
 */
export class TopicRouter<T> {
  private readonly exact = new Map<string, T[]>();
  private readonly root = new Level<T>();
  private wildcards = 0;

  add(filter: string, value: T): void {
    const plain = withoutShare(filter);
    if (!hasWildcard(plain)) {
      const values = this.exact.get(plain);
      if (values === undefined) this.exact.set(plain, [value]);
      else values.push(value);
      return;
    }
    let level = this.root;
    for (const name of plain.split('/')) level = level.descend(name);
    level.values.push(value);
    this.wildcards += 1;
  }

  /** Removes one registration; false if there is none. */
  remove(filter: string, value: T): boolean {
    const plain = withoutShare(filter);
    if (!hasWildcard(plain)) {
      const values = this.exact.get(plain);
      if (values === undefined || !removeFrom(values, value)) return false;
      if (values.length === 0) this.exact.delete(plain);
      return true;
    }
    if (!this.root.remove(plain.split('/'), 0, value)) return false;
    this.wildcards -= 1;
    return true;
  }

  /** Every value whose filter matches, once per registration; the array may be the router's own: do not change it. */
  match(topic: string): readonly T[] {
    const exact = this.exact.get(topic);
    if (this.wildcards === 0) return exact ?? NOTHING;
    const found: T[] = exact === undefined ? [] : exact.slice();
    // Wildcards at the first level do not match topics that begin with `$` [MQTT-4.7.2-1].
    collect(this.root, topic, 0, topic.charCodeAt(0) !== DOLLAR, found);
    return found;
  }
}

const NOTHING: readonly never[] = [];
const DOLLAR = 0x24;

class Level<T> {
  /** Filters that end here. */
  readonly values: T[] = [];
  readonly children = new Map<string, Level<T>>();
  single: Level<T> | undefined = undefined;
  multi: Level<T> | undefined = undefined;

  descend(name: string): Level<T> {
    if (name === '+') return (this.single ??= new Level<T>());
    if (name === '#') return (this.multi ??= new Level<T>());
    let child = this.children.get(name);
    if (child === undefined) this.children.set(name, (child = new Level<T>()));
    return child;
  }

  /** Removes the value and the levels that became empty. */
  remove(names: readonly string[], at: number, value: T): boolean {
    if (at === names.length) return removeFrom(this.values, value);
    const name = names[at];
    const child = name === '+' ? this.single : name === '#' ? this.multi : this.children.get(name);
    if (child === undefined || !child.remove(names, at + 1, value)) return false;
    if (child.empty) {
      if (name === '+') this.single = undefined;
      else if (name === '#') this.multi = undefined;
      else this.children.delete(name);
    }
    return true;
  }

  private get empty(): boolean {
    return (
      this.values.length === 0 && this.children.size === 0 && this.single === undefined && this.multi === undefined
    );
  }
}

/** `start` is where the next level of `topic` begins; `topic.length + 1` means that no level is left. */
function collect<T>(level: Level<T>, topic: string, start: number, wildcards: boolean, found: T[]): void {
  // `#` also matches its parent level [MQTT5 4.7.1.2], so it is asked before the end of the topic is.
  if (wildcards && level.multi !== undefined) append(level.multi.values, found);
  if (start > topic.length) {
    append(level.values, found);
    return;
  }
  if (wildcards && level.single !== undefined) collect(level.single, topic, nextLevel(topic, start), true, found);
  if (level.children.size > 0) {
    const next = nextLevel(topic, start);
    const child = level.children.get(topic.slice(start, next - 1));
    if (child !== undefined) collect(child, topic, next, true, found);
  }
}

function nextLevel(topic: string, start: number): number {
  const slash = topic.indexOf('/', start);
  return slash === -1 ? topic.length + 1 : slash + 1;
}

function append<T>(values: readonly T[], found: T[]): void {
  for (const value of values) found.push(value);
}

function removeFrom<T>(values: T[], value: T): boolean {
  const index = values.indexOf(value);
  if (index < 0) return false;
  values.splice(index, 1);
  return true;
}

function hasWildcard(filter: string): boolean {
  return filter.includes('+') || filter.includes('#');
}

/** The filter that a shared subscription `$share/{group}/{filter}` matches with [MQTT5 4.8.2]; others unchanged. */
export function withoutShare(filter: string): string {
  if (!filter.startsWith('$share/')) return filter;
  const slash = filter.indexOf('/', 7);
  return slash === -1 ? filter : filter.slice(slash + 1);
}

/** True if `topic` matches `filter` (a share prefix does not count). */
export function topicMatches(filter: string, topic: string): boolean {
  return levelsMatch(withoutShare(filter).split('/'), topic.split('/'));
}

function levelsMatch(filter: readonly string[], topic: readonly string[]): boolean {
  if (topic[0].startsWith('$') && (filter[0] === '+' || filter[0] === '#')) return false;
  for (let i = 0; i < filter.length; i++) {
    if (filter[i] === '#') return true;
    if (i >= topic.length || (filter[i] !== '+' && filter[i] !== topic[i])) return false;
  }
  return filter.length === topic.length;
}

/**
 * What the wildcards of `filter` stand for in `topic`, in order: one level for each `+`, the rest (with its slashes, empty
 * for the parent level) for `#`. Empty if the topic does not match.
 */
export function matchParameters(filter: string, topic: string): string[] {
  const names = withoutShare(filter).split('/');
  const levels = topic.split('/');
  if (!levelsMatch(names, levels)) return [];
  const parameters: string[] = [];
  names.forEach((name, i) => {
    if (name === '+') parameters.push(levels[i]);
    else if (name === '#') parameters.push(levels.slice(i).join('/'));
  });
  return parameters;
}

/** Throws unless `filter` may stand in a SUBSCRIBE [MQTT-4.7.1-1, -2, 4.7.3-1 to -3, 4.8.2-1, -2]. */
export function validateTopicFilter(filter: string): void {
  checkText('topic filter', filter);
  if (filter.startsWith('$share/')) {
    const [, group = '', ...rest] = filter.split('/');
    if (group === '' || hasWildcard(group)) {
      throw new LocalProtocolError(`Topic filter '${filter}': the share name must have a character and no '+' or '#'`);
    }
    if (rest.join('/') === '') {
      throw new LocalProtocolError(`Topic filter '${filter}': a filter must follow the share name`);
    }
  }
  const levels = withoutShare(filter).split('/');
  levels.forEach((level, i) => {
    if (level.includes('#') && (level !== '#' || i !== levels.length - 1)) {
      throw new LocalProtocolError(`Topic filter '${filter}': '#' must be alone in the last level`);
    }
    if (level.includes('+') && level !== '+') {
      throw new LocalProtocolError(`Topic filter '${filter}': '+' must be alone in its level`);
    }
  });
}

/** Throws unless `topic` may stand in a PUBLISH [MQTT-3.3.2-2, 4.7.3-1 to -3]. */
export function validateTopicName(topic: string): void {
  checkText('topic', topic);
  if (hasWildcard(topic)) throw new LocalProtocolError(`Topic '${topic}': wildcards are not allowed in a publish`);
}

function checkText(what: string, value: string): void {
  if (typeof value !== 'string' || value === '') throw new LocalProtocolError(`A ${what} must be a non-empty string`);
  if (value.includes('\u0000')) throw new LocalProtocolError(`A ${what} must not contain U+0000`);
  if (LONE_SURROGATE.test(value)) throw new LocalProtocolError(`A ${what} must be well-formed Unicode`);
  if (value.length > MAX_TEXT_BYTES / 3 && Buffer.byteLength(value) > MAX_TEXT_BYTES) {
    throw new LocalProtocolError(`A ${what} must not be longer than ${MAX_TEXT_BYTES} bytes in UTF-8`);
  }
}

const MAX_TEXT_BYTES = 65_535;
const LONE_SURROGATE = /\p{Surrogate}/u;
