/** Topic filters [MQTT-4.7]; written for clarity, on purpose not shared with the product's router. */

/** True if `filter` (without `$share/...`) matches the topic name. */
export function topicMatches(filter: string, topic: string): boolean {
  const wanted = filter.split('/');
  const levels = topic.split('/');
  // A wildcard in the first level does not match topics that begin with $ [MQTT-4.7.2-1].
  if (topic.startsWith('$') && (wanted[0] === '#' || wanted[0] === '+')) return false;
  for (const [index, level] of wanted.entries()) {
    if (level === '#') return true;
    if (index >= levels.length) return false;
    if (level !== '+' && level !== levels[index]) return false;
  }
  return wanted.length === levels.length;
}

/** `$share/{group}/{filter}` in its parts; `group` is undefined for an ordinary filter. */
export function parseFilter(filter: string): { readonly group: string | undefined; readonly filter: string } {
  const match = /^\$share\/([^/+#]+)\/(.+)$/s.exec(filter);
  return match === null ? { group: undefined, filter } : { group: match[1], filter: match[2] ?? '' };
}

/** What is wrong with a filter, or undefined [MQTT-4.7.1-1, -2, MQTT-4.7.3-1, -2, MQTT-4.8.2-1, -2]. */
export function filterFault(filter: string): string | undefined {
  if (filter.startsWith('$share/') && parseFilter(filter).group === undefined) return 'invalid shared subscription';
  const levels = parseFilter(filter).filter.split('/');
  if (filter === '') return 'empty filter';
  if (filter.includes('\0')) return 'filter holds U+0000';
  for (const [index, level] of levels.entries()) {
    if (level === '#' && index !== levels.length - 1) return "'#' is not the last level";
    if (level !== '#' && level !== '+' && /[+#]/.test(level)) return 'a wildcard must stand alone in its level';
  }
  return undefined;
}
