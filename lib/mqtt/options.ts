import { DEFAULT_BACKOFF } from '../net/backoff.js';
import { systemClock } from '../net/clock.js';
import { OptionsError, isTransportError } from '../errors.js';
import {
  anyObject,
  arrayOf,
  boolean,
  checkOptions,
  checkUrlIsSet,
  describeValue,
  either,
  func,
  integer,
  isArray,
  isText,
  milliseconds,
  nonEmptyText,
  number,
  object,
  objectWith,
  oneOf,
  type OptionSchema,
  required,
  satisfies,
  secret,
  text,
  textRecord,
} from '../option-checks.js';
import { parseMqttUrl } from './endpoint-url.js';
import {
  type EnhancedAuthentication,
  type MqttClientOptions,
  type PublishQueueOptions,
  type ResolvedMqttClientOptions,
  type WebSocketOptions,
  type WillOptions,
} from './option-types.js';
import { type SessionSettings } from './protocol/config.js';
import { validateTopicName } from './protocol/topic-filter.js';
import { type BackoffOptions } from '../net/backoff.js';
import { type TlsOptions } from '../net/tls.js';

const secretBytes = secret(
  'a string, Buffer or Uint8Array',
  (value) => typeof value === 'string' || value instanceof Uint8Array,
);

const userProperties = arrayOf(
  satisfies(
    'a pair of strings',
    (value) => Array.isArray(value) && value.length === 2 && value.every((part) => typeof part === 'string'),
  ),
);

const backoff: OptionSchema<BackoffOptions> = {
  initial: milliseconds(1),
  max: milliseconds(1),
  factor: number(1, 100),
};

const will: OptionSchema<WillOptions> = {
  topic: required(nonEmptyText),
  payload: secretBytes,
  qos: oneOf(0, 1, 2),
  retain: boolean,
  properties: anyObject,
};

const authentication: OptionSchema<EnhancedAuthentication> = {
  method: required(nonEmptyText),
  start: required(func),
  continue: required(func),
  finish: func,
};

const pem = secret('a PEM string or Buffer', (value) => typeof value === 'string' || value instanceof Uint8Array);

export const tlsSchema: OptionSchema<TlsOptions> = {
  ca: either('a PEM string, a Buffer, or an array of them', [isArray, arrayOf(pem)], [() => true, pem]),
  cert: pem,
  key: pem,
  passphrase: secret('a string', isText),
  pfx: secretBytes,
  servername: text,
  alpnProtocols: arrayOf(nonEmptyText),
  minVersion: oneOf('TLSv1.2', 'TLSv1.3'),
  rejectUnauthorized: boolean,
};

const websocket: OptionSchema<WebSocketOptions> = { protocol: nonEmptyText, headers: textRecord };

const publishQueue: OptionSchema<PublishQueueOptions> = {
  maxMessages: integer(0),
  maxBytes: integer(0),
  overflow: oneOf('reject', 'dropOldest'),
  offlineQos0: boolean,
};

const DEFAULT_URL = 'mqtt://localhost:1883';
const clock = objectWith('now', 'wallTime', 'random', 'setTimer', 'clearTimer', 'endOfTurn');

/** The checks of every option, for those who embed these options in their own (`path` prefixes the errors). */
export const mqttClientSchema: OptionSchema<MqttClientOptions> = {
  url: either('a URL or a list of URLs', [isText, nonEmptyText], [isArray, arrayOf(nonEmptyText, 1)]),
  clientId: text,
  protocolVersion: oneOf(5, 4, 'auto'),
  username: text,
  password: secretBytes,
  credentials: func,
  authentication: object(authentication),
  tls: object(tlsSchema),
  websocket: object(websocket),
  dialer: func,
  clock,
  sessionExpiry: integer(0, 0xffffffff, 'seconds'),
  cleanStart: boolean,
  allowEphemeralSession: boolean,
  store: objectWith('load', 'apply', 'close'),
  onSessionLost: oneOf('republish', 'reject'),
  receiveMaximum: integer(1, 65_535),
  maximumPacketSize: integer(64, 268_435_460, 'bytes'),
  topicAliasMaximum: integer(0, 65_535),
  topicAliases: boolean,
  strictResends: boolean,
  strictReceiveMaximum: boolean,
  overrunLimit: integer(1, 65_535),
  bindWithoutDup: boolean,
  keepAlive: integer(0, 65_535, 'seconds'),
  pingTimeout: milliseconds(1),
  connectTimeout: milliseconds(1),
  subscribeTimeout: milliseconds(1),
  closeTimeout: milliseconds(0),
  waitForBroker: boolean,
  reconnect: object(backoff),
  longBackoff: object(backoff),
  maxTakeovers: integer(0, 1_000_000),
  serverReferences: arrayOf(nonEmptyText),
  publishQueue: object(publishQueue),
  qos2InFlight: integer(1, 65_535),
  will: object(will),
  userProperties,
  requestResponseInformation: boolean,
  requestProblemInformation: boolean,
  subscribeBatchSize: integer(1, 10_000),
};

/**
 * Checks the options and fills in the defaults. Nothing connects.
 *
 * @param path prefixes the option names in errors
 * @throws OptionsError for an unknown key, a wrong value, or options that contradict each other
 */
