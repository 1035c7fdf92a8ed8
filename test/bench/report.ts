/** Rows of the harness as far as they are read here. */
export interface MqttRow {
  readonly suite: string;
  readonly round: number;
  readonly contestant: string;
  readonly ok?: boolean;
  readonly target?: string;
  readonly rate?: number;
  readonly workMs?: number;
  readonly wire?: { readonly msgsPerSec?: number; readonly p50us?: number; readonly outOfOrder?: number };
  readonly self?: { readonly msgsPerSec?: number; readonly cpuPer100k?: number };
}

export interface PulsarRow {
  readonly round: number;
  readonly stage: string;
  readonly label: string;
  readonly contestant: string;
  readonly error?: string;
  readonly rate?: number;
  readonly p50ms?: number;
  readonly cpuS?: number;
  readonly count?: number;
  readonly storedOk?: boolean;
}

/** Prints a table per suite, fastest first, with ours as 1.00; gives what is wrong with ours. */
export function mqttReport(rows: readonly MqttRow[]): string[] {
  const problems: string[] = [];
  for (const [title, group] of groupBy(rows, (row) => [row.suite, row.target, row.rate && `${row.rate}/s`].join(' '))) {
    const latency = group.some((row) => row.suite === 'latency');
    const value = (row: MqttRow): number =>
      latency ? (row.wire?.p50us ?? NaN) / 1000 : (row.wire?.msgsPerSec ?? row.self?.msgsPerSec ?? NaN);
    print(
      title,
      latency ? 'ms to the acknowledgement, p50' : 'messages/s',
      group,
      value,
      (row) => row.self?.cpuPer100k,
    );
  }
  for (const row of rows.filter(({ contestant }) => contestant.startsWith('ours'))) {
    if (row.ok === false) problems.push(`${row.suite} ${row.contestant} failed`);
    if ((row.wire?.outOfOrder ?? 0) > 0) problems.push(`${row.suite} ${row.contestant} acknowledged out of order`);
  }
  return problems;
}

/** The same for the producer. */
export function pulsarReport(rows: readonly PulsarRow[]): string[] {
  const problems: string[] = [];
  for (const [label, group] of groupBy(rows, (row) => `${row.stage}: ${row.label}`)) {
    const latency = group.some((row) => row.stage === 'latency');
    const value = (row: PulsarRow): number => (latency ? row.p50ms : row.rate) ?? NaN;
    print(
      label,
      latency ? 'ms p50' : 'messages/s',
      group,
      value,
      (row) => ((row.cpuS ?? NaN) / (row.count ?? NaN)) * 1e5,
    );
  }
  for (const row of rows.filter(({ contestant }) => contestant.startsWith('ours'))) {
    if (row.error !== undefined) problems.push(`${row.label}: ${row.error}`);
    else if (row.storedOk !== true) problems.push(`${row.label}: the broker's count is not what was sent`);
  }
  return problems;
}

function print<T extends { readonly contestant: string }>(
  title: string,
  unit: string,
  rows: readonly T[],
  value: (row: T) => number,
  cpu: (row: T) => number | undefined,
): void {
  const lines = groupBy(rows, (row) => row.contestant).map(([name, own]) => ({
    name,
    value: median(own.map(value)),
    cpu: median(own.map((row) => cpu(row) ?? NaN)),
  }));
  const ours = lines.find(({ name }) => name === 'ours') ?? lines.find(({ name }) => name.startsWith('ours'));
  console.log(`\n${title}: ${unit} (x = ours / theirs), CPU s per 100,000`);
  for (const line of lines.sort((a, b) => b.value - a.value)) {
    const ratio = ours === undefined ? NaN : ours.value / line.value;
    const figures = [format(line.value).padStart(12), `x${ratio.toFixed(2)}`.padStart(8), format(line.cpu).padStart(8)];
    console.log(`  ${line.name.padEnd(24)}${figures.join('')}`);
  }
}

function groupBy<T>(rows: readonly T[], key: (row: T) => string): [string, T[]][] {
  const groups = new Map<string, T[]>();
  for (const row of rows) {
    const group = groups.get(key(row));
    if (group === undefined) groups.set(key(row), [row]);
    else group.push(row);
  }
  return [...groups];
}

function median(values: readonly number[]): number {
  const sorted = values.filter((value) => !Number.isNaN(value)).sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? NaN;
}

function format(value: number): string {
  return Number.isNaN(value) ? '-' : value >= 100 ? Math.round(value).toLocaleString('en-US') : value.toFixed(2);
}
