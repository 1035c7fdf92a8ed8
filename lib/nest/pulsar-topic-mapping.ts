import { TransportError } from '../errors.js';

/** Where patterns that are not full Pulsar topic names live. */
export interface PulsarTopicSpace {
  /** Default `public`. */
  readonly tenant?: string;
  /** Default `default`. */
  readonly namespace?: string;
  /** False: `non-persistent://`, which nothing stores. Default true. */
  readonly persistent?: boolean;
}

/**
 * The Pulsar topic of a pattern. A full name (`persistent://tenant/namespace/topic`, `non-persistent://...`) stays as it
 * is. Anything else, an MQTT topic above all, becomes one local name in the tenant and namespace, percent-encoded so that
 * {@link fromPulsarTopic} gives it back: `plant/7/temp` becomes `persistent://public/default/plant%2F7%2Ftemp`.
 *
 * Letters, digits, `-`, `.`, `_` and `~` stay; every other byte of the UTF-8 form is written `%XX`. A local name that
 * Pulsar would take for a partition (`x-partition-3`) or a directory (`.`, `..`) is encoded as well.
 *
 * @throws TransportError ERR_TOPIC for an empty pattern, ill-formed UTF-16 or an incomplete full name
 */
export function toPulsarTopic(pattern: string, space: PulsarTopicSpace = {}): string {
  if (pattern.includes('://')) {
    if (FULL_NAME.test(pattern)) return pattern;
    if (/^(non-)?persistent:/.test(pattern)) {
      throw new TransportError(
        'ERR_TOPIC',
        `'${pattern}' is not a full Pulsar topic name: expected persistent://tenant/namespace/topic`,
      );
    }
  }
  const { tenant = 'public', namespace = 'default', persistent = true } = space;
  return `${persistent ? 'persistent' : 'non-persistent'}://${tenant}/${namespace}/${encodeLocalName(pattern)}`;
}

/** What {@link toPulsarTopic} made the topic from; for a topic of any other origin its decoded local name. */
export function fromPulsarTopic(topic: string): string {
  const match = FULL_NAME.exec(topic);
  const local = match?.[1] ?? topic;
  try {
    return decodeURIComponent(local);
  } catch {
    return local;
  }
}

/** Tenant and namespace names as the broker accepts them. */
export const POOL_NAME = /^[-=:.\w]+$/;

const FULL_NAME = /^(?:non-)?persistent:\/\/[^/]+\/[^/]+\/(?:[^/]+\/)?([^/]+)$/;

function encodeLocalName(pattern: string): string {
  if (pattern === '') throw new TransportError('ERR_TOPIC', 'The pattern is empty: a Pulsar topic needs a name');
  let encoded: string;
  try {
    encoded = encodeURIComponent(pattern);
  } catch (cause) {
    throw new TransportError('ERR_TOPIC', 'The pattern has an unpaired surrogate: it has no UTF-8 form', { cause });
  }
  return encoded
    .replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`)
    .replace(/-(?=partition-\d+$)/, '%2D')
    .replace(/^\.{1,2}$/, (dots) => dots.replaceAll('.', '%2E'));
}
