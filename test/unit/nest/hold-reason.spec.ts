import { RpcException } from '@nestjs/microservices';
import { OptionsError, TimeoutError, TransportError, type ErrorCode } from '../../../lib/errors.js';
import { noteEmitFailure } from '../../../lib/nest/delivery-scope.js';
import { type Failure } from '../../../lib/nest/failure-policy.js';
import { holdReason } from '../../../lib/nest/hold-reason.js';

const of = (error: unknown, kind: Failure['kind'] = 'handler'): string => holdReason([{ error, kind }]);
/** An error as an emit failed with it. */
const emitted = <T>(error: T): T => {
  noteEmitFailure(error);
  return error;
};
const unreachable = (): TransportError =>
  new TimeoutError('no receipt', 30, { code: 'ERR_SEND_TIMEOUT', ambiguous: true });

describe('an emit failed', () => {
  it.each<[string, () => TransportError]>([
    ['retriable', () => new TransportError('ERR_CONNECTION', 'x', { retriable: true })],
    ['ambiguous', unreachable],
    ['final', () => new TransportError('ERR_TERMINATED', 'x')],
    ['a full queue', () => new TransportError('ERR_QUEUE_FULL', 'x', { retriable: true })],
  ])('%s: the sink is what failed, whichever way the error came', (_name, make) => {
    expect(of(make(), 'emit')).toBe('sink');
    expect(of(emitted(make()))).toBe('sink');
    expect(of(new Error('not stored', { cause: emitted(make()) }))).toBe('sink');
    expect(of(new RpcException(emitted(make())))).toBe('sink');
    expect(of(new Error('outer', { cause: new Error('inner', { cause: emitted(make()) }) }))).toBe('sink');
  });

  it.each<ErrorCode>([
    'ERR_MESSAGE_TOO_LARGE',
    'ERR_SERIALIZATION',
    'ERR_LOCAL_PROTOCOL',
    'ERR_SEQUENCE',
    'ERR_DEDUPLICATED',
    'ERR_ABORTED',
    'ERR_PUBLISH',
    'ERR_TOPIC',
    'ERR_NOT_SUPPORTED',
  ])('%s: the fault is in the message, also where it may be repeated', (code) => {
    for (const retriable of [true, false]) {
      expect(of(new TransportError(code, 'x', { retriable }), 'emit')).toBe('message');
      expect(of(emitted(new TransportError(code, 'x', { retriable })))).toBe('message');
    }
  });

  it("what a user's serializer threw is the message's fault", () => {
    expect(of(new TypeError('x'), 'emit')).toBe('message');
    expect(of(emitted(new TypeError('x')))).toBe('message');
    expect(of('a text', 'emit')).toBe('message');
  });
});

describe('something else failed', () => {
  it('a call of this package that gave no answer', () => {
    expect(of(new TimeoutError("send('x'): no reply", 30))).toBe('call');
    expect(of(new Error('outer', { cause: new TimeoutError('x', 30) }))).toBe('call');
    expect(of(new TransportError('ERR_AUTHORIZATION', 'x'))).toBe('sink');
    expect(of(new OptionsError('a', 'b', 'c'))).toBe('message');
  });

  it("an error of the user's own, and a timeout of the handler, wait for the reconnect", () => {
    for (const error of [
      new Error('x'),
      'text',
      undefined,
      null,
      { status: 'error', message: 'Internal server error' },
    ]) {
      expect(of(error)).toBe('handler');
    }
    expect(of(new TimeoutError('x', 30, { code: 'ERR_HANDLER_TIMEOUT' }), 'timeout')).toBe('handler');
    expect(of(new TransportError('ERR_SERIALIZATION', 'x'), 'undecodable')).toBe('message');
  });

  it('a chain of causes without an end', () => {
    const error = new Error('x');
    error.cause = error;
    expect(of(error)).toBe('handler');
  });
});

it('of several handlers a sink that is down counts most, then what only a reconnect brings back', () => {
  const [sink, own, call, message] = [
    { error: unreachable(), kind: 'emit' as const },
    { error: new Error('x'), kind: 'handler' as const },
    { error: new TimeoutError('x', 1), kind: 'handler' as const },
    { error: new Error('x'), kind: 'undecodable' as const },
  ];
  expect(holdReason([message, call, own, sink])).toBe('sink');
  expect(holdReason([message, call, own])).toBe('handler');
  expect(holdReason([message, call])).toBe('call');
  expect(holdReason([])).toBe('handler');
});
