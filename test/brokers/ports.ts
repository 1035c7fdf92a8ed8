import { randomInt } from 'node:crypto';
import { connect, createServer } from 'node:net';

// Below Linux's range of ephemeral ports (32768-60999): while a broker is down for a restart, no outgoing connection can
// have been given its port.
const LOWEST = 20_000;
const HIGHEST = 32_000;
const given = new Set<number>();

/** A TCP port on 127.0.0.1 that nothing listens on and that this process has not given out before. */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < 200; attempt++) {
    const port = randomInt(LOWEST, HIGHEST);
    if (given.has(port) || !(await canListen(port))) continue;
    given.add(port);
    return port;
  }
  throw new Error(`no free port between ${LOWEST} and ${HIGHEST}`);
}

/** True when something accepts connections on this port of 127.0.0.1. */
export function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port });
    const finish = (answer: boolean): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.once('connect', () => finish(true)).on('error', () => finish(false));
    socket.setTimeout(2_000, () => finish(false));
  });
}

function canListen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
