import { inspect } from 'node:util';
import {
  ConnectionError,
  isTransportError,
  OptionsError,
  RemoteProtocolError,
  TimeoutError,
  TransportError,
} from '../../lib/errors.js';

describe('errors', () => {
  it('carry code, retriable, ambiguous and cause', () => {
    const cause = new Error('inner');
    const error = new TimeoutError('no receipt', 50, { code: 'ERR_SEND_TIMEOUT', ambiguous: true, cause });
    expect(error).toMatchObject({
      code: 'ERR_SEND_TIMEOUT',
      retriable: true,
      ambiguous: true,
      cause,
      timeoutMs: 50,
      name: 'TimeoutError',
    });
    expect(new RemoteProtocolError('bad', 0x81)).toMatchObject({ reasonCode: 0x81, retriable: true });
    expect(new ConnectionError('gone').cause).toBeUndefined();
  });

  it('are recognised across copies of the package by brand', () => {
    expect(isTransportError(new TransportError('ERR_CLOSED', 'x'))).toBe(true);
    expect(isTransportError(new Error('x'))).toBe(false);
    expect(isTransportError(undefined)).toBe(false);
    const foreign = Object.assign(new Error('x'), { [Symbol.for('nestjs-mqtt-pulsar/error')]: true });
    expect(isTransportError(foreign)).toBe(true);
  });

  it('an options error names path, what is allowed, what came and the nearest name', () => {
    const error = new OptionsError('mqtt.qos', '0, 1 or 2', '3', 'qoss');
    expect(error.message).toBe("Option 'mqtt.qos': expected 0, 1 or 2, received 3. Did you mean 'qoss'?");
    expect(inspect(error)).toContain('ERR_OPTIONS');
  });
});
