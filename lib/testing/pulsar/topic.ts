import { type SchemaData } from './commands.js';
import { type ProducerHandle } from './producer-handle.js';
import { type ReadSend, type StoredMessage } from './stored-message.js';
import { type Subscription } from './subscription.js';

/** One SEND as it was stored. */
export interface StoredEntry {
  readonly ledgerId: number;
  readonly entryId: number;
  /** Position in the topic, from 0. */
  readonly index: number;
  /** `[0x0e01][crc][metadata][payload]` as it came. */
  readonly tail: Buffer;
  readonly messages: readonly StoredMessage[];
  /** Key that Key_Shared dispatches by. */
  readonly key: string | undefined;
  readonly deliverAt: number | undefined;
}

/** One topic, or one partition of a partitioned one. */
export class PulsarTopic {
  readonly entries: StoredEntry[] = [];
  readonly producers = new Map<string, ProducerHandle>();
  /** Producers that wait for exclusive access, in the order of their requests. */
  readonly waiting: ProducerHandle[] = [];
  readonly subscriptions = new Map<string, Subscription>();
  readonly schemas: SchemaData[] = [];
  /** Highest sequence id per producer name, as deduplication knows it. */
  readonly lastSequenceIds = new Map<string, number>();
  /** Counts exclusive owners. */
  epoch = -1;
  exclusive: ProducerHandle | undefined;
  terminated = false;
  /** A quota that is exceeded: `hold` refuses producers with ...Error, `exception` with ...Exception. */
  quota: 'hold' | 'exception' | undefined;
  maxProducers = Infinity;
  deduplication: boolean;
  encryptionRequired = false;
  /** SENDs that were dropped because deduplication had seen them. */
  deduplicated = 0;
  /** Times a SEND was stored although deduplication would have dropped it: what a client without it duplicates. */
  repeated = 0;
  ledgerId: number;
  private entryInLedger = 0;
  private readonly byId = new Map<string, StoredEntry>();
  private readonly stored: StoredMessage[] = [];

  constructor(
    /** Full name, `persistent://tenant/namespace/name`. */
    readonly name: string,
    deduplication: boolean,
    private readonly nextLedger: () => number,
  ) {
    this.deduplication = deduplication;
    this.ledgerId = nextLedger();
  }

  /** Every stored message in order; members of a batch one by one. */
  get messages(): readonly StoredMessage[] {
    return this.stored;
  }

  /** The payloads of {@link messages} as text. */
  get texts(): string[] {
    return this.stored.map((message) => message.payload?.toString() ?? '');
  }

  /**
   * Chunked messages put together again, ordinary ones as they are; chunks of incomplete messages are left out. As Pulsar's
   * Java client does it: the first chunk begins anew, one that was there already is passed over.
   */
  get assembled(): StoredMessage[] {
    const open = new Map<string, StoredMessage[]>();
    return this.stored.flatMap((message) => {
      if (message.chunk === undefined) return [message];
      const { uuid, id, count } = message.chunk;
      const before = id === 0 ? [] : (open.get(uuid) ?? []);
      if (id !== before.length) return [];
      const chunks = [...before, message];
      open.set(uuid, chunks);
      if (chunks.length < count) return [];
      open.delete(uuid);
      return [{ ...message, payload: Buffer.concat(chunks.map((chunk) => chunk.payload ?? Buffer.alloc(0))) }];
    });
  }

  /**
   * True if deduplication drops this SEND: everything up to the highest id of that producer was stored before. The chunks of a
   * message share an id: only the last one is ever dropped.
   */
  isDuplicate(send: ReadSend): boolean {
    if (!endsMessage(send)) return false;
    const last = this.lastSequenceIds.get(send.metadata['producerName'] as string);
    return last !== undefined && send.sequenceId <= last;
  }

  store(send: ReadSend, tail: Buffer): StoredEntry {
    const name = send.metadata['producerName'] as string;
    if (this.isDuplicate(send)) this.repeated++;
    const last = this.lastSequenceIds.get(name) ?? -1;
    if (endsMessage(send)) this.lastSequenceIds.set(name, Math.max(last, send.highestSequenceId));
    const { ledgerId } = this;
    const entryId = this.entryInLedger++;
    const messages = send.messages.map((message) => ({ ...message, ledgerId, entryId }));
    const first = messages[0];
    const entry: StoredEntry = {
      ledgerId,
      entryId,
      index: this.entries.length,
      // The frame is a view of the socket's chunk; what is kept is a copy.
      tail: Buffer.from(tail),
      messages,
      key: first?.orderingKey?.toString('base64') ?? first?.key,
      deliverAt: first?.deliverAt,
    };
    this.entries.push(entry);
    this.byId.set(`${ledgerId}:${entryId}`, entry);
    this.stored.push(...messages);
    for (const subscription of this.subscriptions.values()) subscription.dispatch();
    return entry;
  }

  entryAt(ledgerId: number, entryId: number): StoredEntry | undefined {
    return this.byId.get(`${ledgerId}:${entryId}`);
  }

  /** What happens at an unload or a broker restart: the open ledger ends, the next entry begins another. */
  rollLedger(): void {
    if (this.entryInLedger === 0) return;
    this.ledgerId = this.nextLedger();
    this.entryInLedger = 0;
  }
}

/** False for a chunk that others of its message follow. */
function endsMessage({ messages: [first] }: ReadSend): boolean {
  return first?.chunk === undefined || first.chunk.id === first.chunk.count - 1;
}

/** `name` -> `persistent://public/default/name`, `t/n/x` -> `persistent://t/n/x`; a full name stays. */
export function fullTopicName(name: string): string {
  if (name.includes('://')) return name;
  return name.split('/').length === 3 ? `persistent://${name}` : `persistent://public/default/${name}`;
}
