import { IntrinsicException } from '@nestjs/common';
import { RpcException } from '@nestjs/microservices';

/**
 * Whether Nest's own exception filter has logged an error, with its stack: it does so for everything that no other filter
 * handled, but for `RpcException`s and the exceptions that Nest knows itself (`HttpException`s among them). What it gives
 * the caller then is always the same.
 *
 * @param filtered what came out of the filters; `undefined`: they were not asked
 * @param thrown what was thrown, where it is known
 */
export function loggedByNest(filtered: { readonly error: unknown } | undefined, thrown: unknown): boolean {
  if (filtered === undefined || thrown instanceof RpcException || thrown instanceof IntrinsicException) return false;
  const { error } = filtered;
  if (typeof error !== 'object' || error === null) return false;
  const { status, message } = error as { status?: unknown; message?: unknown };
  return status === 'error' && message === UNKNOWN_EXCEPTION && Object.keys(error).length === 2;
}

const UNKNOWN_EXCEPTION = 'Internal server error';
