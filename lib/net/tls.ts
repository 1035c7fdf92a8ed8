import { isIP } from 'node:net';
import { type ConnectionOptions, connect } from 'node:tls';
import { AuthenticationError, ConnectionError, type TransportError } from '../errors.js';
import { type Clock } from './clock.js';
import { errorText, socketTransport } from './socket-transport.js';
import { type Dialer } from './transport.js';

/** TLS settings; the peer is verified unless `rejectUnauthorized` is false. PEM texts or buffers. */
export interface TlsOptions {
  /** Certificate authorities to trust instead of Node's own list. */
  readonly ca?: string | Buffer | (string | Buffer)[];
  /** Client certificate chain. */
  readonly cert?: string | Buffer;
  /** Private key of the client certificate. */
  readonly key?: string | Buffer;
  readonly passphrase?: string;
  readonly pfx?: string | Buffer;
  /** The name to verify and to send as SNI. Default: the host that is dialled. */
  readonly servername?: string;
  readonly alpnProtocols?: string[];
  readonly minVersion?: 'TLSv1.2' | 'TLSv1.3';
  /** Default true. False accepts any certificate: for experiments only. */
  readonly rejectUnauthorized?: boolean;
}

/** Node's own names for {@link TlsOptions}. */
export function tlsConnectionOptions(host: string, tls: TlsOptions): ConnectionOptions {
  const servername = tls.servername ?? (isIP(host) === 0 ? host : undefined);
  return {
    ...(tls.ca !== undefined && { ca: tls.ca }),
    ...(tls.cert !== undefined && { cert: tls.cert }),
    ...(tls.key !== undefined && { key: tls.key }),
    ...(tls.passphrase !== undefined && { passphrase: tls.passphrase }),
    ...(tls.pfx !== undefined && { pfx: tls.pfx }),
    ...(servername !== undefined && { servername }),
    ...(tls.alpnProtocols !== undefined && { ALPNProtocols: tls.alpnProtocols }),
    ...(tls.minVersion !== undefined && { minVersion: tls.minVersion }),
    rejectUnauthorized: tls.rejectUnauthorized ?? true,
  };
}

export function tlsDialer(
  target: { readonly host: string; readonly port: number },
  tls: TlsOptions,
  options: { readonly description: string; readonly connectTimeout: number | undefined; readonly clock: Clock },
): Dialer {
  return (handlers) => {
    const socket = connect({ host: target.host, port: target.port, ...tlsConnectionOptions(target.host, tls) });
    return socketTransport(socket, handlers, {
      ...options,
      openEvent: 'secureConnect',
      mapError: (error) => tlsError(error, options.description, tls.servername ?? target.host, tls.ca !== undefined),
    });
  };
}

/** Names the peer, the name that was verified and which trust list was used: what one needs to find the wrong one. */
export function tlsError(error: Error, description: string, servername: string, ownCa: boolean): TransportError {
  const code = (error as NodeJS.ErrnoException).code ?? '';
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') {
    return new AuthenticationError(
      `${description}: the server's certificate is not valid for the host name '${servername}': ${error.message}`,
      { cause: error, retriable: true },
    );
  }
  if (CERTIFICATE_CODES.has(code) || code.startsWith('CERT_')) {
    const list = ownCa ? "the given 'ca'" : "Node's certificate list (no 'ca' was given)";
    return new AuthenticationError(
      `${description}: the certificate for '${servername}' is not trusted by ${list}: ${code} ${error.message}`,
      { cause: error, retriable: true },
    );
  }
  return new ConnectionError(`${description}: ${errorText(error)}`, { cause: error });
}

const CERTIFICATE_CODES = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
]);
