/** One seeded schedule: session, application, wire and broker, a step at a time. */
import mqtt, { type Packet } from 'mqtt-packet';
import { type SessionConfig } from '../../../lib/mqtt/protocol/config.js';
import { type MqttDelivery } from '../../../lib/mqtt/protocol/delivery.js';
import { type OutboundPublish } from '../../../lib/mqtt/protocol/outbound-publish.js';
import { MqttSession } from '../../../lib/mqtt/protocol/session.js';
import { ModelBroker, type ModelMessage } from './model-broker.js';
import { check, Observer } from './observer.js';
import { PublishWatch } from './publish-watch.js';
import { SeededRandom } from './random.js';

export class World {
  readonly random: SeededRandom;
  readonly session: MqttSession;
  readonly broker: ModelBroker;
  readonly observer: Observer;
  readonly publishes: PublishWatch;
  readonly config: SessionConfig;
  /** What happened, for the report of a failing seed. */
  readonly log: string[] = [];

  private now = 1000;
  private nextUid = 1;
  private readonly identicalPayloads: boolean;
  private readonly deliveries: MqttDelivery[] = [];

  // the transport
  private transport: 'none' | 'dialing' | 'open' | 'ending' = 'none';
  /** Bytes taken from the session, on their way to the broker. */
  private toBroker: Buffer[] = [];
  private readingPaused = false;
  private handedOut: MqttDelivery[] = [];
  private ended = false;

  constructor(seed: number) {
    const random = new SeededRandom(seed);
    this.random = random;
    const version = random.chance(0.6) ? 5 : 4;
    const setsDup = random.chance(0.8);
    const resends = random.chance(0.3);
    // Where copies cannot be told from new messages, no rule can be held; those worlds have distinct payloads.
    this.identicalPayloads = setsDup && !resends && random.chance(0.3);
    this.broker = new ModelBroker(
      {
        version,
        setsDup,
        resends,
        shufflesRedelivery: random.chance(0.2),
        overruns: random.chance(0.2),
        receiveMaximum: 1 + random.below(5),
        topicAliasMaximum: random.chance(0.3) ? 2 : 0,
      },
      random,
    );
    this.config = modelConfig(version, random, setsDup);
    this.session = new MqttSession(this.config);
    const { bindWithoutDup } = this.config;
    this.observer = new Observer({ version, bindWithoutDup, recognisable: setsDup || bindWithoutDup });
    this.publishes = new PublishWatch(
      version === 5 ? this.broker.traits.receiveMaximum : 65_535,
      version === 5 ? 65_535 : this.config.qos2InFlight,
    );
    this.session.connect(false, this.now);
    this.drain();
  }

  /** A random step. */
  step(): void {
    this.now += this.random.chance(0.02) ? this.random.below(20_000) : this.random.below(20);
    const [, action] = pickWeighted(ACTIONS, this.random);
    action(this);
    this.drain();
    if (this.random.chance(0.1)) this.observer.checkStates(this.session.deliveries);
  }

  /** What the session asks for. */
  private drain(): void {
    while (this.session.hasOutputs) {
      for (const output of this.session.takeOutputs()) {
        switch (output.kind) {
          case 'dial':
            check(this.transport === 'none', 'a dial while a transport is there');
            this.transport = 'dialing';
            break;
          case 'deliver':
            this.handedOut.push(output);
            break;
          case 'published':
            this.publishes.settled(output);
            break;
          case 'end':
            this.transport = this.transport === 'open' ? 'ending' : this.transport;
            break;
          case 'abort':
            this.cut();
            break;
          case 'reading':
            this.readingPaused = output.paused;
            break;
          case 'ended':
            this.ended = true;
            break;
          default:
        }
      }
    }
  }

  /** The end of a turn: everything taken is handed to the socket. */
  takeBytes(): void {
    if (this.transport === 'none' || this.transport === 'dialing') return;
    const bytes = this.session.takeBytes(this.now);
    for (const packet of this.decode(bytes)) {
      this.note(() => `client ${packet.cmd} ${packet.messageId ?? ''}`);
      this.observer.written(packet);
      this.publishes.written(packet);
    }
    this.toBroker.push(...bytes);
    this.drain();
    if (this.session.online && this.transport === 'open') this.observer.nothingReady('at the end of the turn');
  }

