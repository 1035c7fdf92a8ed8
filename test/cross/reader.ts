import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { goReader, javaReader, type ReaderProgram } from './programs.js';

/** A message as a client that is not ours has read it; bytes are base64. */
export interface CrossMessage {
  readonly payload: string | null;
  readonly key?: string;
  /** Java only: the key of a message that was sent with a key of bytes. */
  readonly keyBytes?: string;
  readonly orderingKey?: string;
  readonly properties: Readonly<Record<string, string>>;
  readonly eventTime: number;
  readonly publishTime: number;
  /** On the clock of the reader's machine, milliseconds since 1970. */
  readonly receivedAt: number;
  /** Java only. */
  readonly sequenceId?: number;
  readonly producerName: string;
  readonly ledgerId: number;
  readonly entryId: number;
  readonly partition: number;
  readonly batchIndex: number;
  readonly batchSize: number;
  /** Java only; 0: at once. */
  readonly deliverAt?: number;
  /** Java only. */
  readonly replicateTo?: readonly string[];
  /** Java only: names of the keys that the message is encrypted for. */
  readonly encryptedFor?: readonly string[];
  /** Java only. */
  readonly schemaVersion?: string | null;
  /** Decoded by the topic's schema. */
  readonly value?: unknown;
}

/** A line of the reader's: a message, or one of these. */
interface Answer {
  readonly ready?: boolean;
  readonly error?: string;
  readonly end?: number;
  readonly more?: boolean;
}

export interface ReadCommand {
  readonly topic: string;
  /** -1: however many there are, until two seconds bring none. */
  readonly count: number;
  /** PEM files by the name of the key. */
  readonly privateKeys?: Readonly<Record<string, string>>;
  /** A Shared subscription: delayed messages are held back in no other. */
  readonly shared?: boolean;
  /** Java: which schema to read with. Default bytes. */
  readonly schema?: 'bytes' | 'string' | 'auto';
  /** Go: the definition to decode with. */
  readonly avro?: string;
  readonly json?: string;
}

/** A program around Pulsar's Java or Go client, which reads topics on command; it ends with this process. */
export class CrossReader {
  private readonly child: ChildProcess;
  private readonly lines: AsyncIterator<Answer>;
  /** The end of what it wrote to standard error. */
  private complaints = '';

  private constructor(
    readonly language: 'java' | 'go',
    { command, args }: ReaderProgram,
    url: string,
  ) {
    this.child = spawn(command, [...args, url], { stdio: 'pipe' });
    this.child.stderr?.on(
      'data',
      (text: Buffer) => (this.complaints = (this.complaints + text.toString()).slice(-4000)),
    );
    this.lines = answers(this.child);
  }

  static async java(url: string): Promise<CrossReader> {
    return new CrossReader('java', await javaReader(), url).started();
  }

  static async go(url: string): Promise<CrossReader> {
    return new CrossReader('go', goReader(), url).started();
  }

  /** Everything in the topic from its beginning; rejects if there are more or fewer messages than `count` from 0 on. */
  async read(command: ReadCommand): Promise<CrossMessage[]> {
    this.child.stdin?.write(`${JSON.stringify({ schema: 'bytes', ...command })}\n`);
    const messages: CrossMessage[] = [];
    for (;;) {
      const line = await this.next();
      if (line.end === undefined) messages.push(line as unknown as CrossMessage);
      else if (command.count < 0 || (line.end === command.count && line.more === false)) return messages;
      else throw new Error(`${this.language} read ${line.end} of ${command.count} messages, more: ${line.more ?? '?'}`);
    }
  }

  async close(): Promise<void> {
    if (this.child.exitCode !== null) return;
    const ended = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.stdin?.end();
    const timer = setTimeout(() => this.child.kill('SIGKILL'), 10_000);
    await ended;
    clearTimeout(timer);
  }

  private async started(): Promise<this> {
    await this.next();
    return this;
  }

  private async next(): Promise<Answer> {
    const { value, done } = await this.lines.next();
    if (done === true) throw new Error(`The ${this.language} reader ended: ${this.complaints}`);
    if (value.error !== undefined) throw new Error(`${this.language}: ${value.error}`);
    return value;
  }
}

/** The lines that are for us; the Java client writes others. */
async function* answers(child: ChildProcess): AsyncGenerator<Answer, void> {
  if (child.stdout === null) return;
  for await (const line of createInterface({ input: child.stdout })) {
    if (line.startsWith('cross:')) yield JSON.parse(line.slice(6)) as Answer;
  }
}
