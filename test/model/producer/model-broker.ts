import { type ModelFrame } from './frames.js';

/** One stored entry: the messages by number. */
export interface StoredEntry {
  readonly frame: ModelFrame;
}

export type BrokerAnswer =
  | { readonly kind: 'receipt'; readonly sequenceId: number; readonly highest: number; readonly entryId: number }
  | { readonly kind: 'sendError'; readonly sequenceId: number; readonly code: number };

/** What a broker does with frames, in the order they arrive, with or without deduplication by sequence id. */
export class ModelBroker {
  readonly stored: StoredEntry[] = [];
  lastSequenceId: number;
  private readonly ids = new Set<number>();

  constructor(
    readonly deduplicates: boolean,
    lastSequenceId: number,
  ) {
    this.lastSequenceId = lastSequenceId;
  }

  receive(frame: ModelFrame): BrokerAnswer {
    const sequenceId = frame.sequenceIds[0];
    const highest = frame.sequenceIds.at(-1)!;
    const lastChunk = frame.chunk === undefined || frame.chunk.index === frame.chunk.count - 1;
    if (this.deduplicates && lastChunk && sequenceId <= this.lastSequenceId) {
      return { kind: 'receipt', sequenceId, highest, entryId: -1 };
    }
    if (this.deduplicates && lastChunk) this.lastSequenceId = highest;
    this.stored.push({ frame });
    for (const id of frame.ids) this.ids.add(id);
    return { kind: 'receipt', sequenceId, highest, entryId: this.stored.length - 1 };
  }

  /** At least a part of it is stored. */
  has(id: number): boolean {
    return this.ids.has(id);
  }

  /** Of a batch the broker names the highest id when it refuses it. */
  refuse(frame: ModelFrame, code: number): BrokerAnswer {
    return { kind: 'sendError', sequenceId: frame.sequenceIds.at(-1)!, code };
  }

  /** Messages in the order they were first stored completely. */
  firstStored(): number[] {
    const seen = new Set<number>();
    const chunks = new Map<number, Set<number>>();
    for (const { frame } of this.stored) {
      if (frame.chunk !== undefined) {
        const id = frame.ids[0];
        const have = chunks.get(id) ?? new Set();
        chunks.set(id, have.add(frame.chunk.index));
        if (have.size === frame.chunk.count) seen.add(id);
      } else {
        for (const id of frame.ids) seen.add(id);
      }
    }
    return [...seen];
  }
}
