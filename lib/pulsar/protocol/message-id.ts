/** Where a message is stored: ledger, entry, partition and place in its batch (`MessageIdData`). */
export class MessageId {
  constructor(
    readonly ledgerId: number,
    readonly entryId: number,
    /** -1: the topic is not partitioned. */
    readonly partition = -1,
    /** -1: the entry holds one message that was not batched. */
    readonly batchIndex = -1,
    readonly batchSize = 0,
  ) {}

  /** `ledger:entry:partition[:batchIndex]`, as other Pulsar clients print it. */
  toString(): string {
    const entry = `${this.ledgerId}:${this.entryId}:${this.partition}`;
    return this.batchIndex < 0 ? entry : `${entry}:${this.batchIndex}`;
  }

  toJSON(): string {
    return this.toString();
  }
}
