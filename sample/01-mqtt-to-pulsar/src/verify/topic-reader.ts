import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Command,
  commandOf,
  FrameSplitter,
  messagesOf,
  simpleFrame,
  type StoredMessage,
  Type,
} from './pulsar-frames.js';

export interface ReadTopicOptions {
  /** Stays on the connection to the given URL whatever a lookup answers: past an advertised fault proxy. */
  readonly stayAtUrl?: boolean;
  /** Milliseconds without any answer before the reading fails. Default 20,000. */
  readonly timeout?: number;
}

/** 2^64-1: Pulsar's "before everything" in a message id. */
const EARLIEST = { ledgerId: '18446744073709551615', entryId: '18446744073709551615' };
const PERMITS = 1_000;

/**
 * Everything a topic holds, from its first message to what is its last one at the time of the call, in stored order; the
 * partitions of a partitioned topic one after the other. A topic that does not exist is an empty array.
 */
export async function readTopic(url: string, topic: string, options: ReadTopicOptions = {}): Promise<StoredMessage[]> {
  const link = await Link.open(url, options.timeout ?? 20_000);
  try {
    const { partitionMetadataResponse: metadata } = await link.ask({
      type: Type.PARTITIONED_METADATA,
      partitionMetadata: { topic, requestId: 1 },
    });
    if (metadata.response === 1 && /not found|not exist/i.test(String(metadata.message))) return [];
    if (metadata.response === 1) throw new Error(`${topic}: ${metadata.message}`);
    const partitions = (metadata.partitions as number | undefined) ?? 0;
    if (partitions === 0) return await readOne(url, topic, options);
    const messages: StoredMessage[] = [];
    for (let index = 0; index < partitions; index++) {
      messages.push(...(await readOne(url, `${topic}-partition-${index}`, options)));
    }
    return messages;
  } finally {
    link.close();
  }
}

async function readOne(url: string, topic: string, options: ReadTopicOptions): Promise<StoredMessage[]> {
  const link = await lookUp(url, topic, options);
  try {
    await link.ask({
      type: Type.SUBSCRIBE,
      subscribe: {
        topic,
        subscription: `reader-${process.pid}-${Date.now()}`,
        subType: 0,
        consumerId: 1,
        requestId: 2,
        durable: false,
        startMessageId: EARLIEST,
        initialPosition: 1,
      },
    });
    const last = (await link.ask({ type: Type.GET_LAST_MESSAGE_ID, getLastMessageId: { consumerId: 1, requestId: 3 } }))
      .getLastMessageIdResponse.lastMessageId;
    // No message yet: the entry is -1, which reads as 2^64-1.
    if (last.entryId > Number.MAX_SAFE_INTEGER) return [];
    const messages: StoredMessage[] = [];
    link.write({ type: Type.FLOW, flow: { consumerId: 1, messagePermits: PERMITS } });
    for (let used = 0; ;) {
      const frame = await link.next();
      const command = commandOf(frame);
      if (command.type !== Type.MESSAGE) continue;
      const stored = messagesOf(frame);
      messages.push(...stored);
      const { ledgerId, entryId } = command['message'].messageId;
      if (ledgerId > last.ledgerId || (ledgerId === last.ledgerId && entryId >= last.entryId)) return messages;
      used += stored.length;
      if (used < PERMITS / 2) continue;
      link.write({ type: Type.FLOW, flow: { consumerId: 1, messagePermits: used } });
      used = 0;
    }
  } finally {
    link.close();
  }
}

/** A connection to the broker that owns the topic. */
async function lookUp(url: string, topic: string, options: ReadTopicOptions): Promise<Link> {
  let here = url;
  let authoritative = false;
  for (let attempt = 0; attempt < 60; attempt++) {
    const link = await Link.open(here, options.timeout ?? 20_000);
    const command: Command = await link.ask({ type: Type.LOOKUP, lookupTopic: { topic, requestId: 1, authoritative } });
    const answer = command['lookupTopicResponse'];
    const there = answer.proxyThroughServiceUrl === true ? url : (answer.brokerServiceUrl as string | undefined);
    if (answer.response === 1 && (options.stayAtUrl === true || there === here)) return link;
    link.close();
    if (answer.response === 2) await sleep(500);
    else if (there !== undefined) here = there;
    authoritative = answer.response !== 2 && answer.authoritative === true;
  }
  throw new Error(`${topic}: no broker serves it`);
}

/** One connection: questions in turn, answers in turn. */
class Link {
  private readonly splitter = new FrameSplitter();
  private readonly frames: Buffer[] = [];
  private wake: (() => void) | undefined;
  private failure: Error | undefined;

  private constructor(
    private readonly socket: Socket,
    private readonly timeout: number,
  ) {
    socket.on('data', (chunk: Buffer) => {
      for (const frame of this.splitter.push(chunk)) {
        if (commandOf(frame).type === Type.PING) this.write({ type: Type.PONG, pong: {} });
        else this.frames.push(frame);
      }
      this.wake?.();
    });
    const end = (error?: Error): void => {
      this.failure ??= error ?? new Error('the broker closed the connection');
      this.wake?.();
    };
    socket.on('error', end).on('close', () => end());
  }

  static async open(url: string, timeout: number): Promise<Link> {
    const { hostname, port, protocol } = new URL(url);
    if (protocol !== 'pulsar:') throw new Error(`only pulsar:// can be read back, not ${protocol}//`);
    const socket = connect({ host: hostname, port: Number(port === '' ? 6650 : port), noDelay: true });
    const link = new Link(socket, timeout);
    await link.ask({ type: Type.CONNECT, connect: { clientVersion: 'read-back', protocolVersion: 19 } });
    return link;
  }

  write(command: Command): void {
    this.socket.write(simpleFrame(command));
  }

  /** The next command that is not a message; an ERROR rejects. */
  async ask(command: Command): Promise<Command> {
    this.write(command);
    for (;;) {
      const answer: Command = commandOf(await this.next());
      if (answer.type === Type.ERROR) throw new Error(`Pulsar answered: ${answer['error'].message}`);
      if (answer.type in NOT_AN_ANSWER) continue;
      return answer;
    }
  }

  async next(): Promise<Buffer> {
    const deadline = Date.now() + this.timeout;
    for (;;) {
      const frame = this.frames.shift();
      if (frame !== undefined) return frame;
      if (this.failure !== undefined) throw this.failure;
      const left = deadline - Date.now();
      if (left <= 0) throw new Error(`no answer from Pulsar in ${this.timeout} ms`);
      const timer = setTimeout(() => this.wake?.(), left);
      await new Promise<void>((resolve) => (this.wake = resolve));
      clearTimeout(timer);
    }
  }

  close(): void {
    this.socket.destroy();
  }
}

/** ACTIVE_CONSUMER_CHANGE may come before the answer to SUBSCRIBE. */
const NOT_AN_ANSWER: Readonly<Record<number, true>> = { 31: true };
