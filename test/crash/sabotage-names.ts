/** Ways to break the product on purpose, in its own process: a check that does not notice one proves nothing. */
export const SABOTAGES = {
  'acknowledge-first': 'acknowledged (or resolved) before the work is done',
  'drop-one': 'one message is reported as sent and never leaves',
  'swap-two': 'two messages or acknowledgements change places',
  'double-run': 'one message is handled or sent twice',
} as const;

export type SabotageName = keyof typeof SABOTAGES;

/** The name as given on the command line, or an error that lists the known ones. */
export function checkSabotage(name: string | undefined): SabotageName | undefined {
  if (name === undefined) return undefined;
  if (Object.hasOwn(SABOTAGES, name)) return name as SabotageName;
  throw new Error(`--sabotage ${name}: expected one of ${Object.keys(SABOTAGES).join(', ')}`);
}
