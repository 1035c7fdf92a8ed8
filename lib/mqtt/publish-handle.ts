import { type OutboundPublish } from './protocol/outbound-publish.js';
import { type PublishHandle } from './types.js';

/** A publish that the session has taken over. */
export class SubmittedPublish implements PublishHandle {
  constructor(
    private readonly publish: OutboundPublish,
    private readonly cancelPublish: (publish: OutboundPublish) => boolean,
  ) {}

  get written(): boolean {
    return this.publish.written;
  }

  cancel(): boolean {
    return this.cancelPublish(this.publish);
  }
}

/** One that was refused at once. */
export const REFUSED_PUBLISH: PublishHandle = { written: false, cancel: () => false };
