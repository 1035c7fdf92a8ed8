/** Prints the heap in use after a forced collection when so many messages are done. */
export class HeapProbe {
  private readonly marks: number[];

  constructor(marks: readonly number[]) {
    this.marks = [...marks].sort((a, b) => a - b);
    if (marks.length > 0 && global.gc === undefined) throw new Error('--heap-at needs node --expose-gc');
  }

  at(done: number): void {
    while ((this.marks[0] ?? Infinity) <= done) {
      const mark = this.marks.shift();
      for (let pass = 0; pass < 3; pass++) global.gc?.();
      console.log(JSON.stringify({ heapAt: mark, bytes: process.memoryUsage().heapUsed }));
    }
  }
}
