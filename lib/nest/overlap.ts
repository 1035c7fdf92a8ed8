/** Whether some topic is matched by both filters (without `$share`). */
export function filtersOverlap(a: string, b: string): boolean {
  if (a === b) return true;
  if (!hasWildcard(a) && !hasWildcard(b)) return false;
  const left = a.split('/');
  const right = b.split('/');
  // A leading wildcard does not match topics that begin with $ [MQTT-4.7.2-1].
  if (isWildcard(left[0]) && right[0].startsWith('$')) return false;
  if (isWildcard(right[0]) && left[0].startsWith('$')) return false;
  for (let level = 0; ; level++) {
    const l = left[level];
    const r = right[level];
    // '#' also stands for its parent level, so it meets a filter that has just ended.
    if (l === '#' || r === '#') return true;
    if (l === undefined || r === undefined) return l === r;
    if (l !== '+' && r !== '+' && l !== r) return false;
  }
}

/** `$share/group/filter` -> `filter`; everything else as it is. */
export function stripShare(filter: string): string {
  return filter.startsWith('$share/') ? filter.slice(filter.indexOf('/', 7) + 1) : filter;
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

function hasWildcard(filter: string): boolean {
  return filter.includes('+') || filter.includes('#');
}

function isWildcard(level: string): boolean {
  return level === '+' || level === '#';
}
