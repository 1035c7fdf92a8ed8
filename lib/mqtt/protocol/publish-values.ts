import { ClosedError, PublishError, SessionError, TimeoutError, TransportError } from '../../errors.js';
import { type AckPacket, type Properties } from '../codec/packets.js';
import { reasonName } from '../codec/reason-codes.js';
import { OutboundPublish } from './outbound-publish.js';
import { type StoredPublish } from './stored-session.js';
import { type PublishRequest, type PublishResult } from './types.js';

export const PUBLISH_SUCCESS: PublishResult = { reasonCode: 0 };

export function toResult(packet: AckPacket): PublishResult {
  const { reasonCode, properties } = packet;
  if (properties === undefined) return reasonCode === 0 ? PUBLISH_SUCCESS : { reasonCode };
  return {
    reasonCode,
    ...(properties.reasonString !== undefined && { reasonString: properties.reasonString }),
    ...(properties.userProperties !== undefined && { userProperties: properties.userProperties }),
  };
}

/** The error of a PUBACK or PUBREC of 0x80 and above. */
export function refusedPublish(topic: string, packet: AckPacket): PublishError {
  const { reasonCode, properties } = packet;
  const reason = properties?.reasonString === undefined ? '' : `: ${properties.reasonString}`;
  return new PublishError(
    `Publish to '${topic}' was refused by the server: ${reasonName(reasonCode)}${reason}`,
    reasonCode,
    // Unspecified, implementation specific, packet identifier in use, quota exceeded: may pass.
    { retriable: [0x80, 0x83, 0x91, 0x97].includes(reasonCode) },
  );
}

/** The caller's bytes without a copy. */
export function toBuffer(payload: PublishRequest['payload']): Buffer {
  if (typeof payload === 'string') return Buffer.from(payload);
  return Buffer.isBuffer(payload) ? payload : Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength);
}

/**
 * The properties with the Message Expiry Interval less the time in our queue.
 *
 * @param again it was sent before: it must go out whatever its age [MQTT-4.3.3-7]
 * @throws TimeoutError if it expired before it was sent
 */
export function withRemainingExpiry(publish: OutboundPublish, again: boolean, now: number): Properties | undefined {
  const { properties } = publish;
  const interval = properties?.messageExpiryInterval;
  // One that is no interval is for the encoder to refuse.
  if (properties === undefined || interval === undefined || !(interval >= 0)) return properties;
  const remaining = interval - Math.floor((now - publish.submittedAt) / 1000);
  if (remaining <= 0 && interval > 0 && !again) {
    throw new TimeoutError(
      `Publish to '${publish.topic}' expired after ${interval} s in the queue, before it was sent`,
      interval * 1000,
      { retriable: false },
    );
  }
  return { ...properties, messageExpiryInterval: Math.max(0, remaining) };
}

export function queueFull(topic: string, why: string): TransportError {
  return new TransportError('ERR_QUEUE_FULL', `Publish to '${topic}': the publish queue is full: ${why}`, {
    retriable: true,
  });
}

/** @param stored there is a session store, which sends it when the session goes on */
export function closedPublish(publish: OutboundPublish, reason: string, stored: boolean): ClosedError {
  const kept = stored && publish.qos > 0;
  return new ClosedError(`Publish to '${publish.topic}': ${reason}${kept ? '; the session store keeps it' : ''}`, {
    ambiguous: publish.written || kept,
  });
}

export function sessionLost(topic: string): SessionError {
  return new SessionError(`Publish to '${topic}': the server lost the session before it was acknowledged`, {
    code: 'ERR_SESSION_LOST',
    retriable: true,
    ambiguous: true,
  });
}

/** @param wallClockOffset what turns the session's clock into milliseconds since the epoch */
export function toStored(publish: OutboundPublish, wallClockOffset: number): StoredPublish {
  const { sequence, topic, payload, qos, retain, properties, packetId, stage, submittedAt } = publish;
  return {
    sequence,
    topic,
    payload,
    qos,
    retain,
    ...(properties !== undefined && { properties }),
    packetId,
    released: stage === 'released',
    storedAt: Math.round(submittedAt + wallClockOffset),
  };
}

/** As it was when the process ended; nobody waits for its end. */
export function fromStored(stored: StoredPublish, wallClockOffset: number): OutboundPublish {
  const publish = new OutboundPublish(
    stored.sequence,
    stored.topic,
    toBuffer(stored.payload),
    stored.qos,
    stored.retain,
    stored.properties,
    stored.storedAt - wallClockOffset,
    undefined,
  );
  publish.packetId = stored.packetId;
  if (stored.packetId !== 0) {
    publish.written = true;
    publish.handed = true;
    publish.stage = stored.released ? 'released' : 'sent';
  }
  return publish;
}
