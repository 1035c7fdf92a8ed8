import { Catch, type ExceptionFilter, UseFilters } from '@nestjs/common';
import { recordFailureInScope } from './delivery-scope.js';

/**
 * Nest asks the exception filters of a handler in turn whether the error is theirs, with `instanceof`. This "class" looks at
 * the error that way, notes it for the run it belongs to, and says no: every other filter, and Nest's own, does what it
 * would have done. So errors of guards, pipes, interceptors and the handler itself are all seen, and nothing is added to
 * the way of a message that does not fail (an interceptor costs more than all the rest of Nest's pipeline).
 */
class Peek {
  static [Symbol.hasInstance](error: unknown): boolean {
    recordFailureInScope(error);
    return false;
  }
}

@Catch(Peek)
class FailurePeekFilter implements ExceptionFilter {
  /* istanbul ignore next: `Peek` has no instances */
  catch(): undefined {
    return undefined;
  }
}

/** Records what a handler throws before an exception filter masks it; needs the run to be in a scope of its own. */
export function peekAtFailures(target: object, key: string | symbol, descriptor: PropertyDescriptor): void {
  UseFilters(FailurePeekFilter)(target, key, descriptor);
  // The filter declared last is asked first. `@UseFilters()` above our decorator comes after it: so once the class is
  // complete, ours is put last again.
  queueMicrotask(() => {
    const method = descriptor.value as object;
    const filters = Reflect.getMetadata(EXCEPTION_FILTERS, method) as unknown[];
    const others = filters.filter((filter) => filter !== FailurePeekFilter);
    Reflect.defineMetadata(EXCEPTION_FILTERS, [...others, FailurePeekFilter], method);
  });
}

/** The key under which `@UseFilters()` stores its filters. */
const EXCEPTION_FILTERS = '__exceptionFilters__';
