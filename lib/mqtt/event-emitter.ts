/** A small typed emitter: listeners are called synchronously in the order they came. */
export class EventEmitterOf<Events extends object> {
  private readonly listeners: { [K in keyof Events]?: ((payload: Events[K]) => void)[] } = {};

  /** @returns the function that removes the listener */
  on<K extends keyof Events>(event: K, listener: (payload: Events[K]) => void): () => void {
    (this.listeners[event] ??= []).push(listener);
    return () => {
      const list = this.listeners[event] ?? [];
      const index = list.indexOf(listener);
      // A list that is being walked through is not changed.
      if (index >= 0) this.listeners[event] = list.toSpliced(index, 1);
    };
  }

  has(event: keyof Events): boolean {
    return (this.listeners[event]?.length ?? 0) > 0;
  }

  emit<K extends keyof Events>(event: K, payload: Events[K]): void {
    for (const listener of this.listeners[event] ?? []) listener(payload);
  }
}
