import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Throw-away certificates, as PEM files. */
export interface Certificates {
  readonly ca: string;
  /** Another CA, which signed nothing of these: what a client must refuse to trust. */
  readonly otherCa: string;
  readonly server: KeyPair;
  /** Signed by `ca` for the host name `elsewhere.invalid`: what a client must refuse by name. */
  readonly wrongHost: KeyPair;
  /** For `localhost` alone, and for 127.0.0.1 alone: which of the two a client has checked. */
  readonly nameOnly: KeyPair;
  readonly addressOnly: KeyPair;
  readonly client: KeyPair;
  /** Of the same name, signed by `otherCa`: what a server must refuse. */
  readonly strangeClient: KeyPair;
}

export interface KeyPair {
  readonly certificate: string;
  /** PKCS#8, as the Pulsar broker wants it. */
  readonly key: string;
}

/** Makes a CA, server certificates and a client certificate (common name `clientName`) in `folder` with openssl. */
export function makeCertificates(folder: string, clientName = 'device'): Certificates {
  mkdirSync(folder, { recursive: true });
  const ca = authority(folder, 'ca');
  const otherCa = authority(folder, 'other-ca');
  return {
    ca: ca.certificate,
    otherCa: otherCa.certificate,
    server: signed(folder, ca, 'server', 'localhost', 'subjectAltName=DNS:localhost,IP:127.0.0.1'),
    wrongHost: signed(folder, ca, 'wrong-host', 'elsewhere.invalid', 'subjectAltName=DNS:elsewhere.invalid'),
    nameOnly: signed(folder, ca, 'name-only', 'name', 'subjectAltName=DNS:localhost'),
    addressOnly: signed(folder, ca, 'address-only', 'address', 'subjectAltName=IP:127.0.0.1'),
    client: signed(folder, ca, 'client', clientName, 'extendedKeyUsage=clientAuth'),
    strangeClient: signed(folder, otherCa, 'strange-client', clientName, 'extendedKeyUsage=clientAuth'),
  };
}

function authority(folder: string, name: string): KeyPair {
  const key = newKey(folder, name);
  const certificate = join(folder, `${name}.crt`);
  openssl('req', '-x509', '-new', '-key', key, '-out', certificate, '-days', '30', '-subj', `/CN=${name} of a test`);
  return { certificate, key };
}

function signed(folder: string, ca: KeyPair, name: string, commonName: string, extension: string): KeyPair {
  const key = newKey(folder, name);
  const request = join(folder, `${name}.csr`);
  const extensions = join(folder, `${name}.ext`);
  const certificate = join(folder, `${name}.crt`);
  writeFileSync(extensions, `${extension}\n`);
  openssl('req', '-new', '-key', key, '-out', request, '-subj', `/CN=${commonName}`);
  const by = ['-CA', ca.certificate, '-CAkey', ca.key, '-CAcreateserial'];
  openssl('x509', '-req', '-in', request, ...by, '-days', '30', '-extfile', extensions, '-out', certificate);
  return { certificate, key };
}

function newKey(folder: string, name: string): string {
  const key = join(folder, `${name}.key`);
  openssl('genpkey', '-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:P-256', '-out', key);
  return key;
}

function openssl(...args: string[]): void {
  execFileSync('openssl', args, { stdio: ['ignore', 'ignore', 'pipe'] });
}
