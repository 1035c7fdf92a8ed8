import { connect } from 'node:net';

/**
 * True when the broker on this port of 127.0.0.1 answers a CONNECT (3.1.1, clean session) with CONNACK 0, or with any where
 * that is enough.
 */
export function answersConnect(port: number, refusalIsAnswer: boolean): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port });
    const finish = (answer: boolean): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(2_000, () => finish(false));
    socket.on('error', () => finish(false)).on('close', () => finish(false));
    socket.once('connect', () =>
      socket.write(Buffer.from([0x10, 0x10, 0, 4, 0x4d, 0x51, 0x54, 0x54, 4, 2, 0, 10, 0, 4, 0x70, 0x72, 0x6f, 0x62])),
    );
    socket.once('data', (data) => finish(data[0] === 0x20 && (refusalIsAnswer || data[3] === 0)));
  });
}
