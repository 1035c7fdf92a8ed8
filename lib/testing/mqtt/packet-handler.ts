import {
  type IDisconnectPacket,
  type IPubrelPacket,
  type ISubscribePacket,
  type IUnsubscribePacket,
  type Packet,
} from 'mqtt-packet';
import { type MqttBrokerConnection } from './connection.js';
import { type MqttBrokerOptions } from './options.js';
import { type MqttPackets } from './packets.js';
import { type Router } from './router.js';
import { type BrokerMessage, type MqttSession } from './session.js';
import { filterFault, parseFilter } from './topic-match.js';

type ReceivedPublish = MqttPackets['publish'];

/** What the handling of packets after CONNECT needs from the broker. */
export interface PacketHost {
  readonly options: MqttBrokerOptions;
  readonly router: Router;
  /** The test's verdict on a message of a client: a reason code, or undefined. */
  verdict(packet: ReceivedPublish, connection: MqttBrokerConnection): number | undefined;
}

/** The honest answers of a broker to everything but CONNECT and AUTH. */
export class PacketHandler {
  constructor(private readonly host: PacketHost) {}

  handle(packet: Packet, connection: MqttBrokerConnection, session: MqttSession): void {
    connection.keepAliveTimer?.refresh();
    switch (packet.cmd) {
      case 'publish':
        return this.publish(packet as ReceivedPublish, connection, session);
      case 'puback':
        return this.acknowledged('puback', packet.messageId as number, connection, session);
      case 'pubrec':
        return this.acknowledged('pubrec', packet.messageId as number, connection, session, packet.reasonCode);
      case 'pubrel':
        return this.released(packet, connection, session);
      case 'pubcomp':
        return session.settle(packet.messageId as number);
      case 'subscribe':
        return this.subscribe(packet, connection, session);
      case 'unsubscribe':
        return this.unsubscribe(packet, connection, session);
      case 'pingreq':
        return connection.answer({ cmd: 'pingresp' });
      case 'disconnect':
        return this.disconnected(packet, connection, session);
      default:
        return connection.disconnect(0x82);
    }
  }

  private publish(packet: ReceivedPublish, connection: MqttBrokerConnection, session: MqttSession): void {
    const limits = this.host.options.limits ?? {};
    if (packet.qos > (limits.maximumQos ?? 2)) return connection.disconnect(0x9b);
    if (packet.retain && limits.retainAvailable === false) return connection.disconnect(0x9a);
    const topic = this.resolveTopic(packet, connection);
    if (topic === undefined) return;
    const id = packet.messageId ?? 0;
    if (packet.qos > 0) {
      connection.unanswered.add(id);
      if (connection.unanswered.size > (limits.receiveMaximum ?? 65_535)) return connection.disconnect(0x93);
    }
    // Between PUBREC and PUBREL a copy is answered, not delivered [MQTT-4.3.3-10].
    if (packet.qos === 2 && session.receivedQos2.has(id)) {
      return connection.answer({ cmd: 'pubrec', messageId: id, reasonCode: 0 });
    }
    const verdict = this.host.verdict({ ...packet, topic }, connection);
    let code = verdict ?? 0;
    if (code < 0x80) {
      const receivers = this.host.router.publish(toMessage(packet, topic, connection.clientId));
      if (receivers === 0 && verdict === undefined && this.host.options.reportNoSubscribers === true) code = 0x10;
    }
    if (packet.qos === 0) return;
    if (packet.qos === 2 && code < 0x80) session.receivedQos2.add(id);
    if (packet.qos === 1 || code >= 0x80) connection.unanswered.delete(id);
    connection.answer({ cmd: packet.qos === 1 ? 'puback' : 'pubrec', messageId: id, reasonCode: code });
  }

  /** The topic name after alias resolution; undefined if the connection was ended for it [MQTT-3.3.2-8..-10]. */
  private resolveTopic(packet: ReceivedPublish, connection: MqttBrokerConnection): string | undefined {
    const alias = packet.properties?.topicAlias;
    if (alias === undefined) {
      if (packet.topic !== '') return packet.topic;
      connection.disconnect(0x82);
      return undefined;
    }
    if (alias === 0 || alias > (this.host.options.limits?.topicAliasMaximum ?? 0)) {
      connection.disconnect(0x94);
      return undefined;
    }
    if (packet.topic !== '') connection.aliasesIn.set(alias, packet.topic);
    const topic = connection.aliasesIn.get(alias);
    if (topic === undefined) connection.disconnect(0x82);
    return topic;
  }

