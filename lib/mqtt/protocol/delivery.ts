import { type Properties, type Qos } from '../codec/packets.js';

/** One received application message; a topic alias is already resolved. */
export interface MqttMessage {
  readonly topic: string;
  /** A view of the received bytes; copy it to keep it longer than the handler without keeping the whole chunk. */
  readonly payload: Buffer;
  readonly qos: Qos;
  readonly retain: boolean;
  /** The sender says that it may have sent this before; it proves nothing. */
  readonly dup: boolean;
  readonly properties?: Properties;
}

/**
 * - `waiting`: handed out, not started. `running`: started. `retrying`: a local retry is planned.
 * - `succeeded`: acknowledged by its owner, the acknowledgement is not yet handed to a socket.
 * - `failed`: not acknowledged; comes back when the broker sends it again.
 * - `settled`: over. `abandoned`: the process or the client ended before.
 */
export type DeliveryState = 'waiting' | 'running' | 'retrying' | 'succeeded' | 'failed' | 'settled' | 'abandoned';

/** The acknowledgement token of one received message. It outlives connections; the packet identifier stays inside. */
export interface MqttDelivery {
  readonly message: MqttMessage;
  /** When the first copy arrived, in the milliseconds of the client's monotonic clock. */
  readonly receivedAt: number;
  readonly state: DeliveryState;
  /** 1 for the first run; one more each time a failed delivery runs again. */
  readonly attempt: number;
  /**
   * The broker has lost it, with its session or by using its packet identifier for another message: this is the only copy
   * left. Its acknowledgement is a counted no-op; once failed it runs again only if its owner calls `start()`.
   */
  readonly orphaned: boolean;
  /** The broker sent this one earlier and now once more without DUP: what was not finished of it belongs to this one. */
  readonly replaces: MqttDelivery | undefined;
}

export type DeliveryCause =
  'start' | 'retry' | 'fail' | 'acknowledge' | 'redelivered' | 'handed' | 'forget' | 'abandon';

/** Every change of a delivery. A pair that is not here is refused and counted, never done half. */
export const deliveryTransitions = {
  waiting: { start: 'running', fail: 'failed', acknowledge: 'succeeded', forget: 'settled', abandon: 'abandoned' },
  running: { retry: 'retrying', fail: 'failed', acknowledge: 'succeeded', forget: 'settled', abandon: 'abandoned' },
  retrying: { start: 'running', fail: 'failed', acknowledge: 'succeeded', forget: 'settled', abandon: 'abandoned' },
  failed: {
    start: 'running',
    redelivered: 'waiting',
    acknowledge: 'succeeded',
    forget: 'settled',
    abandon: 'abandoned',
  },
  succeeded: { handed: 'settled', forget: 'settled', abandon: 'abandoned' },
  settled: {},
  abandoned: {},
} as const satisfies Record<DeliveryState, Partial<Record<DeliveryCause, DeliveryState>>>;

/**
 * Where a delivery stands in relation to the broker.
 *
 * - `none`: QoS 0, the broker waits for nothing. `bound`: in a lane of the present connection.
 * - `held`: of an earlier connection of this session; a copy may still come.
 * - `orphaned`: the broker knows nothing of it any more. `superseded`: the message came again as a new one.
 */
export type Bond = 'none' | 'bound' | 'held' | 'orphaned' | 'superseded';

/** The core's view of a delivery. */
export class Delivery implements MqttDelivery {
  // valid for the session
  state: DeliveryState = 'waiting';
  attempt = 1;
  acknowledgedWith = 0;
  acknowledgeProperties: Properties | undefined = undefined;
  // valid until the bond changes
  bond: Bond;

  constructor(
    readonly message: MqttMessage,
    readonly receivedAt: number,
    readonly packetId: number,
    public replaces: Delivery | undefined = undefined,
  ) {
    this.bond = message.qos === 0 ? 'none' : 'bound';
    if (replaces !== undefined) this.attempt = replaces.attempt;
  }

  get kind(): 'deliver' {
    return 'deliver';
  }

  get orphaned(): boolean {
    return this.bond === 'orphaned';
  }
}
