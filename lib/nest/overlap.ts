import { withoutShare } from '../mqtt/index.js';

/**
 * Which subscriptions can match a topic that another one matches too: each of them gets a Subscription Identifier.
 * A trie, so that ten thousand filters are not compared pair by pair.
 */
export class OverlapFinder {
  private readonly root = new Level();

  /** @param subscription a topic filter, also `$share/group/filter`; each one is added once */
  add(subscription: string): void {
    let level = this.root;
    level.below += 1;
    for (const name of withoutShare(subscription).split('/')) {
      level = level.descend(name);
      level.below += 1;
    }
    level.ending += 1;
  }

  /** Whether some topic is matched by this subscription, which was added, and by another one. */
  overlaps(subscription: string): boolean {
    const names = withoutShare(subscription).split('/');
    return meets(this.root, names, 0);
  }
}

class Level {
  /** Filters that end here. */
  ending = 0;
  /** Filters that end here or at a lower level. */
  below = 0;
  readonly children = new Map<string, Level>();

  descend(name: string): Level {
    let child = this.children.get(name);
    if (child === undefined) this.children.set(name, (child = new Level()));
    return child;
  }
}

/**
 * Whether the levels from `at` on meet another filter under `level`. The filter that asks is in the trie itself, on the
 * path of its own names: where it can be met it does not count.
 */
function meets(level: Level, names: readonly string[], at: number, own = true): boolean {
  const name = names.at(at);
  const self = own ? 1 : 0;
  if (name === '#') return at === 0 ? meetsAnyTopic(level) : level.below > self;
  // '#' also stands for its parent level, so it meets a filter that has just ended [MQTT5 4.7.1.2].
  if (level.children.has('#') && !(at === 0 && isHidden(name))) return true;
  if (name === undefined) return level.ending > self;
  for (const [other, child] of candidates(level, name)) {
    // A leading wildcard does not match topics that begin with $ [MQTT-4.7.2-1].
    if (at === 0 && ((name === '+' && isHidden(other)) || (other === '+' && isHidden(name)))) continue;
    if (meets(child, names, at + 1, own && other === name)) return true;
  }
  return false;
}

/** `#` alone: every topic but those that begin with `$`. */
function meetsAnyTopic(root: Level): boolean {
  for (const [name, child] of root.children) {
    if (!isHidden(name) && child.below > (name === '#' ? 1 : 0)) return true;
  }
  return false;
}

/** The children that a level name can meet; `#` was looked at before. */
function* candidates(level: Level, name: string): Iterable<[string, Level]> {
  if (name !== '+') {
    for (const other of [name, '+']) {
      const child = level.children.get(other);
      if (child !== undefined) yield [other, child];
    }
    return;
  }
  for (const entry of level.children) if (entry[0] !== '#') yield entry;
}

function isHidden(name: string | undefined): boolean {
  return name?.startsWith('$') === true;
}

/**
 * The Subscription Identifier for a filter: 1 to 268,435,455 [MQTT5 3.8.2.1.2], a hash, so that a session which outlives
 * the process carries the identifiers that the next process expects. Two filters with one hash share their copies.
 */
export function subscriptionIdentifierFor(filter: string): number {
  let hash = 0x811c9dc5;
  for (const byte of Buffer.from(filter)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  return (hash ^ (hash >>> 28)) & 0x0fffffff || 1;
}
