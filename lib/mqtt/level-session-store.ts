import { TransportError } from '../errors.js';
import { type Properties, type Qos } from './codec/packets.js';
import { type SessionStore, type SessionStoreChange, type StoredPublish, type StoredSession } from './session-store.js';
import { type Subscription } from './types.js';

export interface LevelSessionStoreOptions {
  /** Directory of the database; made if it is not there. One process at a time. */
  readonly path: string;
  /** Wait for the disk with every batch. Default true; false survives the end of the process, not that of the machine. */
  readonly sync?: boolean;
}

/**
 * A {@link SessionStore} on LevelDB, for QoS 2 and publishes that survive the process. Needs the optional package
 * `classic-level`, which is loaded at the first use.
 */
export class LevelSessionStore implements SessionStore {
  private database: Promise<Database> | undefined;
  /** Counts PUBRECs, for the order of the PUBRELs. */
  private nextRelease = 1;

  constructor(private readonly options: LevelSessionStoreOptions) {}

  /** @throws TransportError ERR_DEPENDENCY without `classic-level`, ERR_SESSION if the database cannot be opened */
  async load(clientId: string): Promise<StoredSession> {
    const database = await (this.database ??= open(this.options.path));
    const prefix = prefixOf(clientId);
    const publishes = new Map<number, Mutable<StoredPublish>>();
    const releases: [order: number, sequence: number][] = [];
    const receivedIds: number[] = [];
    let filters: readonly Subscription[] = [];
    for await (const [key, value] of database.iterator({ gt: prefix, lt: `${prefix}~` })) {
      const [kind, number] = key.slice(prefix.length).split('/');
      const publish = publishes.get(Number(number));
      switch (kind) {
        // The kinds are named so that a publish comes before what is known of it.
        case 'a-publish':
          publishes.set(Number(number), decodePublish(Number(number), value));
          break;
        case 'b-sent':
          if (publish !== undefined) publish.packetId = value.readUInt16BE(0);
          break;
        case 'c-released':
          if (publish !== undefined) publish.released = true;
          releases.push([value.readDoubleBE(0), Number(number)]);
          break;
        case 'd-received':
          receivedIds.push(Number(number));
          break;
        case 'e-filters':
          filters = JSON.parse(value.toString()) as Subscription[];
      }
    }
    releases.sort(([a], [b]) => a - b);
    this.nextRelease = (releases.at(-1)?.[0] ?? 0) + 1;
    return {
      publishes: [...publishes.values()],
      releaseOrder: releases.map(([, sequence]) => sequence),
      receivedIds,
      filters,
    };
  }

  async apply(clientId: string, changes: readonly SessionStoreChange[]): Promise<void> {
    const database = await (this.database ??= open(this.options.path));
    const prefix = prefixOf(clientId);
    const received: number[] = [];
    if (changes.some(({ type }) => type === 'clearReceived')) {
      for await (const key of database.keys({ gt: `${prefix}d-received/`, lt: `${prefix}d-received/~` })) {
        received.push(Number(key.split('/').at(-1)));
      }
    }
    const operations = changes.flatMap((change) => this.toOperations(prefix, change, received));
    await database.batch(operations, { sync: this.options.sync ?? true });
  }

