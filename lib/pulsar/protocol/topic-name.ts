import { TransportError } from '../../errors.js';

/** A parsed topic name. `local` is what follows the namespace, without the partition suffix. */
export interface TopicName {
  readonly domain: 'persistent' | 'non-persistent';
  readonly tenant: string;
  readonly namespace: string;
  readonly local: string;
  /** -1: the name of a topic, not of one of its partitions. */
  readonly partition: number;
  /** The complete name, partition suffix included. */
  readonly full: string;
}

/**
 * Parses a full name (`persistent://tenant/namespace/topic`), or a short one: `topic` is in `public/default`,
 * `tenant/namespace/topic` is persistent.
 *
 * @throws TransportError ERR_TOPIC that says what is wrong
 */
export function parseTopicName(name: string): TopicName {
  const scheme = name.indexOf('://');
  const domain = scheme < 0 ? 'persistent' : name.slice(0, scheme);
  if (domain !== 'persistent' && domain !== 'non-persistent') {
    throw invalid(name, `the domain must be 'persistent' or 'non-persistent', not '${domain}'`);
  }
  const parts = (scheme < 0 ? name : name.slice(scheme + 3)).split('/');
  let [tenant, namespace] = ['public', 'default'];
  let local: string;
  if (parts.length === 1 && scheme < 0) {
    local = parts[0]!;
  } else if (parts.length === 3) {
    [tenant, namespace, local] = parts as [string, string, string];
  } else {
    throw invalid(name, 'expected persistent://tenant/namespace/topic, tenant/namespace/topic or topic');
  }
  if (!POOL_NAME.test(tenant))
    throw invalid(name, `tenant '${tenant}' has other characters than letters, digits, -=:._`);
  if (!POOL_NAME.test(namespace)) {
    throw invalid(name, `namespace '${namespace}' has other characters than letters, digits, -=:._`);
  }
  if (local === '') throw invalid(name, 'the local name is empty');
  const suffix = PARTITION_SUFFIX.exec(local);
  return {
    domain,
    tenant,
    namespace,
    local: suffix === null ? local : local.slice(0, suffix.index),
    partition: suffix === null ? -1 : Number(suffix[1]),
    full: `${domain}://${tenant}/${namespace}/${local}`,
  };
}

/** The name of one partition of `topic`, a full name. */
export function partitionName(topic: string, partition: number): string {
  return `${topic}-partition-${partition}`;
}

/**
 * Any text (an MQTT topic above all) as one segment of a topic name, so that {@link decodeTopicSegment} gives it back:
 * letters, digits, `-`, `.`, `_`, `~` stay, every other UTF-8 byte becomes `%XX`. What Pulsar would take for a partition
 * or for a directory is encoded too.
 *
 * @throws TransportError ERR_TOPIC for an empty text or ill-formed UTF-16
 */
export function encodeTopicSegment(text: string): string {
  if (text === '') throw new TransportError('ERR_TOPIC', 'A topic segment cannot be made of an empty text');
  let encoded: string;
  try {
    encoded = encodeURIComponent(text);
  } catch (cause) {
    throw new TransportError('ERR_TOPIC', 'The text has an unpaired surrogate: it has no UTF-8 form', { cause });
  }
  return encoded
    .replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`)
    .replace(/-(?=partition-\d+$)/, '%2D')
    .replace(/^\.{1,2}$/, (dots) => dots.replaceAll('.', '%2E'));
}

/** The inverse of {@link encodeTopicSegment}. @throws TransportError ERR_TOPIC if it is no such segment */
export function decodeTopicSegment(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch (cause) {
    throw new TransportError('ERR_TOPIC', `'${segment}' is not percent-encoded UTF-8`, { cause });
  }
}

/** Tenants and namespaces, as the broker's NamedEntity checks them. */
const POOL_NAME = /^[-=:.\w]+$/;
const PARTITION_SUFFIX = /-partition-(0|[1-9]\d*)$/;

function invalid(name: string, detail: string): TransportError {
  return new TransportError('ERR_TOPIC', `Topic name '${name}': ${detail}`);
}
