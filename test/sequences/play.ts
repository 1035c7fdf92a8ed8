import { MqttClient } from '../../lib/mqtt/index.js';
import { matches } from './compare.js';
import { ScriptedPeer } from './scripted-peer.js';
import { type Sequence } from './sequence.js';

export interface PlayOptions {
  /** Compare the reason code of a DISCONNECT as well. Default false. */
  readonly exactDisconnect?: boolean;
  /** Milliseconds for an expected packet or the end of the connection. */
  readonly patience?: number;
}

/** So many topic aliases the sequences count on; the client's other options stay at their defaults. */
const TOPIC_ALIAS_MAXIMUM = 10;
const CHECK_ID = 65_535;

/** Plays the line's server against our client. @returns what went wrong, or undefined */
export async function play(sequence: Sequence, options: PlayOptions = {}): Promise<string | undefined> {
  const peer = await ScriptedPeer.listen();
  const client = new MqttClient({
    url: `mqtt://127.0.0.1:${peer.port}`,
    clientId: 'sequence',
    protocolVersion: sequence.version as 4 | 5,
    cleanStart: sequence.cleanStart,
    allowEphemeralSession: true,
    topicAliasMaximum: TOPIC_ALIAS_MAXIMUM,
    reconnect: { initial: 60_000, max: 60_000 },
  });
  client.onDelivery = (delivery) => client.acknowledge(delivery);
  // Refused and broken connections are what most lines are about; the wire tells whether the client behaved.
  client.on('error', () => undefined);
  const running = run(client, sequence);
  try {
    return await playSteps(peer, sequence, options.exactDisconnect ?? false, options.patience ?? 2000);
  } finally {
    client.destroy();
    peer.destroy();
    await running;
  }
}

async function run(client: MqttClient, { command }: Sequence): Promise<void> {
  try {
    await client.connect();
    if (command === 'unsubscribe') await client.unsubscribe(['test/subscribe']);
    else if (command !== null)
      await client.publish({ topic: 'test/publish', payload: 'message', qos: command === 'publish-1' ? 1 : 2 });
  } catch {
    // The connection ended before the command was through, or it was refused: the steps judge that.
  }
}

async function playSteps(
  peer: ScriptedPeer,
  sequence: Sequence,
  exactDisconnect: boolean,
  patience: number,
): Promise<string | undefined> {
  if (!(await peer.connected(10_000))) return 'the client did not connect';
  for (const [index, step] of sequence.steps.entries()) {
    if ('send' in step) {
      peer.send(Buffer.from(step.send, 'hex'));
      continue;
    }
    const packet = await peer.next(patience);
    if (packet === undefined) {
      if (peer.closed && sequence.then === 'closed') return undefined;
      return `step ${index + 1}: ${step.expect} did not come${peer.closed ? ', the client closed' : ''}`;
    }
    const right =
      step.expect === 'CONNECT'
        ? packet[0] >> 4 === 1
        : matches(packet, Buffer.from(step.expect, 'hex'), sequence, exactDisconnect);
    if (!right) return `step ${index + 1}: ${packet.toString('hex')} came instead of ${step.expect}`;
  }
  if (sequence.then === 'closed')
    return (await peer.closes(patience)) ? undefined : 'the client kept the connection open';
  return checkAlive(peer, sequence.version, patience);
}

/** A message of QoS 1 must be acknowledged, and nothing else may come before. */
async function checkAlive(peer: ScriptedPeer, version: number, patience: number): Promise<string | undefined> {
  const topic = Buffer.from('alive check');
  const body = Buffer.concat([
    Buffer.from([0, topic.length]),
    topic,
    Buffer.from([CHECK_ID >> 8, CHECK_ID & 0xff]),
    Buffer.from(version === 5 ? [0] : []),
    Buffer.from('payload'),
  ]);
  peer.send(Buffer.concat([Buffer.from([0x32, body.length]), body]));
  const packet = await peer.next(patience);
  if (packet === undefined) return `no PUBACK for the last message${peer.closed ? ', the client closed' : ''}`;
  const right = packet[0] === 0x40 && packet.length >= 4 && packet.readUInt16BE(2) === CHECK_ID;
  return right ? undefined : `${packet.toString('hex')} came instead of the PUBACK for the last message`;
}
