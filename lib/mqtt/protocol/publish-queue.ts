import { type TransportError } from '../../errors.js';
import { type SessionConfig } from './config.js';
import { Deque } from './deque.js';
import { type OutboundPublish } from './outbound-publish.js';
import { queueFull } from './publish-values.js';

/** Publishes that wait for a connection or for the server's Receive Maximum, in the order of the calls, bounded. */
export class PublishQueue {
  /** QoS 1 and 2. */
  private readonly waiting = new Deque<OutboundPublish>();
  /** On its own road: the server's Receive Maximum does not hold it back [MQTT5 3.3.4]. */
  private readonly waitingQos0 = new Deque<OutboundPublish>();
  private count = 0;
  private sumBytes = 0;
  /** Settled entries that still stand in a queue. */
  private stale = 0;

  constructor(private readonly bounds: SessionConfig['publishQueue']) {}

  get length(): number {
    return this.count;
  }

  get bytes(): number {
    return this.sumBytes;
  }

  /**
   * Makes room as the overflow policy says.
   *
   * @returns what was pushed out, to be settled with the error
   * @throws TransportError ERR_QUEUE_FULL if there is no room
   */
  makeRoom(publish: OutboundPublish): readonly (readonly [OutboundPublish, TransportError])[] {
    const pushedOut: [OutboundPublish, TransportError][] = [];
    while (this.bounds.overflow === 'dropOldest' && this.isFull(publish)) {
      const oldest = this.oldestUnwritten();
      if (oldest === undefined) break;
      this.remove(oldest);
      // Out of the sight of the next search.
      oldest.stage = 'settled';
      pushedOut.push([oldest, queueFull(oldest.topic, 'a newer publish took its place')]);
    }
    if (this.isFull(publish)) throw queueFull(publish.topic, `${this.count} messages, ${this.sumBytes} bytes wait`);
    return pushedOut;
  }

  private isFull(publish: OutboundPublish): boolean {
    return this.count + 1 > this.bounds.maxMessages || this.sumBytes + publish.size > this.bounds.maxBytes;
  }

  private oldestUnwritten(): OutboundPublish | undefined {
    const a = firstUnwritten(this.waiting);
    const b = firstUnwritten(this.waitingQos0);
    if (a === undefined || b === undefined) return a ?? b;
    return a.sequence < b.sequence ? a : b;
  }

  push(publish: OutboundPublish): void {
    (publish.qos === 0 ? this.waitingQos0 : this.waiting).push(publish);
    this.added(publish);
  }

  /** Back to the front: it was on its way in a session that is lost. */
  unshift(publish: OutboundPublish): void {
    this.waiting.unshift(publish);
    this.added(publish);
  }

  private added(publish: OutboundPublish): void {
    this.count += 1;
    this.sumBytes += publish.size;
  }

  private subtract(publish: OutboundPublish): void {
    this.count -= 1;
    this.sumBytes -= publish.size;
  }

  /** Takes one out from the middle; its place is cleared later. */
  remove(publish: OutboundPublish): void {
    this.subtract(publish);
    this.stale += 1;
    if (this.stale > 64 && this.stale > this.count) {
      for (const queue of [this.waiting, this.waitingQos0]) {
        queue.filter((entry) => entry !== publish && entry.stage === 'queued');
      }
      this.stale = 0;
    }
  }

  shiftQos0(): OutboundPublish | undefined {
    return this.take(this.waitingQos0);
  }

  peek(): OutboundPublish | undefined {
    return this.skipStale(this.waiting);
  }

  shift(): OutboundPublish | undefined {
    return this.take(this.waiting);
  }

  private take(queue: Deque<OutboundPublish>): OutboundPublish | undefined {
    const publish = this.skipStale(queue);
    if (publish === undefined) return undefined;
    queue.shift();
    this.subtract(publish);
    return publish;
  }

  private skipStale(queue: Deque<OutboundPublish>): OutboundPublish | undefined {
    for (let head = queue.peek(); head !== undefined; head = queue.peek()) {
      if (head.stage === 'queued') return head;
      queue.shift();
      this.stale -= 1;
    }
    return undefined;
  }

  /** Everything, in the order of the calls; the queue is empty afterwards. */
  takeAll(): OutboundPublish[] {
    const all = [...this.waiting, ...this.waitingQos0].filter(({ stage }) => stage === 'queued');
    this.waiting.clear();
    this.waitingQos0.clear();
    this.count = 0;
    this.sumBytes = 0;
    this.stale = 0;
    return all.sort((a, b) => a.sequence - b.sequence);
  }
}

function firstUnwritten(queue: Deque<OutboundPublish>): OutboundPublish | undefined {
  for (const publish of queue) if (publish.stage === 'queued' && !publish.written) return publish;
  return undefined;
}
