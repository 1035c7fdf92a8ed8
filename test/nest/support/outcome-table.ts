import { readFileSync } from 'node:fs';

/** What a cell of README's outcome table says about the wire. */
export type WireAnswer =
  | {
      readonly kind: 'acknowledged';
      readonly packet: 'puback' | 'pubrec';
      /** `undefined`: the one that the scenario gave. */
      readonly code: number | undefined;
      /** `after`: nothing is on the wire before `event`. `before`: it is there although `event` has not happened yet. */
      readonly order?: 'after' | 'before';
      readonly event?: string;
    }
  | { readonly kind: 'kept'; readonly next: KeptNext };

/** What follows where nothing is acknowledged. */
export type KeptNext = 'then redelivered' | 'then tried again here' | 'kept';

export interface OutcomeRow {
  readonly what: string;
  readonly qos1: WireAnswer;
  readonly qos2: WireAnswer;
  /** Field of `MqttServerStats` that goes up, for QoS 1 and 2. */
  readonly counted: string;
  /** The same for QoS 0. */
  readonly qos0: string;
}

const SECTION = '## What a handler does, and what goes on the wire';
const HEADER = ['what happens', 'QoS 1', 'QoS 2', 'counted', 'QoS 0'];
const KEPT: readonly string[] = ['then redelivered', 'then tried again here', 'kept'] satisfies KeptNext[];

/** Every row of the tables in that section of README. @throws Error naming a cell that is not in the vocabulary */
export function outcomeRows(): OutcomeRow[] {
  const [, section = ''] = readFileSync('README.md', 'utf8').split(SECTION);
  const tables = section.split('\n## ')[0].match(/(?:^\|.*\|\n)+/gm) ?? [];
  const rows = tables.flatMap((table) => {
    const [header, , ...body] = table.trim().split('\n').map(cellsOf);
    // Other tables of that section have other columns.
    return header[0] === HEADER[0] ? [header, ...body] : [];
  });
  const [header] = rows;
  if (header?.join() !== HEADER.join()) throw new Error(`README: expected the columns ${HEADER.join(', ')}`);
  const outcomes = rows.filter((row) => row.join() !== HEADER.join());
  return outcomes.map(([what, qos1, qos2, counted, qos0]) => ({
    what,
    qos1: wireAnswer(what, qos1, 'PUBACK'),
    qos2: wireAnswer(what, qos2, 'PUBREC'),
    counted: counter(what, counted),
    qos0: counter(what, qos0),
  }));
}

function cellsOf(line: string): string[] {
  const cells = line.split('|').slice(1, -1);
  return cells.map((cell) => cell.trim());
}

function wireAnswer(row: string, cell: string, packet: 'PUBACK' | 'PUBREC'): WireAnswer {
  const kept = /^nothing, (.+)$/.exec(cell)?.[1];
  if (kept !== undefined && KEPT.includes(kept)) return { kind: 'kept', next: kept as KeptNext };
  const acknowledged = /^(PUBACK|PUBREC) (0x[0-9a-f]{2}|with the code)(?: (after|before) (.+))?$/.exec(cell);
  if (acknowledged?.[1] !== packet) {
    throw new Error(
      `README, '${row}': expected '${packet} 0x00', '${packet} with the code', each with 'after …' or 'before …' ` +
        `behind it or not, or 'nothing, ' and one of ${KEPT.join(', ')}; received '${cell}'`,
    );
  }
  const [, , code, order, event] = acknowledged;
  return {
    kind: 'acknowledged',
    packet: packet === 'PUBACK' ? 'puback' : 'pubrec',
    code: code === 'with the code' ? undefined : Number(code),
    ...(event !== undefined && { order: order as 'after' | 'before', event }),
  };
}

function counter(row: string, cell: string): string {
  const name = /^`(\w+)`$/.exec(cell)?.[1];
  if (name === undefined) throw new Error(`README, '${row}': expected a field of the stats, received '${cell}'`);
  return name;
}
