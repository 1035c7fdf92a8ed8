import { parseJson } from '../../../lib/nest/json-text.js';

describe('a JSON payload', () => {
  it.each(['{"a":[1,2]}', '"text"', '0', 'null'])('%s', (text) => {
    expect(parseJson(Buffer.from(text))).toEqual(JSON.parse(text));
  });

  it.each(['hunter2', '{"password":hunter2}', '["hunter2"', '{"password":"hunter2', `${' '.repeat(100)}hunter2`])(
    'that is none (%s): the error says nothing of what stands there',
    (text) => {
      const caught = (): Error => {
        try {
          return new Error(`no error but ${String(parseJson(Buffer.from(text)))}`);
        } catch (error) {
          return error as Error;
        }
      };
      const error = caught();
      expect(error).toMatchObject({ code: 'ERR_SERIALIZATION' });
      expect(error.message).toContain(`${text.length} bytes that are not a JSON text`);
      expect([error.message, error.stack, String(error.cause)].join()).not.toContain('hunter');
    },
  );

  it('of no bytes', () => {
    expect(() => parseJson(Buffer.alloc(0))).toThrow('The payload is empty, which is not a JSON text');
  });
});
