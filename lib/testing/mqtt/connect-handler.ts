import { type IAuthPacket, type IConnackPacket, type IConnectPacket } from 'mqtt-packet';
import { type MqttBrokerConnection } from './connection.js';
import { type MqttBrokerOptions } from './options.js';
import { compact } from './packets.js';
import { type SessionStore } from './session-store.js';

/** What CONNECT handling needs from the broker. */
export interface ConnectHost {
  readonly options: MqttBrokerOptions;
  readonly sessions: SessionStore;
  /** The code that the next CONNECT is refused with, as scripted by the test. */
  takeRefusal(): number | undefined;
  connectionOf(clientId: string): MqttBrokerConnection | undefined;
  /** The client is back: a delayed will is not published. */
  returned(clientId: string): void;
}

const NOT_AUTHORIZED = { 4: 5, 5: 0x87 } as const;
const KEEPALIVE_TIMEOUT = 0x8d;
const TAKEN_OVER = 0x8e;

/** CONNECT, the exchange of AUTH packets before CONNACK, and re-authentication. */
export class ConnectHandler {
  private readonly authSteps = new WeakMap<MqttBrokerConnection, number>();
  private assigned = 0;

  constructor(private readonly host: ConnectHost) {}

  async connect(packet: IConnectPacket, connection: MqttBrokerConnection): Promise<void> {
    const { options } = this.host;
    const version = packet.protocolVersion === 5 ? 5 : 4;
    connection.connect = packet;
    connection.version = version;
    connection.clientId = packet.clientId;
    if (!(options.versions ?? [4, 5]).includes(version)) return this.refuseVersion(connection);
    const scripted = this.host.takeRefusal();
    if (scripted !== undefined) return this.refuse(connection, scripted);
    if (packet.clientId === '') {
      // Without a client id only a session that ends with its connection makes sense under 3.1.1 [MQTT-3.1.3-8].
      if (version === 4 && packet.clean !== true) return this.refuse(connection, 2);
      connection.clientId = `assigned-${++this.assigned}`;
    }
    const method = packet.properties?.authenticationMethod;
    if (method !== undefined) {
      if (options.enhancedAuth === undefined) return this.refuse(connection, 0x8c);
      this.authSteps.set(connection, 0);
      return this.authenticate(connection, method, packet.properties?.authenticationData, 0);
    }
    const verdict = await options.authenticate?.({
      clientId: connection.clientId,
      username: packet.username,
      password: packet.password,
    });
    if (!connection.open) return;
    if (verdict === false) return this.refuse(connection, NOT_AUTHORIZED[version]);
    if (typeof verdict === 'number' && verdict !== 0) return this.refuse(connection, verdict);
    this.accept(connection, undefined);
  }

  /** AUTH from the client: the next step of the first authentication, or a re-authentication. */
  auth(packet: IAuthPacket, connection: MqttBrokerConnection): void {
    const method = connection.connect?.properties?.authenticationMethod;
    if (method === undefined || packet.properties?.authenticationMethod !== method) {
      connection.disconnect(0x82);
      return;
    }
    const step = packet.reasonCode === 0x19 ? 0 : (this.authSteps.get(connection) ?? 0) + 1;
    this.authenticate(connection, method, packet.properties.authenticationData, step);
  }

  private authenticate(connection: MqttBrokerConnection, method: string, data: Buffer | undefined, step: number): void {
    this.authSteps.set(connection, step);
    const result = this.host.options.enhancedAuth?.(data, method, step) ?? { fail: 0x8c };
    const first = connection.session === undefined;
    if ('fail' in result) {
      if (first) this.refuse(connection, result.fail);
      else connection.disconnect(result.fail);
    } else if ('continue' in result) {
      const properties = { authenticationMethod: method, authenticationData: result.continue };
      connection.answer({ cmd: 'auth', reasonCode: 0x18, properties });
    } else {
      const properties = compact({ authenticationMethod: method, authenticationData: result.success });
      if (first) this.accept(connection, properties);
      else connection.answer({ cmd: 'auth', reasonCode: 0, ...(properties && { properties }) });
    }
  }

