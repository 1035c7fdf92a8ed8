/**
 * What a thrown value says of itself. Anything can be thrown, also what has no text (`Object.create(null)`, a message that is
 * no string, a `toString` that throws): this never throws.
 */
export function errorText(thrown: unknown): string {
  try {
    if (typeof thrown === 'object' && thrown !== null && 'message' in thrown && typeof thrown.message === 'string') {
      return thrown.message;
    }
    return String(thrown);
  } catch {
    return `a value of type ${typeof thrown} that has no text`;
  }
}

/** What a thrown value says, as an error; an error stays as it is. */
export function toError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(errorText(thrown));
}
