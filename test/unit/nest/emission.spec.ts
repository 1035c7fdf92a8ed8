import { firstValueFrom, lastValueFrom, map, toArray } from 'rxjs';
import { currentScope, DeliveryScope, proxyCreated } from '../../../lib/nest/delivery-scope.js';
import { Emission, type EmissionOwner } from '../../../lib/nest/emission.js';

class Owner implements EmissionOwner {
  readonly log: string[] = [];
  emissionSettled(emission: Emission<unknown>, unattended: boolean): void {
    this.log.push(`${emission.pattern} ${emission.state}${unattended ? ' unattended' : ''}`);
  }
  emittedLate(emission: Emission<unknown>, handler: string): void {
    this.log.push(`${emission.pattern} late ${handler}`);
  }
}

describe('Emission', () => {
  let owner: Owner;
  let scope: DeliveryScope;
  const inScope = (holds = true): Emission<number> => {
    let emission: Emission<number> | undefined;
    scope.run(() => (emission = new Emission<number>(owner, 'p', holds)));
    return emission!;
  };

  beforeAll(proxyCreated);
  beforeEach(() => {
    owner = new Owner();
    scope = new DeliveryScope('Handler.method');
  });

  it('gives one value and completes, to early and late subscribers alike', async () => {
    const emission = new Emission<number>(owner, 'p', true);
    const early = [lastValueFrom(emission.pipe(toArray())), firstValueFrom(emission), emission.outcome()];
    emission.succeed(7);
    emission.succeed(8);
    emission.fail(new Error('too late'));
    expect(await Promise.all(early)).toEqual([[7], 7, 7]);
    expect(await lastValueFrom(emission)).toBe(7);
    expect(await firstValueFrom(emission.pipe(map((value) => value * 2)))).toBe(14);
    expect(owner.log).toEqual(['p stored unattended']);
  });

  it('gives one error, to early and late subscribers alike', async () => {
    const emission = new Emission<number>(owner, 'p', true);
    const error = new Error('refused');
    const early = [lastValueFrom(emission), emission.outcome()].map((promise) => promise.catch((e: unknown) => e));
    emission.fail(error);
    emission.succeed(1);
    expect(await Promise.all(early)).toEqual([error, error]);
    await expect(lastValueFrom(emission)).rejects.toBe(error);
  });

  it('does nothing for who unsubscribed', () => {
    const emission = new Emission<number>(owner, 'p', true);
    const seen: number[] = [];
    const subscriptions = [1, 2, 3].map((n) => emission.subscribe((value) => seen.push(n * value)));
    subscriptions[1].unsubscribe();
    emission.succeed(10);
    expect(seen).toEqual([10, 30]);
  });

  it('is observed by a subscription, before or after its outcome', () => {
    const emission = new Emission<number>(owner, 'p', true);
    expect(emission.observed).toBe(false);
    emission.fail(new Error('refused'));
    expect(emission.observed).toBe(false);
    emission.subscribe({ error: () => undefined });
    expect(emission.observed).toBe(true);
  });

  it('holds the scope it was made in until its outcome', () => {
    const emission = inScope();
    expect(scope.pending).toBe(1);
    emission.succeed(1);
    expect([scope.pending, owner.log]).toEqual([0, ['p stored']]);
  });

  it('fails the run unless somebody subscribed', () => {
    inScope().fail(new Error('unseen'));
    expect((scope.failure()!.error as Error).message).toBe('unseen');
  });

  it('holds nothing on request', () => {
    const emission = inScope(false);
    expect(scope.pending).toBe(0);
    emission.fail(new Error('refused'));
    expect([scope.failure(), owner.log]).toEqual([undefined, ['p failed unattended']]);
  });

  it('is late in a closed scope: nothing is held', () => {
    scope.close();
    const emission = inScope();
    emission.succeed(1);
    expect(owner.log).toEqual(['p late Handler.method', 'p stored unattended']);
  });

  it('what a subscriber emits in turn belongs to the same delivery, and the first is done only after it', () => {
    const emission = inScope();
    let second: Emission<number> | undefined;
    let idle = 0;
    emission.subscribe(() => {
      expect(currentScope()).toBe(scope);
      second = new Emission<number>(owner, 'second', true);
    });
    scope.whenIdle(() => (idle += 1));
    emission.succeed(1);
    expect([scope.pending, idle]).toEqual([1, 0]);
    second!.succeed(2);
    expect([scope.pending, idle]).toEqual([0, 1]);
  });

  it('can be taken back while there is something to take back', () => {
    const emission = inScope();
    expect(emission.cancel()).toBe(false);
    let asked = 0;
    emission.handle = { cancel: () => (asked += 1) > 0 };
    expect(emission.cancel()).toBe(true);
    emission.fail(new Error('taken back'));
    expect([emission.cancel(), asked]).toEqual([false, 1]);
  });
});
