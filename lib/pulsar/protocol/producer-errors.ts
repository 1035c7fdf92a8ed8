import { RemoteProtocolError, TimeoutError, TransportError } from '../../errors.js';

/** The same failure of a message that was written: it may be stored. */
export function ambiguous(error: TransportError): TransportError {
  return new TransportError(error.code, error.message, {
    retriable: error.retriable,
    ambiguous: true,
    cause: error,
  });
}

export function timeoutError(topic: string, timeoutMs: number, written: boolean): TimeoutError {
  return new TimeoutError(
    `No receipt for a message to '${topic}' within ${timeoutMs} ms${written ? '; it may be stored' : ''}`,
    timeoutMs,
    { code: 'ERR_SEND_TIMEOUT', ambiguous: written },
  );
}

export function deduplicatedError(topic: string, sequenceId: number, refusedBefore: boolean): TransportError {
  const why = refusedBefore
    ? 'it was refused before, and later messages were stored meanwhile'
    : 'it was sent for the first time: another producer with this name has used the id';
  return new TransportError('ERR_DEDUPLICATED', `'${topic}' dropped message ${sequenceId} as a duplicate, but ${why}`);
}

/** The chunks of a message were sent once more, and the broker dropped the last one. */
export function tornError(topic: string, sequenceId: number): TransportError {
  return new TransportError(
    'ERR_DEDUPLICATED',
    `'${topic}' dropped the last chunk of message ${sequenceId} as a duplicate: the message may be stored, or its beginning only`,
    { ambiguous: true, retriable: true },
  );
}

/** The first link did not come up in time and no try has told why. */
export function noAnswer(topic: string): TransportError {
  return new TransportError('ERR_TIMEOUT', `No producer for '${topic}' in the given time`, { retriable: true });
}

/** Access mode Exclusive, and somebody else is there. */
export function occupied(topic: string, cause: TransportError): TransportError {
  return new TransportError(
    'ERR_FENCED',
    `'${topic}' has another producer, and accessMode 'exclusive' does not wait for it ('waitForExclusive' does): ${cause.message}`,
    { cause },
  );
}

export function receiptMismatch(
  topic: string,
  receipt: { readonly sequenceId: number; readonly highestSequenceId: number },
  oldest: { readonly sequenceId: number; readonly highestSequenceId: number },
): TransportError {
  return new RemoteProtocolError(
    `${topic}: a receipt for ${receipt.sequenceId} to ${receipt.highestSequenceId} came while the oldest frame is ` +
      `${oldest.sequenceId} to ${oldest.highestSequenceId}`,
  );
}

/** The broker reopened the producer and takes nothing that is sent to it. */
export function silentLink(topic: string): TransportError {
  return new TransportError('ERR_CONNECTION', `No receipt from '${topic}' since the broker had closed the producer`, {
    retriable: true,
  });
}
