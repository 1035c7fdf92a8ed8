import { RemoteProtocolError } from '../../../../lib/errors.js';
import { encodePacket } from '../../../../lib/mqtt/codec/control.js';
import { FrameReader } from '../../../../lib/mqtt/codec/frame-reader.js';
import { hex, random, randomPublish } from './support.js';

/** Valid streams with every packet type a server sends. */
function streams(next: () => number) {
  return ([4, 5] as const).map((version) => ({
    version,
    bytes: Buffer.concat([
      hex(
        version === 5
          ? '200a00000726000170000171 9004000100 01 b00400020011 4008000100041f000170 500300028 0 62020005 70040005 9200 d000'
          : '20020000 90030001 01 b0020002 40020001 50020002 62020005 70020005 d000',
      ),
      ...Array.from({ length: 4 }, () => encodePacket(randomPublish(next, version), version)),
      hex(version === 5 ? 'e00980072600017000 0171' : ''),
    ]),
  }));
}

/** Reads all there is; gives the error or undefined. Anything but our own verdict about the bytes is thrown on. */
function drain(reader: FrameReader): RemoteProtocolError | undefined {
  try {
    while (reader.next() !== undefined);
    return undefined;
  } catch (error) {
    if (error instanceof RemoteProtocolError && error.cause === undefined) return error;
    throw error;
  }
}

it('the streams are valid as they are', () => {
  for (const { version, bytes } of streams(random(1))) {
    const reader = new FrameReader(version, { maximumPacketSize: 5000 });
    reader.push(bytes);
    expect(drain(reader)).toBeUndefined();
    expect(reader.bufferedBytes).toBe(0);
  }
});

it('100,000 mutations end in packets or in one RemoteProtocolError, and nothing follows it', () => {
  const next = random(20_261);
  const sources = streams(next);
  const allowed = new Set([0x81, 0x82, 0x90, 0x94, 0x95]);
  let errors = 0;
  for (let round = 0; round < 100_000; round += 1) {
    const { version, bytes } = sources[round & 1];
    let mutated = Buffer.from(bytes);
    for (let times = 1 + Math.floor(next() * 3); times > 0; times -= 1) {
      const at = Math.floor(next() * mutated.length);
      const kind = next();
      if (kind < 0.7) mutated[at] = Math.floor(next() * 256);
      else if (kind < 0.85) mutated = Buffer.concat([mutated.subarray(0, at), mutated.subarray(at + 1)]);
      else mutated = Buffer.concat([mutated.subarray(0, at), Buffer.from([next() * 256]), mutated.subarray(at)]);
    }
    const reader = new FrameReader(version, { maximumPacketSize: 5000 });
    const split = Math.floor(next() * mutated.length);
    reader.push(mutated.subarray(0, split));
    const early = drain(reader);
    reader.push(mutated.subarray(split));
    const error = drain(reader);
    if (early !== undefined && error !== early) throw new Error(`round ${round}: another answer after the first error`);
    if (error === undefined) continue;
    errors += 1;
    if (!allowed.has(error.reasonCode)) throw new Error(`round ${round}: reason code ${error.reasonCode}`);
    reader.push(bytes);
    if (drain(reader) !== error) throw new Error(`round ${round}: the reader went on after an error`);
    if (reader.bufferedBytes !== 0) throw new Error(`round ${round}: bytes are kept after an error`);
  }
  expect(errors).toBeGreaterThan(50_000);
});

it('20,000 streams of random bytes do the same', () => {
  const next = random(7);
  for (let round = 0; round < 20_000; round += 1) {
    const reader = new FrameReader(round & 1 ? 5 : 4, { maximumPacketSize: 200 });
    reader.push(Buffer.from(Array.from({ length: 40 }, () => next() * 256)));
    const error = drain(reader);
    if (error === undefined && reader.bufferedBytes > 200) throw new Error(`round ${round}: more kept than a packet`);
  }
});

it('mutated streams give the same packets and the same verdict whatever the chunks', () => {
  const next = random(3);
  const sources = streams(next);
  const outcome = (bytes: Buffer, version: 4 | 5, cut: number): string => {
    const reader = new FrameReader(version, { maximumPacketSize: 5000 });
    const seen: unknown[] = [];
    for (let at = 0; at < bytes.length; at += cut) {
      reader.push(bytes.subarray(at, at + cut));
      try {
        for (let packet = reader.next(); packet !== undefined; packet = reader.next()) seen.push(packet);
      } catch (error) {
        seen.push((error as Error).message);
        break;
      }
    }
    return JSON.stringify(seen);
  };
  for (let round = 0; round < 600; round += 1) {
    const { version, bytes } = sources[round & 1];
    const mutated = Buffer.from(bytes);
    mutated[Math.floor(next() * mutated.length)] = Math.floor(next() * 256);
    const whole = outcome(mutated, version, mutated.length);
    expect(outcome(mutated, version, 1)).toBe(whole);
    expect(outcome(mutated, version, 2 + Math.floor(next() * 50))).toBe(whole);
  }
});