export function parseMqttClientOptions(input: MqttClientOptions = {}, path = 'mqtt'): ResolvedMqttClientOptions {
  checkUrlIsSet(path, input, `a URL, or no 'url' at all for ${DEFAULT_URL}`);
  checkOptions<MqttClientOptions>(path, input, mqttClientSchema);
  const endpoints = [input.url ?? DEFAULT_URL]
    .flat()
    .map((url, i) => parseMqttUrl(url, typeof input.url === 'object' ? `${path}.url[${i}]` : `${path}.url`));
  const resolved: ResolvedMqttClientOptions = {
    endpoints,
    clientId: input.clientId ?? '',
    protocolVersion: input.protocolVersion ?? 'auto',
    username: input.username,
    password: input.password === undefined ? undefined : Buffer.from(input.password as string),
    credentials: input.credentials,
    authentication: input.authentication,
    tls: input.tls,
    websocket: input.websocket ?? {},
    dialer: input.dialer,
    clock: input.clock ?? systemClock,
    session: sessionSettings(input),
    store: input.store,
    waitForBroker: input.waitForBroker ?? false,
    reconnect: { ...DEFAULT_BACKOFF, ...input.reconnect },
    longBackoff: { initial: 10_000, max: 300_000, factor: 2, ...input.longBackoff },
    serverReferences: input.serverReferences ?? [],
    will: input.will,
  };
  checkSession(path, input, resolved);
  checkCombinations(path, input, resolved);
  return resolved;
}

function sessionSettings(input: MqttClientOptions): SessionSettings {
  return {
    sessionExpiry: input.sessionExpiry ?? (input.cleanStart === true ? 0 : DAY),
    cleanStart: input.cleanStart ?? false,
    ephemeral: input.allowEphemeralSession ?? false,
    onSessionLost: input.onSessionLost ?? 'republish',
    receiveMaximum: input.receiveMaximum ?? 128,
    maximumPacketSize: input.maximumPacketSize ?? 16 * 1024 * 1024,
    topicAliasMaximum: input.topicAliasMaximum ?? 0,
    topicAliases: input.topicAliases ?? true,
    strictResends: input.strictResends ?? false,
    strictReceiveMaximum: input.strictReceiveMaximum ?? false,
    overrunLimit: input.overrunLimit ?? 65_535,
    bindWithoutDup: input.bindWithoutDup ?? false,
    keepAlive: input.keepAlive ?? 30,
    pingTimeout: input.pingTimeout,
    connectTimeout: input.connectTimeout ?? 10_000,
    subscribeTimeout: input.subscribeTimeout ?? 30_000,
    closeTimeout: input.closeTimeout ?? 5000,
    maxTakeovers: input.maxTakeovers ?? 5,
    publishQueue: {
      maxMessages: input.publishQueue?.maxMessages ?? 10_000,
      maxBytes: input.publishQueue?.maxBytes ?? 64 * 1024 * 1024,
      overflow: input.publishQueue?.overflow ?? 'reject',
      offlineQos0: input.publishQueue?.offlineQos0 ?? true,
    },
    qos2InFlight: input.qos2InFlight ?? 20,
    userProperties: input.userProperties ?? [],
    requestResponseInformation: input.requestResponseInformation ?? false,
    requestProblemInformation: input.requestProblemInformation ?? true,
    subscribeBatchSize: input.subscribeBatchSize ?? 50,
  };
}

const DAY = 86_400;

/** Without a session that survives a disconnect a withheld acknowledgement means nothing. */
function checkSession(path: string, input: MqttClientOptions, options: ResolvedMqttClientOptions): void {
  if (
    options.session.cleanStart &&
    input.sessionExpiry !== undefined &&
    input.sessionExpiry > 0 &&
    !options.session.ephemeral
  ) {
    throw new OptionsError(`${path}.cleanStart`, 'false where a session expiry is given', 'true');
  }
  if (options.session.ephemeral) {
    if (options.store !== undefined && options.clientId === '') {
      throw new OptionsError(`${path}.clientId`, 'a client id, because a session store is given', 'none');
    }
    return;
  }
  const optIn = "or 'allowEphemeralSession: true', which accepts that unacknowledged messages are lost at a disconnect";
  if (options.session.cleanStart) throw new OptionsError(`${path}.cleanStart`, `false, ${optIn}`, 'true');
  if (options.session.sessionExpiry === 0)
    throw new OptionsError(`${path}.sessionExpiry`, `more than 0, ${optIn}`, '0');
  if (options.clientId === '') {
    throw new OptionsError(`${path}.clientId`, `a client id, which names the session at the broker, ${optIn}`, 'none');
  }
}

function checkCombinations(path: string, input: MqttClientOptions, options: ResolvedMqttClientOptions): void {
  if (options.protocolVersion === 4) {
    if (options.authentication !== undefined) {
      throw new OptionsError(`${path}.authentication`, 'none with protocolVersion 4, which has no AUTH', 'a value');
    }
    if (input.password !== undefined && input.username === undefined) {
      throw new OptionsError(`${path}.username`, 'a user name with the password [MQTT-3.1.2-22]', 'none');
    }
  }
  if (Buffer.byteLength(options.clientId) > 65_535 || options.clientId.includes('\u0000')) {
    throw new OptionsError(`${path}.clientId`, 'at most 65,535 bytes without U+0000', describeValue(options.clientId));
  }
  if (options.session.overrunLimit < options.session.receiveMaximum) {
    throw new OptionsError(
      `${path}.overrunLimit`,
      `at least the receiveMaximum (${options.session.receiveMaximum})`,
      String(options.session.overrunLimit),
    );
  }
  for (const key of ['reconnect', 'longBackoff'] as const) {
    if (options[key].max < options[key].initial) {
      throw new OptionsError(
        `${path}.${key}.max`,
        `at least initial (${options[key].initial})`,
        String(options[key].max),
      );
    }
  }
  if (options.will !== undefined) {
    try {
      validateTopicName(options.will.topic);
    } catch (error) {
      throw new OptionsError(
        `${path}.will.topic`,
        isTransportError(error) ? error.message : 'a topic',
        describeValue(options.will.topic),
      );
    }
  }
}
