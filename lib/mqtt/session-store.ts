import { type SessionStoreChange, type StoredSession } from './protocol/stored-session.js';

export { type SessionStoreChange, type StoredPublish, type StoredSession } from './protocol/stored-session.js';

/**
 * Keeps a session beyond the process. The client writes nothing to the socket that depends on a change before `apply()`
 * for it has resolved; a rejection ends the client with that error.
 */
export interface SessionStore {
  /** Called once before the first connection attempt. */
  load(clientId: string): Promise<StoredSession>;
  /** Called with one batch at a time. */
  apply(clientId: string, changes: readonly SessionStoreChange[]): Promise<void>;
  close(): Promise<void>;
}
