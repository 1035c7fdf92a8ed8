/** The room's door: transports, time and backoff. */
export { type BackoffOptions, backoffDelay, DEFAULT_BACKOFF } from './backoff.js';
export { type Clock, systemClock, type TimerHandle } from './clock.js';
export { createDialer, describeEndpoint, type DialOptions, type Endpoint } from './dial.js';
export { type TlsOptions } from './tls.js';
export { type Dialer, type Transport, type TransportHandlers } from './transport.js';