  private toOperations(prefix: string, change: SessionStoreChange, received: number[]): Operation[] {
    const put = (key: string, value: Buffer): Operation => ({ type: 'put', key: prefix + key, value });
    const del = (key: string): Operation => ({ type: 'del', key: prefix + key });
    switch (change.type) {
      case 'putPublish':
        return [put(`a-publish/${padded(change.publish.sequence)}`, encodePublish(change.publish))];
      case 'sendPublish': {
        const sequence = padded(change.sequence);
        if (change.packetId === 0) return [del(`b-sent/${sequence}`), del(`c-released/${sequence}`)];
        const value = Buffer.alloc(2);
        value.writeUInt16BE(change.packetId);
        return [put(`b-sent/${sequence}`, value)];
      }
      case 'releasePublish': {
        const value = Buffer.alloc(8);
        value.writeDoubleBE(this.nextRelease++);
        return [put(`c-released/${padded(change.sequence)}`, value)];
      }
      case 'deletePublish':
        return ['a-publish', 'b-sent', 'c-released'].map((kind) => del(`${kind}/${padded(change.sequence)}`));
      case 'putReceived':
        received.push(change.packetId);
        return [put(`d-received/${padded(change.packetId)}`, EMPTY)];
      case 'deleteReceived':
        return [del(`d-received/${padded(change.packetId)}`)];
      case 'clearReceived':
        return received.splice(0).map((packetId) => del(`d-received/${padded(packetId)}`));
      case 'putFilters':
        return [put('e-filters/', Buffer.from(JSON.stringify(change.filters)))];
    }
  }

  async close(): Promise<void> {
    const database = await this.database?.catch(() => undefined);
    this.database = undefined;
    await database?.close();
  }
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

type Operation =
  | { readonly type: 'put'; readonly key: string; readonly value: Buffer }
  | { readonly type: 'del'; readonly key: string };

/** What we use of `classic-level`. */
interface Database {
  open(): Promise<void>;
  close(): Promise<void>;
  iterator(range: { gt: string; lt: string }): AsyncIterable<[key: string, value: Buffer]>;
  keys(range: { gt: string; lt: string }): AsyncIterable<string>;
  batch(operations: Operation[], options: { sync: boolean }): Promise<void>;
}

const EMPTY = Buffer.alloc(0);

async function open(path: string): Promise<Database> {
  let module: { ClassicLevel: new (path: string, options: { valueEncoding: 'buffer' }) => unknown };
  try {
    module = await import('classic-level');
  } catch (error) {
    throw new TransportError(
      'ERR_DEPENDENCY',
      'LevelSessionStore needs the package classic-level: npm i classic-level',
      {
        cause: error,
      },
    );
  }
  const database = new module.ClassicLevel(path, { valueEncoding: 'buffer' }) as Database;
  try {
    await database.open();
  } catch (error) {
    throw new TransportError(
      'ERR_SESSION',
      `The session store '${path}' cannot be opened (is another process using it?)`,
      {
        cause: error,
      },
    );
  }
  return database;
}

/** Ends before `~`, the last character that can follow. */
function prefixOf(clientId: string): string {
  return `${encodeURIComponent(clientId).replaceAll('~', '%7E')}!`;
}

/** Numbers in the order of their text. */
function padded(number: number): string {
  return String(number).padStart(16, '0');
}

/** Four bytes of length, what is not the payload as JSON, the payload. */
function encodePublish(publish: StoredPublish): Buffer {
  const { topic, qos, retain, properties, storedAt, payload } = publish;
  const correlationData = properties?.correlationData?.toString('base64');
  const head = Buffer.from(
    JSON.stringify({ topic, qos, retain, storedAt, properties: { ...properties, correlationData } }),
  );
  const length = Buffer.alloc(4);
  length.writeUInt32BE(head.length);
  return Buffer.concat([length, head, payload]);
}

function decodePublish(sequence: number, value: Buffer): Mutable<StoredPublish> {
  const end = 4 + value.readUInt32BE(0);
  const { properties, ...head } = JSON.parse(value.toString('utf8', 4, end)) as {
    topic: string;
    qos: Qos;
    retain: boolean;
    storedAt: number;
    properties: Omit<Properties, 'correlationData'> & { correlationData?: string };
  };
  const { correlationData, ...plain } = properties;
  const restored: Properties = {
    ...plain,
    ...(correlationData !== undefined && { correlationData: Buffer.from(correlationData, 'base64') }),
  };
  return {
    sequence,
    ...head,
    ...(Object.keys(restored).length > 0 && { properties: restored }),
    payload: value.subarray(end),
    packetId: 0,
    released: false,
  };
}
