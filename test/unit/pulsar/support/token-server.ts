import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import { type AddressInfo } from 'node:net';

export interface TokenRequest {
  readonly path: string;
  readonly form: URLSearchParams;
  readonly headers: IncomingHttpHeaders;
}

/** What the server says to one request for a token; `undefined`: no answer at all. */
export type TokenAnswer = { readonly status: number; readonly body: unknown } | undefined;

/** An OAuth 2.0 authorization server on 127.0.0.1 with discovery and a token endpoint. */
export class TokenServer {
  readonly requests: TokenRequest[] = [];
  /** Decides the answer to a request for a token; by default a bearer token `access-<n>` that lives for an hour. */
  answer: (request: TokenRequest) => TokenAnswer = () => this.granted(3600);
  discoveries = 0;
  issued = 0;

  private constructor(private readonly server: Server) {}

  static async start(): Promise<TokenServer> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const self = new TokenServer(server);
    server.on('request', (request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const path = request.url ?? '';
        const reply = (answer: TokenAnswer): void => {
          if (answer === undefined) return;
          const text = typeof answer.body === 'string' ? answer.body : JSON.stringify(answer.body);
          response.writeHead(answer.status, { 'content-type': 'application/json' }).end(text);
        };
        if (path === '/realm/.well-known/openid-configuration') {
          self.discoveries++;
          return reply({ status: 200, body: { issuer: self.issuer, token_endpoint: self.tokenUrl } });
        }
        const form = new URLSearchParams(Buffer.concat(chunks).toString());
        const received = { path, form, headers: request.headers };
        self.requests.push(received);
        reply(self.answer(received));
      });
    });
    return self;
  }

  get issuer(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/realm`;
  }

  get tokenUrl(): string {
    return `${this.issuer}/token`;
  }

  granted(seconds: number | undefined): TokenAnswer {
    return {
      status: 200,
      body: { access_token: `access-${++this.issued}`, token_type: 'Bearer', expires_in: seconds },
    };
  }

  close(): void {
    this.server.closeAllConnections();
    this.server.close();
  }
}
