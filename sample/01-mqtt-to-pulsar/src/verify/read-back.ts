/** A stored payload as text. */
export type StoredPayload = string;

export interface ReadBack {
  readonly stored: number;
  readonly lost: number;
  readonly duplicates: number;
}

/** Compares what is stored with the numbers 0 to `count - 1` of one run, less those the broker had refused. */
export function compareRun(
  payloads: readonly StoredPayload[],
  run: string,
  count: number,
  refused: readonly number[],
): ReadBack {
  const copies = new Map<number, number>();
  for (const payload of payloads) {
    const reading = JSON.parse(payload) as { id: number; run: string };
    if (reading.run === run) copies.set(reading.id, (copies.get(reading.id) ?? 0) + 1);
  }
  const missing = Array.from({ length: count }, (_, id) => id).filter((id) => !copies.has(id) && !refused.includes(id));
  const all = [...copies.values()].reduce((sum, number) => sum + number, 0);
  return { stored: copies.size, lost: missing.length, duplicates: all - copies.size };
}
