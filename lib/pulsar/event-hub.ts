/** Listeners by event name. A listener that throws does not keep the others from being told. */
export class EventHub<Events extends object> {
  private readonly listeners = new Map<keyof Events, Set<(payload: never) => void>>();

  /** @returns removes the listener */
  on<Name extends keyof Events>(name: Name, listener: (payload: Events[Name]) => void): () => void {
    let set = this.listeners.get(name);
    if (set === undefined) this.listeners.set(name, (set = new Set()));
    // A wrapper, so that the same function may listen twice.
    const entry = (payload: Events[Name]): void => listener(payload);
    set.add(entry);
    return () => void set.delete(entry);
  }

  /** Somebody listens. */
  has(name: keyof Events): boolean {
    return (this.listeners.get(name)?.size ?? 0) > 0;
  }

  emit<Name extends keyof Events>(name: Name, payload: Events[Name]): void {
    for (const listener of this.listeners.get(name) ?? []) {
      try {
        (listener as (payload: Events[Name]) => void)(payload);
      } catch (thrown) {
        queueMicrotask(() => {
          throw thrown;
        });
      }
    }
  }
}
