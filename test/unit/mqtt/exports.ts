export { SubscriptionError } from '../../../lib/errors.js';
export { assertGranted } from '../../../lib/mqtt/index.js';