  private decode(bytes: readonly Buffer[]): Packet[] {
    const packets: Packet[] = [];
    const parser = mqtt.parser({ protocolVersion: this.broker.traits.version });
    parser.on('packet', (packet) => packets.push(packet));
    parser.on('error', (error) => {
      throw error;
    });
    for (const chunk of bytes) parser.parse(chunk);
    return packets;
  }

  /** Bytes reach the broker. */
  private deliverToBroker(): void {
    const bytes = this.toBroker;
    this.toBroker = [];
    for (const packet of this.decode(bytes)) {
      if (packet.cmd === 'connect') this.answerConnect(packet.properties?.receiveMaximum ?? 65_535);
      else if (this.broker.connected) this.broker.receive(packet);
    }
    if (this.broker.disconnectReceived || this.transport === 'ending') this.cut();
  }

  private answerConnect(receiveMaximum: number): void {
    const kind = this.random.next();
    if (this.calm || kind < 0.85) this.broker.accept(receiveMaximum, this.calm || this.random.chance(0.85));
    else if (kind < 0.95) this.broker.refuse();
    else this.cut();
  }

  /** One packet of the broker reaches the session, whole or in two pieces. */
  private deliverToClient(): void {
    if (this.transport !== 'open' || this.readingPaused) return;
    const packet = this.broker.out.shift();
    if (packet === undefined) return;
    this.note(() => `server ${packet.cmd} ${packet.packetId || ''} ${packet.message?.uid ?? ''}`);
    const dup = (packet.bytes[0] & 8) !== 0;
    const sessionPresent = (packet.bytes[2] & 1) === 1;
    const split = this.random.chance(0.3) ? this.random.below(packet.bytes.length) : 0;
    this.handedOut = [];
    const wasOnline = this.session.online;
    if (split > 0) this.session.receive(packet.bytes.subarray(0, split), this.now);
    this.publishes.answering(packet);
    this.session.receive(packet.bytes.subarray(split), this.now);
    const accepted = this.session.online;
    this.drain();
    if (packet.cmd === 'connack' && accepted) {
      this.observer.connected(sessionPresent);
      this.publishes.connected(sessionPresent);
    }
    if (packet.cmd === 'publish' && wasOnline) {
      this.observer.published(packet, dup, this.handedOut, !accepted);
      this.deliveries.push(...this.handedOut);
    }
    if (packet.cmd === 'pubrel' && wasOnline) this.observer.released(packet.packetId);
    const { config } = this;
    const bound =
      this.broker.traits.overruns || this.broker.traits.version === 4 ? config.overrunLimit : config.receiveMaximum;
    // A message after its PUBREC still counts until PUBCOMP, so the broker's own view is what is compared.
    if (!this.broker.traits.resends) {
      check(this.observer.windowUsed <= bound, `M6: ${this.observer.windowUsed} unacknowledged, allowed are ${bound}`);
    }
  }

  /** The connection is gone, with everything on its way. */
  cut(): void {
    if (this.transport === 'none') return;
    this.note(() => 'cut');
    this.transport = 'none';
    this.toBroker = [];
    this.readingPaused = false;
    this.broker.cut();
    this.session.lost(undefined, this.now, this.random.next());
    this.observer.connectionLost();
    this.publishes.connectionLost();
    this.drain();
  }

  private openTransport(): void {
    if (this.transport !== 'dialing') return;
    if (!this.calm && this.random.chance(0.1)) {
      this.cut();
      return;
    }
    this.transport = 'open';
    this.session.opened({}, this.now);
  }

  private brokerMessage(): void {
    const uid = this.nextUid++;
    const qos = this.random.pick([0, 1, 1, 1, 2, 2] as const);
    const payload = this.identicalPayloads && qos > 0 ? 'same' : `m${uid}`;
    const message: ModelMessage = { uid, topic: this.random.pick(['a', 'b/c']), payload, qos };
    if (qos === 0 && !this.broker.connected) return;
    this.broker.queue.push(message);
    this.broker.pump();
  }

  /**
   * A broker resends after a long silence: nothing is on its way then. (A copy that crosses its acknowledgement makes a
   * second acknowledgement, which no client can keep from hitting the identifier's next message.)
   */
  private resend(): void {
    const { broker } = this;
    if (!broker.connected || !broker.traits.resends || this.toBroker.length > 0 || this.transport !== 'open') return;
    if (broker.out.length > 0 || this.readingPaused) return;
    broker.resendOne();
    this.deliverToClient();
  }

