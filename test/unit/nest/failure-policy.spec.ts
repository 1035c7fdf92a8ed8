import {
  decideByTable,
  type Failure,
  type FailureFunction,
  fullForm,
  resolveFailurePolicy,
} from '../../../lib/nest/failure-policy.js';

const failure = { kind: 'handler', run: 1 } as Failure;
const decide: FailureFunction = () => 'retry';
const byFunction = resolveFailurePolicy(decide, 'failure');

it("a 'retry' of the inherited function waits as the handler says, and no longer than its maxHold", () => {
  const policy = resolveFailurePolicy({ retry: { initialDelay: 7, maxHold: 9 } }, 'failure', byFunction);
  expect(policy).toMatchObject({ decide, attempts: 1, maxHold: 9 });
  expect(fullForm('retry', policy, failure, 1)).toEqual({ action: 'retry', delayMs: 7 });
});

it('a handler that says what is done then has a table of its own', () => {
  const policy = resolveFailurePolicy({ retry: { initialDelay: 7 }, then: 'discard' }, 'failure', byFunction);
  expect(policy.decide).toBeUndefined();
  expect(decideByTable(policy, failure, 1)).toEqual({ action: 'discard' });
});

it("a handler's function takes the place of the strategy's table, but for the delays", () => {
  const table = resolveFailurePolicy({ retry: { attempts: 3, initialDelay: 7 }, then: 'discard' }, 'failure');
  const policy = resolveFailurePolicy(decide, 'failure', table);
  expect(policy).toMatchObject({ decide, attempts: 1 });
  expect(fullForm('retry', policy, failure, 1)).toEqual({ action: 'retry', delayMs: 7 });
});
