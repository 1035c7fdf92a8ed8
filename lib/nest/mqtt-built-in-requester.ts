import { randomBytes } from 'node:crypto';
import { assertGranted, type MqttMessage } from '../mqtt/index.js';
import { type Clock } from '../net/clock.js';
import { type IdleEntry, IdleList } from './idle-list.js';
import {
  type MqttRequester,
  type OutgoingRequest,
  parseJsonOrText,
  publishRequest,
  type RequestClient,
} from './mqtt-requester.js';
import { builtInReplyTopic } from './reply-protocol.js';
import { type PendingRequest, type ReplyCallback, RequestTable } from './request-table.js';

/** Reply topics that stay subscribed without an open request, so that the next one need not subscribe first. */
const MAX_IDLE_TOPICS = 100;

/**
 * Requests in the envelope of Nest's built-in MQTT transport: `{ pattern, data, id }` to the topic, the replies from
 * `<topic>/reply`.
 */
export class BuiltInRequester implements MqttRequester {
  readonly table: RequestTable;
  private readonly instance = randomBytes(8).toString('hex');
  private counter = 0;
  private readonly topics = new Map<string, ReplyTopic>();
  private readonly idle = new IdleList<ReplyTopic>();

  constructor(
    private readonly client: RequestClient,
    clock: Clock,
  ) {
    this.table = new RequestTable(clock, (request) => this.release(request));
  }

  request(message: OutgoingRequest, callback: ReplyCallback): () => void {
    const id = `${this.instance}${(++this.counter).toString(16)}`;
    const request = this.table.open(id, message.route, message.timeoutMs, callback);
    this.acquire(message.route)
      .then(() => request.open && publishRequest(this.client, request, message.publish(id)))
      .catch((error: unknown) => request.fail(error));
    return () => request.abandon();
  }

  receive(message: MqttMessage): void {
    const packet = parseJsonOrText(message.payload);
    if (typeof packet !== 'object' || packet === null) {
      this.table.find(undefined);
      return;
    }
    const { id, err, response, isDisposed } = packet as Record<string, unknown>;
    const request = this.table.find(typeof id === 'string' ? id : undefined);
    if (request === undefined) return;
    if (err !== undefined && err !== null) request.replyError(err);
    else if (isDisposed === true && response === undefined) request.reply(undefined, true);
    else request.reply(() => response, isDisposed === true);
  }

  private acquire(route: string): Promise<void> {
    let topic = this.topics.get(route);
    if (topic === undefined) {
      topic = new ReplyTopic(route);
      this.topics.set(route, topic);
    }
    topic.requests += 1;
    this.idle.remove(topic);
    topic.granted ??= this.subscribe(topic);
    return topic.granted;
  }

  private async subscribe(topic: ReplyTopic): Promise<void> {
    try {
      // Brokers exist (aedes) that let a SUBSCRIBE overtake the UNSUBSCRIBE before it.
      await topic.unsubscribed;
      const grants = await this.client.subscribe([{ filter: builtInReplyTopic(topic.route), qos: 1 }]);
      assertGranted(grants, { allowLower: true });
    } catch (error) {
      topic.granted = undefined;
      throw error;
    }
  }

  private release({ route }: PendingRequest): void {
    const topic = this.topics.get(route)!;
    topic.requests -= 1;
    if (topic.requests > 0) return;
    this.idle.push(topic);
    if (this.idle.size > MAX_IDLE_TOPICS) this.unsubscribe(this.idle.shift()!);
  }

  private unsubscribe(topic: ReplyTopic): void {
    topic.granted = undefined;
    const done = (): void => {
      topic.unsubscribed = undefined;
      if (topic.requests === 0) this.topics.delete(topic.route);
    };
    topic.unsubscribed = this.client.unsubscribe([builtInReplyTopic(topic.route)]).then(done, done);
  }
}

class ReplyTopic implements IdleEntry<ReplyTopic> {
  idlePrevious: ReplyTopic | undefined = undefined;
  idleNext: ReplyTopic | undefined = undefined;
  isIdle = false;
  /** Open ones. */
  requests = 0;
  granted: Promise<void> | undefined = undefined;
  /** An UNSUBSCRIBE without its answer. */
  unsubscribed: Promise<void> | undefined = undefined;

  constructor(readonly route: string) {}
}
