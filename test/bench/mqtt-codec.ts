/**
 * `node out/test/bench/mqtt-codec.js [count]`: the MQTT codec alone, no sockets; ours beside mqtt-packet in the same run.
 * Each row is the best of five rounds; a chunk holds as many packets as a socket read of 64 KiB.
 */
import { generate, parser, type Packet } from 'mqtt-packet';
import { AckWriter } from '../../lib/mqtt/codec/acks.js';
import { FrameReader } from '../../lib/mqtt/codec/frame-reader.js';
import { type Properties, type ProtocolVersion, type PublishPacket } from '../../lib/mqtt/codec/packets.js';
import { encodePublish } from '../../lib/mqtt/codec/publish.js';

const count = Number(process.argv[2] ?? 500_000);
const CHUNK = 65_536;
const ROUNDS = 5;

const publish = (qos: 0 | 1, properties?: Properties): PublishPacket => ({
  type: 'publish',
  topic: 'devices/site-7/pump-23/temperature',
  payload: Buffer.alloc(100, 0x61),
  qos,
  retain: false,
  dup: false,
  packetId: qos === 0 ? 0 : 4711,
  properties,
});
const CONTENT: Properties = {
  contentType: 'application/json',
  userProperties: [
    ['device', 'pump-23'],
    ['unit', 'celsius'],
  ],
};

decode('decode v4 QoS 1, 100 B', publish(1), 4);
decode('decode v5 QoS 1, 100 B', publish(1), 5);
decode('decode v5 QoS 1, 100 B, content type and 2 user properties', publish(1, CONTENT), 5);
encode('encode v5 QoS 1, 100 B', publish(1), 5);
encode('encode v5 QoS 1, 100 B, content type and 2 user properties', publish(1, CONTENT), 5);
acknowledge();

function decode(name: string, packet: PublishPacket, version: ProtocolVersion): void {
  const bytes = encodePublish(packet, version);
  const perChunk = Math.floor(CHUNK / bytes.length);
  const chunk = Buffer.concat(Array.from({ length: perChunk }, () => bytes));
  const total = Math.ceil(count / perChunk) * perChunk;
  const ours = best(total, () => {
    const reader = new FrameReader(version, { maximumPacketSize: 1_000_000 });
    let seen = 0;
    for (let at = 0; at < total; at += perChunk) {
      reader.push(chunk);
      while (reader.next() !== undefined) seen += 1;
    }
    if (seen !== total) throw new Error(`${seen} of ${total} packets`);
  });
  const fewer = Math.ceil(total / 10 / perChunk) * perChunk;
  const theirs = best(fewer, () => {
    const reader = parser({ protocolVersion: version });
    let seen = 0;
    reader.on('packet', () => (seen += 1));
    for (let at = 0; at < fewer; at += perChunk) reader.parse(chunk);
    if (seen !== fewer) throw new Error(`${seen} of ${fewer} packets`);
  });
  row(name, ours, theirs);
}

function encode(name: string, packet: PublishPacket, version: ProtocolVersion): void {
  const ours = best(count, () => {
    for (let index = 0; index < count; index += 1) encodePublish(packet, version);
  });
  const users: Record<string, string> = Object.fromEntries(packet.properties?.userProperties ?? []);
  const theirPacket = {
    cmd: 'publish',
    topic: packet.topic,
    payload: packet.payload,
    qos: packet.qos,
    retain: false,
    dup: false,
    messageId: packet.packetId,
    ...(packet.properties && { properties: { contentType: packet.properties.contentType, userProperties: users } }),
  } as Packet;
  const fewer = Math.ceil(count / 10);
  const theirs = best(fewer, () => {
    for (let index = 0; index < fewer; index += 1) generate(theirPacket, { protocolVersion: version });
  });
  row(name, ours, theirs);
}

function acknowledge(): void {
  const turn = 128;
  const ours = best(count, () => {
    const writer = new AckWriter();
    for (let index = 0; index < count; index += turn) {
      for (let id = 1; id <= turn; id += 1) writer.add('puback', id);
      writer.take();
    }
  });
  const fewer = Math.ceil(count / 10);
  const theirs = best(fewer, () => {
    for (let index = 0; index < fewer; index += 1)
      generate({ cmd: 'puback', messageId: 1 + (index & 127), reasonCode: 0 }, { protocolVersion: 5 });
  });
  row('encode PUBACK, 128 a turn', ours, theirs);
}

/** Nanoseconds per packet in the best round. */
function best(packets: number, run: () => void): number {
  let least = Infinity;
  for (let round = 0; round < ROUNDS; round += 1) {
    const start = process.hrtime.bigint();
    run();
    least = Math.min(least, Number(process.hrtime.bigint() - start) / packets);
  }
  return least;
}

function row(name: string, ours: number, theirs: number): void {
  const figures = `${ours.toFixed(0).padStart(6)} ns   mqtt-packet ${theirs.toFixed(0).padStart(6)} ns   ${(theirs / ours).toFixed(1)} times`;
  console.log(`${name.padEnd(60)}${figures}`);
}
