import { TransportError } from '../errors.js';

/**
 * The value of a JSON text. The error says where it ends to be one and nothing of what stands there: the text of Node's own
 * quotes the payload, and an error goes into logs.
 *
 * @throws TransportError ERR_SERIALIZATION
 */
export function parseJson(payload: Buffer): unknown {
  if (payload.length === 0) {
    throw new TransportError('ERR_SERIALIZATION', 'The payload is empty, which is not a JSON text');
  }
  try {
    return JSON.parse(payload.toString('utf8'));
  } catch (error) {
    const position = /at position (\d+)/.exec((error as Error).message)?.[1];
    const where = position === undefined ? '' : `, from character ${position} on`;
    throw new TransportError('ERR_SERIALIZATION', `${payload.length} bytes that are not a JSON text${where}`);
  }
}
