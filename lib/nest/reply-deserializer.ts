import { type MqttMessage } from '../mqtt/index.js';

/** Makes a value of the bytes of a reply; may be asynchronous. What it throws is the error of the request. */
export interface ReplyDeserializer {
  deserialize(payload: Buffer, options?: { readonly message: MqttMessage }): unknown;
}

/** The default: the parsed value where the bytes are a JSON text, else the text; no bytes are `undefined`. */
export class JsonOrTextDeserializer implements ReplyDeserializer {
  deserialize(payload: Buffer): unknown {
    if (payload.length === 0) return undefined;
    const text = payload.toString('utf8');
    try {
      return JSON.parse(text) as unknown;
    } catch {
      return text;
    }
  }
}