  private acknowledged(
    type: 'puback' | 'pubrec',
    id: number,
    connection: MqttBrokerConnection,
    session: MqttSession,
    reasonCode = 0,
  ): void {
    const entry = session.inFlight.get(id);
    if (type === 'puback') {
      connection.ackOrder.received(type, id);
      if (entry?.message.qos === 1) session.settle(id);
      // mosquitto closes here; a PUBACK can only ever answer QoS 1 [MQTT-4.3.2-4].
      else if (entry !== undefined) connection.disconnect(0x82);
      return;
    }
    if (entry?.phase === 'pubrel') {
      return connection.answer({ cmd: 'pubrel', messageId: id, reasonCode: 0 });
    }
    connection.ackOrder.received(type, id);
    if (entry === undefined || entry.message.qos !== 2) {
      return connection.answer({ cmd: 'pubrel', messageId: id, reasonCode: connection.version === 5 ? 0x92 : 0 });
    }
    // An error ends the message for good: no PUBREL, the identifier is free [MQTT-4.3.3-4].
    if (reasonCode >= 0x80) return session.settle(id);
    entry.phase = 'pubrel';
    connection.answer({ cmd: 'pubrel', messageId: id, reasonCode: 0 });
  }

  private released(packet: IPubrelPacket, connection: MqttBrokerConnection, session: MqttSession): void {
    const id = packet.messageId as number;
    const known = session.receivedQos2.delete(id);
    connection.unanswered.delete(id);
    const reasonCode = known || connection.version === 4 ? 0 : 0x92;
    connection.answer({ cmd: 'pubcomp', messageId: id, reasonCode });
  }

  private subscribe(packet: ISubscribePacket, connection: MqttBrokerConnection, session: MqttSession): void {
    const codes: number[] = [];
    const added: (() => void)[] = [];
    for (const wanted of packet.subscriptions) {
      if (wanted.nl === true && parseFilter(wanted.topic).group !== undefined) return connection.disconnect(0x82);
      const code = this.subackCode(wanted.topic, wanted.qos, connection);
      codes.push(code);
      if (code >= 0x80) continue;
      const isNew = !session.subscriptions.has(wanted.topic);
      const subscription = {
        filter: wanted.topic,
        qos: code as 0 | 1 | 2,
        noLocal: wanted.nl ?? false,
        retainAsPublished: wanted.rap ?? false,
        retainHandling: wanted.rh ?? 0,
        identifier: packet.properties?.subscriptionIdentifier,
      };
      session.subscriptions.set(wanted.topic, subscription);
      added.push(() => this.host.router.sendRetained(session, subscription, isNew));
    }
    connection.answer({ cmd: 'suback', messageId: packet.messageId as number, granted: codes });
    for (const sendRetained of added) sendRetained();
  }

  private subackCode(filter: string, qos: 0 | 1 | 2, connection: MqttBrokerConnection): number {
    const { options } = this.host;
    const scripted = options.subackCode?.(filter, qos, connection.clientId);
    const failure = (code: number): number => (connection.version === 5 ? code : 0x80);
    if (scripted !== undefined) return scripted >= 0x80 ? failure(scripted) : scripted;
    if (filterFault(filter) !== undefined) return failure(0x8f);
    if (options.limits?.wildcardSubscriptionAvailable === false && /[+#]/.test(filter)) return failure(0xa2);
    if (options.limits?.sharedSubscriptionAvailable === false && filter.startsWith('$share/')) return failure(0x9e);
    return Math.min(qos, options.limits?.maximumQos ?? 2);
  }

  private unsubscribe(packet: IUnsubscribePacket, connection: MqttBrokerConnection, session: MqttSession): void {
    const granted = packet.unsubscriptions.map((filter) => (session.subscriptions.delete(filter) ? 0 : 0x11));
    connection.answer({ cmd: 'unsuback', messageId: packet.messageId as number, granted });
  }

  private disconnected(packet: IDisconnectPacket, connection: MqttBrokerConnection, session: MqttSession): void {
    const expiry = packet.properties?.sessionExpiryInterval;
    if (expiry !== undefined) {
      // From 0 it cannot be raised again (MQTT 5, 3.14.2.2.2).
      if (session.expiry === 0 && expiry > 0) return connection.disconnect(0x82);
      session.expiry = expiry === 0xffff_ffff ? Infinity : expiry;
    }
    connection.disconnected = packet.reasonCode !== 0x04;
    connection.end();
  }
}

function toMessage(packet: ReceivedPublish, topic: string, publisher: string): BrokerMessage {
  const { topicAlias: _alias, messageExpiryInterval, ...properties } = packet.properties ?? {};
  return {
    topic,
    // The received buffer is a view of the socket's chunk; what is kept is a copy.
    payload: Buffer.from(packet.payload),
    qos: packet.qos,
    retain: packet.retain,
    properties: packet.properties === undefined ? undefined : properties,
    expiresAt: messageExpiryInterval === undefined ? undefined : performance.now() + messageExpiryInterval * 1000,
    publisher,
  };
}