  private refuseVersion(connection: MqttBrokerConnection): void {
    const style = this.host.options.unsupportedVersion ?? 'connack-4';
    if (style === 'connack-4') connection.version = 4;
    if (style === 'close') connection.end();
    else this.refuse(connection, style === 'connack-4' ? 1 : 0x84);
  }

  private refuse(connection: MqttBrokerConnection, code: number): void {
    connection.answer(connack(connection, code, false, undefined));
    connection.end();
  }

  private accept(connection: MqttBrokerConnection, authProperties: object | undefined): void {
    const { options, sessions } = this.host;
    const { version, clientId } = connection;
    const packet = connection.connect as IConnectPacket;
    // The older connection of the same client goes first [MQTT-3.1.4-3].
    const older = this.host.connectionOf(clientId);
    if (older !== undefined) {
      if (older.version === 5) older.disconnect(TAKEN_OVER);
      else older.cut();
    }
    const { session, present } = sessions.open(clientId, packet.clean === true);
    session.connection = connection;
    connection.session = session;
    this.host.returned(clientId);
    session.expiry = sessionExpiry(packet, version, options.limits?.sessionExpiry);
    connection.receiveMaximum = packet.properties?.receiveMaximum ?? 65_535;
    connection.maximumPacketSize = packet.properties?.maximumPacketSize ?? Infinity;
    connection.topicAliasMaximum = options.useTopicAliases === true ? (packet.properties?.topicAliasMaximum ?? 0) : 0;
    this.watchKeepAlive(connection, options.limits?.serverKeepAlive ?? packet.keepalive ?? 0);
    const assigned = packet.clientId === '' ? clientId : undefined;
    connection.answer(
      connack(connection, 0, present, {
        ...announced(options, assigned),
        ...authProperties,
        ...options.connackProperties,
      }),
    );
    session.resume();
  }

  /** Closes a connection on which nothing came for one and a half times the Keep Alive [MQTT-3.1.2-22]. */
  private watchKeepAlive(connection: MqttBrokerConnection, seconds: number): void {
    if (seconds === 0 || this.host.options.enforceKeepAlive === false) return;
    connection.keepAliveTimer = setTimeout(() => connection.disconnect(KEEPALIVE_TIMEOUT), seconds * 1500);
  }
}

function announced(options: MqttBrokerOptions, assignedClientId: string | undefined): IConnackPacket['properties'] {
  const limits = options.limits ?? {};
  return {
    sessionExpiryInterval: limits.sessionExpiry,
    receiveMaximum: limits.receiveMaximum,
    maximumQoS: limits.maximumQos,
    retainAvailable: limits.retainAvailable,
    maximumPacketSize: limits.maximumPacketSize,
    topicAliasMaximum: limits.topicAliasMaximum,
    serverKeepAlive: limits.serverKeepAlive,
    wildcardSubscriptionAvailable: limits.wildcardSubscriptionAvailable,
    subscriptionIdentifiersAvailable: limits.subscriptionIdentifiersAvailable,
    sharedSubscriptionAvailable: limits.sharedSubscriptionAvailable,
    assignedClientIdentifier: assignedClientId,
  };
}

function connack(
  connection: MqttBrokerConnection,
  code: number,
  sessionPresent: boolean,
  properties: IConnackPacket['properties'],
): IConnackPacket {
  if (connection.version === 4) return { cmd: 'connack', returnCode: code, sessionPresent };
  const present = compact(properties ?? {});
  return { cmd: 'connack', reasonCode: code, sessionPresent, ...(present && { properties: present }) };
}

/** Seconds; 3.1.1 knows only "with the connection" and "for ever". */
function sessionExpiry(packet: IConnectPacket, version: 4 | 5, override: number | undefined): number {
  if (version === 4) return packet.clean === true ? 0 : Infinity;
  const seconds = override ?? packet.properties?.sessionExpiryInterval ?? 0;
  return seconds === 0xffff_ffff ? Infinity : seconds;
}
