import { errorText, toError } from '../../lib/error-text.js';

describe('what a thrown value says', () => {
  const throwing = {
    get message(): string {
      throw new Error('no');
    },
  };

  it.each<[string, unknown, string]>([
    ['an error', new TypeError('no such device'), 'no such device'],
    ['an object with a message', { status: 'error', message: 'not now' }, 'not now'],
    ['a text', 'gone', 'gone'],
    ['nothing', undefined, 'undefined'],
    ['a symbol', Symbol('s'), 'Symbol(s)'],
    ['an object', { secret: 'x' }, '[object Object]'],
    ['an object without a prototype', Object.create(null), 'a value of type object that has no text'],
    ['a toString that gives no text', { toString: null, valueOf: null }, 'a value of type object that has no text'],
    ['a message that throws', throwing, 'a value of type object that has no text'],
    ['a message that is no text', { message: Object.create(null) as unknown }, '[object Object]'],
  ])('%s', (_what, thrown, text) => {
    expect(errorText(thrown)).toBe(text);
    expect(toError(thrown).message).toBe(text);
  });

  it('an error stays the error that it is', () => {
    const error = new RangeError('x');
    expect(toError(error)).toBe(error);
  });
});
