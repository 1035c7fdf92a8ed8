import { type TransportError } from '../../errors.js';
import { RemoteProtocolError } from '../../errors.js';
import { type ServerCommand } from '../codec/command-types.js';
import { LookupType } from '../codec/constants.js';
import { BrokerError } from './server-errors.js';

export type LookupResponse = Extract<ServerCommand, { type: 'lookupTopicResponse' }>;

/** What to do next: ask (the service URL when `brokerUrl` is undefined), connect to the broker found, or give up. */
export type LookupStep =
  | { readonly kind: 'ask'; readonly brokerUrl: string | undefined; readonly authoritative: boolean }
  | {
      readonly kind: 'found';
      readonly brokerUrl: string;
      /** Dial the service URL and let it pass us on to the broker. */
      readonly throughService: boolean;
    }
  | { readonly kind: 'failed'; readonly error: TransportError };

/** One lookup of a topic's owner: follows redirects, at most {@link MAX_REDIRECTS}. */
export class LookupState {
  private redirects = 0;

  constructor(
    private readonly topic: string,
    /** Take the TLS URLs of the answers. */
    private readonly tls: boolean,
  ) {}

  first(): LookupStep {
    return { kind: 'ask', brokerUrl: undefined, authoritative: false };
  }

  next(answer: LookupResponse): LookupStep {
    const brokerUrl = this.tls ? answer.brokerServiceUrlTls : answer.brokerServiceUrl;
    switch (answer.response) {
      case LookupType.Redirect:
        this.redirects += 1;
        if (this.redirects > MAX_REDIRECTS) {
          return this.failed(`more than ${MAX_REDIRECTS} redirects`);
        }
        if (brokerUrl === undefined || brokerUrl === '') return this.failed(`a redirect without ${this.urlName()}`);
        return { kind: 'ask', brokerUrl, authoritative: answer.authoritative === true };
      case LookupType.Connect:
        if (brokerUrl === undefined || brokerUrl === '') return this.failed(`an answer without ${this.urlName()}`);
        return { kind: 'found', brokerUrl, throughService: answer.proxyThroughServiceUrl === true };
      default:
        return {
          kind: 'failed',
          error: new BrokerError(`Lookup of '${this.topic}'`, answer.error ?? 0, answer.message ?? 'no reason given'),
        };
    }
  }

  private urlName(): string {
    return this.tls ? 'a TLS broker URL' : 'a broker URL';
  }

  private failed(detail: string): LookupStep {
    return { kind: 'failed', error: new RemoteProtocolError(`Lookup of '${this.topic}': ${detail}`) };
  }
}

/** As in the Java client. */
export const MAX_REDIRECTS = 20;
