import { type TransportError } from '../../errors.js';
import { AckWriter } from '../codec/acks.js';
import { type AckPacket, type Properties } from '../codec/packets.js';
import { type Delivery } from './delivery.js';
import { type OutboundPublish } from './outbound-publish.js';
import { type SubscribeJob, type UnsubscribeJob } from './subscribe-job.js';
import { type ConnectResult, type SubscriptionGrant } from './types.js';

/** What the session asks of its driver, in order. Bytes to write are apart: {@link Outbox.takeBytes}. */
export type SessionOutput =
  /** A delivery to hand out: a new one, or a failed one that the broker sent again. */
  | Delivery
  /** A publish is settled: `error` or `result` is set. */
  | OutboundPublish
  | SubscribeJob
  | UnsubscribeJob
  /** Open a transport to this server, then call `opened()`, or `lost()`. */
  | { readonly kind: 'dial'; readonly server: number }
  /** Write all bytes, then end the transport, then call `lost()`. */
  | { readonly kind: 'end' }
  /** Destroy the transport now, then call `lost()`. */
  | { readonly kind: 'abort'; readonly error: TransportError }
  | { readonly kind: 'connected'; readonly result: ConnectResult }
  | {
      readonly kind: 'disconnected';
      readonly cause: TransportError | undefined;
      readonly nextDialAt: number | undefined;
      /** What is tried next is MQTT 3.1.1: this server has refused 5. */
      readonly fallsBack: boolean;
    }
  /** No further try follows: the first connect failed, or the server's answer cannot change. */
  | { readonly kind: 'gaveUp'; readonly error: TransportError }
  /** Closed for good; `abandoned` were handed out and not finished. */
  | { readonly kind: 'ended'; readonly abandoned: readonly Delivery[] }
  | { readonly kind: 'sessionLost'; readonly orphaned: readonly Delivery[] }
  /** A failed delivery that will not come back: the broker uses its identifier for another message. It is settled. */
  | { readonly kind: 'dropped'; readonly delivery: Delivery }
  | { readonly kind: 'resubscribeRefused'; readonly grants: readonly SubscriptionGrant[] }
  | {
      readonly kind: 'serverDisconnect';
      readonly reasonCode: number;
      readonly reasonString: string | undefined;
      readonly serverReference: string | undefined;
    }
  /** Ask the user's authentication and call `authenticated()`. */
  | { readonly kind: 'authenticate'; readonly step: 'continue' | 'finish'; readonly data: Buffer | undefined }
  | { readonly kind: 'reauthenticated' }
  /** The transport's reading is to be paused or resumed. */
  | { readonly kind: 'reading'; readonly paused: boolean }
  | { readonly kind: 'warning'; readonly message: string };

/** Collects what follows from an input. Inputs only append, so calling back into the session is always safe. */
export class Outbox {
  private outputs: SessionOutput[] = [];
  private chunks: Buffer[] = [];
  private readonly acks = new AckWriter();

  emit(output: SessionOutput): void {
    this.outputs.push(output);
  }

  get hasOutputs(): boolean {
    return this.outputs.length > 0;
  }

  takeOutputs(): SessionOutput[] {
    const taken = this.outputs;
    this.outputs = [];
    return taken;
  }

  /** Bytes of one packet, after everything that was written before. */
  write(packet: Buffer): void {
    const acks = this.acks.take();
    if (acks !== undefined) this.chunks.push(acks);
    this.chunks.push(packet);
  }

  /** An acknowledgement: a run of them becomes one buffer. */
  acknowledge(type: AckPacket['type'], packetId: number, reasonCode: number, properties: Properties | undefined): void {
    this.acks.add(type, packetId, reasonCode, properties);
  }

  get hasBytes(): boolean {
    return this.chunks.length > 0 || this.acks.size > 0;
  }

  takeBytes(): Buffer[] {
    const acks = this.acks.take();
    const taken = this.chunks;
    if (acks !== undefined) taken.push(acks);
    this.chunks = [];
    return taken;
  }
}