  private anyDelivery(): MqttDelivery | undefined {
    if (this.deliveries.length === 0) return undefined;
    // Mostly a recent one, sometimes any, also one that is long over.
    const recent = this.random.chance(0.8) ? Math.min(10, this.deliveries.length) : this.deliveries.length;
    return this.deliveries[this.deliveries.length - 1 - this.random.below(recent)];
  }

  private withDelivery(act: (delivery: MqttDelivery) => void): void {
    const delivery = this.anyDelivery();
    if (delivery !== undefined) act(delivery);
  }

  private acknowledge(delivery: MqttDelivery, reasonCode: number): void {
    this.note(() => `ack ${contentOfDelivery(delivery)} ${delivery.state}`);
    const first = this.session.acknowledge(delivery as never, reasonCode, undefined);
    this.observer.acknowledged(delivery, reasonCode, first);
  }

  private fail(delivery: MqttDelivery): void {
    this.note(() => `fail ${contentOfDelivery(delivery)} ${delivery.state}`);
    this.observer.failed(delivery, this.session.fail(delivery as never));
  }

  private publish(): void {
    const qos = this.random.pick([0, 1, 1, 2] as const);
    this.publishes.submit(qos, (request, token) => this.session.publish(request, token, this.now));
  }

  private subscribe(): void {
    const filter = this.random.pick(['x', 'y/+', 'z/#']);
    if (this.random.chance(0.7)) this.session.subscribe([{ filter, qos: 1 }], {}, this.now);
    else this.session.unsubscribe([filter], {}, this.now);
  }

  private passTime(): void {
    const deadline = this.session.nextDeadline();
    if (deadline === undefined) return;
    this.now = Math.max(this.now, deadline);
    this.session.handleTimeout(this.now);
    this.drain();
    const next = this.session.nextDeadline();
    check(next === undefined || next > this.now, `the deadline ${next} is not after ${this.now}: a timer loop`);
  }

  /** Faults are over: everything must come to its end. */
  calm = false;

  /** Runs until nothing is open any more. */
  settleDown(): void {
    this.calm = true;
    this.session.resumeIntake(this.now);
    this.session.setWritable(true, this.now);
    this.drain();
    for (let round = 0; round < 400; round++) {
      if (this.finished()) {
        this.takeBytes();
        return;
      }
      this.now += 5;
      if (this.transport === 'none' || this.transport === 'ending') this.passTime();
      this.openTransport();
      this.drain();
      this.takeBytes();
      if (this.toBroker.length > 0 || this.transport === 'ending') this.deliverToBroker();
      while (this.broker.out.length > 0 && this.transport === 'open' && !this.readingPaused) this.deliverToClient();
      this.finishDeliveries(round);
    }
    throw new Error(`not finished: ${JSON.stringify(this.openThings())}`);
  }

  private finishDeliveries(round: number): void {
    let failed = false;
    for (const { delivery, expected } of this.observer.open()) {
      if (expected === 'failed' && !delivery.orphaned) {
        failed = true;
        // The broker has had its chance: it has forgotten this one.
        if (round % 40 === 39 && !this.observer.isClaimed(delivery)) {
          check(this.session.unclaimed().includes(delivery as never), 'a forgotten failed delivery is not told of');
          this.observer.started(delivery, this.session.start(delivery as never));
        }
      } else if (expected !== 'succeeded') this.acknowledge(delivery, 0);
    }
    this.drain();
    // Only a new connection brings the failed ones back.
    if (failed && this.session.online && round % 20 === 19) this.session.reconnect('failed deliveries', this.now);
    this.drain();
  }

  private finished(): boolean {
    return this.session.online && Object.values(this.openThings()).every((count) => count === 0);
  }

  private openThings(): { [what: string]: number } {
    return {
      brokerQueue: this.broker.queue.length,
      brokerInflight: this.broker.inflight.size,
      // A succeeded one whose message the broker has forgotten waits for a copy that never comes.
      deliveries: this.observer.open().filter(({ expected }) => expected !== 'succeeded').length,
      publishes: this.session.pendingPublishes,
      window: this.session.windowUsed,
    };
  }

