import { type SendOp } from './send-op.js';

export interface BatchingConfig {
  readonly enabled: boolean;
  readonly maxMessages: number;
  /** Payload bytes. */
  readonly maxBytes: number;
  /** Milliseconds from the first message to the seal. */
  readonly delay: number;
  /** One frame a key (for Key_Shared subscriptions) instead of one for all. */
  readonly byKey: boolean;
}

/** Messages that are not sealed yet, in the order of calls. A message that cannot be batched stands here alone. */
export class OpenBatch {
  #ops: SendOp[] = [];
  #bytes = 0;
  #deadline: number | undefined;

  constructor(private readonly config: BatchingConfig) {}

  /** Clock time at which it must be sealed. */
  get deadline(): number | undefined {
    return this.#deadline;
  }

  get first(): SendOp | undefined {
    return this.#ops[0];
  }

  get isFull(): boolean {
    const { enabled, maxMessages, maxBytes } = this.config;
    if (this.#ops.length === 0) return false;
    return !enabled || this.#ops.length >= maxMessages || this.#bytes >= maxBytes || !batchable(this.#ops[0]);
  }

  /** False: what is open must be sealed first, so that order is kept. */
  accepts(op: SendOp): boolean {
    if (this.#ops.length === 0) return true;
    return this.config.enabled && batchable(op) && !this.isFull && this.#bytes + size(op) <= this.config.maxBytes;
  }

  add(op: SendOp, now: number): void {
    if (this.#ops.length === 0) this.#deadline = now + this.config.delay;
    this.#ops.push(op);
    this.#bytes += size(op);
  }

  remove(op: SendOp): void {
    const index = this.#ops.indexOf(op);
    if (index < 0) return;
    this.#ops.splice(index, 1);
    this.#bytes -= size(op);
    if (this.#ops.length === 0) this.#deadline = undefined;
  }

  take(): SendOp[] {
    const ops = this.#ops;
    this.#ops = [];
    this.#bytes = 0;
    this.#deadline = undefined;
    return ops;
  }

  /**
   * Empties the batch into the groups that become frames. A batch never mixes ids that the broker may have
   * (`inheritedSequenceId` and below) with new ones: deduplication drops or keeps a frame as a whole.
   */
  takeFrames(inheritedSequenceId: number): SendOp[][] {
    const ops = this.take();
    if (ops.length === 0) return [];
    if (ops.length > 1 && ops[0].message.sequenceId !== undefined && ops[0].message.sequenceId <= inheritedSequenceId) {
      return splitRuns(ops, (op) => String((op.message.sequenceId ?? Infinity) <= inheritedSequenceId)).flatMap((run) =>
        this.#group(run),
      );
    }
    return this.#group(ops);
  }

  #group(ops: SendOp[]): SendOp[][] {
    if (!this.config.byKey || ops.length === 1) return splitRuns(ops, givenByCaller);
    // Ids that the caller gave must ascend from frame to frame: only neighbours share a frame.
    if (ops.some((op) => op.message.sequenceId !== undefined))
      return splitRuns(ops, (op) => `${givenByCaller(op)}/${keyOf(op)}`);
    const groups = new Map<string, SendOp[]>();
    for (const op of ops) {
      const key = keyOf(op);
      const group = groups.get(key);
      if (group === undefined) groups.set(key, [op]);
      else group.push(op);
    }
    return [...groups.values()];
  }
}

const batchable = ({ message }: SendOp): boolean =>
  message.disableBatching !== true && message.deliverAt === undefined && message.replicationClusters === undefined;

const size = ({ message }: SendOp): number => message.payload?.length ?? 0;

/** A receipt of -1:-1 means different things for ids of the caller and for ours: they do not share a frame. */
const givenByCaller = ({ message }: SendOp): string => (message.sequenceId === undefined ? 'ours' : 'given');

/** The ordering key goes before the key, as Key_Shared subscriptions do it. */
function keyOf({ message }: SendOp): string {
  const bytes = message.orderingKey ?? message.keyBytes;
  return bytes === undefined ? `s${message.key ?? ''}` : `b${Buffer.from(bytes).toString('latin1')}`;
}

function splitRuns(ops: SendOp[], classify: (op: SendOp) => string): SendOp[][] {
  const runs: SendOp[][] = [];
  let last: string | undefined;
  for (const op of ops) {
    const kind = classify(op);
    if (kind !== last) runs.push([]);
    runs[runs.length - 1].push(op);
    last = kind;
  }
  return runs;
}
