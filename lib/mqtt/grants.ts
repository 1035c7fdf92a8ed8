import { SubscriptionError } from '../errors.js';
import { reasonName } from './codec/reason-codes.js';
import { type SubscriptionGrant } from './types.js';

/**
 * Throws a `SubscriptionError` that names every filter the broker refused, or granted with less than the requested QoS
 * (which would take the acknowledgement away) unless `allowLower`.
 */
export function assertGranted(
  grants: readonly SubscriptionGrant[],
  options: { readonly allowLower?: boolean } = {},
): void {
  const bad = grants.filter(
    (grant) => grant.reasonCode >= 0x80 || (options.allowLower !== true && grant.reasonCode < grant.requestedQos),
  );
  if (bad.length === 0) return;
  const reasons = bad.map((grant) => `'${grant.filter}': ${describeGrant(grant)}`);
  throw new SubscriptionError(
    `The broker did not grant ${bad.length} of ${grants.length} subscriptions: ${reasons.join('; ')}`,
    bad.map(({ filter, reasonCode }) => ({ filter, reasonCode })),
  );
}

function describeGrant(grant: SubscriptionGrant): string {
  if (grant.reasonCode < 0x80) return `QoS ${grant.reasonCode} granted instead of ${grant.requestedQos}`;
  const text = `refused with 0x${grant.reasonCode.toString(16)} (${reasonName(grant.reasonCode)})`;
  return grant.reasonString === undefined ? text : `${text}: ${grant.reasonString}`;
}
