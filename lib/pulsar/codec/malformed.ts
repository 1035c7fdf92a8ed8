import { RemoteProtocolError } from '../../errors.js';

export function malformed(what: string): RemoteProtocolError {
  return new RemoteProtocolError(`Malformed frame from the broker: ${what}`);
}