  /** The end of the schedule. */
  finish(): void {
    const graceful = this.random.chance(0.7);
    if (graceful) this.settleDown();
    this.observer.checkStates(this.session.deliveries);
    if (graceful) {
      const handled = this.observer.handledUids;
      for (const uid of this.observer.fedUids) {
        check(handled.has(uid), `message uid ${uid} reached us and was never handled`);
      }
    }
    this.session.close({ reasonCode: 0 }, this.now);
    this.drain();
    if (this.transport !== 'none') {
      this.takeBytes();
      this.cut();
    }
    check(this.ended, 'close() did not end the session');
    check(this.session.pendingPublishes === 0, 'publishes are left after the end');
    this.publishes.finish(this.broker.stored);
  }

  note(text: () => string): void {
    this.log.push(`${this.now} ${text()}`);
  }

  /** Weighted by how often it happens. */
  static readonly actions: readonly (readonly [number, (world: World) => void])[] = [
    [10, (w) => w.brokerMessage()],
    [30, (w) => w.deliverToClient()],
    [16, (w) => w.takeBytes()],
    [14, (w) => (w.toBroker.length > 0 || w.transport === 'ending') && w.deliverToBroker()],
    [8, (w) => w.openTransport()],
    [6, (w) => w.passTime()],
    [2, (w) => w.cut()],
    [14, (w) => w.withDelivery((d) => w.observer.started(d, w.session.start(d as never)))],
    [4, (w) => w.withDelivery((d) => w.observer.retried(d, w.session.retry(d as never)))],
    [4, (w) => w.withDelivery((d) => w.fail(d))],
    [16, (w) => w.withDelivery((d) => w.acknowledge(d, w.random.chance(0.1) ? 0x83 : 0))],
    [6, (w) => w.publish()],
    [1, (w) => w.publishes.cancelOne(w.random, (publish: OutboundPublish) => w.session.cancel(publish))],
    [2, (w) => w.subscribe()],
    [1, (w) => w.session.reconnect('model', w.now)],
    [1, (w) => w.session.pauseIntake(w.now)],
    [2, (w) => w.session.resumeIntake(w.now)],
    [1, (w) => w.session.setWritable(w.random.chance(0.6), w.now)],
    [2, (w) => w.resend()],
    [1, (w) => w.broker.connected && w.broker.sendStray()],
    [1, (w) => w.broker.connected && w.random.chance(0.3) && w.broker.disconnect()],
  ];
}

const ACTIONS = World.actions;
const TOTAL = ACTIONS.reduce((sum, [weight]) => sum + weight, 0);

function pickWeighted(actions: typeof ACTIONS, random: SeededRandom): (typeof ACTIONS)[number] {
  let left = random.below(TOTAL);
  for (const action of actions) {
    left -= action[0];
    if (left < 0) return action;
  }
  return actions[0];
}

function contentOfDelivery(delivery: MqttDelivery): string {
  return delivery.message.payload.toString();
}

function modelConfig(version: 4 | 5, random: SeededRandom, setsDup: boolean): SessionConfig {
  return {
    servers: ['model-a', 'model-b'],
    clientId: 'model',
    protocolVersion: version,
    cleanStart: false,
    sessionExpiry: 3600,
    ephemeral: false,
    will: undefined,
    userProperties: [],
    requestResponseInformation: false,
    requestProblemInformation: true,
    authenticationMethod: undefined,
    checksServer: false,
    renewsCredentials: false,
    receiveMaximum: 1 + random.below(6),
    maximumPacketSize: 1_000_000,
    topicAliasMaximum: 0,
    topicAliases: random.chance(0.7),
    strictResends: false,
    strictReceiveMaximum: false,
    overrunLimit: 100,
    bindWithoutDup: !setsDup && random.chance(0.7),
    keepAlive: 30,
    pingTimeout: undefined,
    connectTimeout: 1000,
    subscribeTimeout: 5000,
    closeTimeout: 1000,
    subscribeBatchSize: 3,
    reconnectDelay: (attempt, jitter) => 10 + jitter * 10 * 2 ** Math.min(attempt, 8),
    longDelay: (attempt, jitter) => 100 + jitter * 100 * 2 ** Math.min(attempt, 8),
    maxTakeovers: 3,
    onSessionLost: random.chance(0.5) ? 'republish' : 'reject',
    qos2InFlight: 2,
    publishQueue: {
      maxMessages: random.chance(0.2) ? 3 : 1000,
      maxBytes: 1_000_000,
      overflow: random.chance(0.5) ? 'reject' : 'dropOldest',
      offlineQos0: random.chance(0.5),
    },
    persistent: false,
    firstSequence: 1,
    wallClockOffset: 0,
  };
}
