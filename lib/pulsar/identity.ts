import { AuthenticationError, isTransportError } from '../errors.js';
import { type Authentication } from './auth.js';

/** The {@link Authentication} of a client as its connections share it: it remembers that the broker refused the data. */
export class Identity {
  private refusedLast = false;

  constructor(private readonly auth: Authentication) {}

  get method(): string {
    return this.auth.method;
  }

  /** Another try can have other data. */
  get renewable(): boolean {
    return this.auth.renewable !== false;
  }

  /**
   * @param challenged the broker asks for new data on a connection that has given some
   * @throws TransportError whatever the source threw, as an AuthenticationError that can be retried
   */
  async data(challenged: boolean): Promise<Buffer> {
    const fresh = challenged || this.refusedLast;
    this.refusedLast = false;
    try {
      const data = await this.auth.getAuthData({ fresh });
      return typeof data === 'string' ? Buffer.from(data, 'utf8') : Buffer.from(data);
    } catch (cause) {
      this.refusedLast ||= fresh;
      if (isTransportError(cause)) throw cause;
      throw new AuthenticationError(`The '${this.method}' authentication gave no data`, { cause, retriable: true });
    }
  }

  /** The broker did not accept the data: the next try asks for fresh data. */
  refused(): void {
    this.refusedLast = true;
  }
}
