/** Reads protobuf fields in place, for the few commands that come with every message. */
import { malformed } from './malformed.js';

export class ProtoCursor {
  at = 0;

  constructor(
    readonly buffer: Uint8Array,
    start: number,
    public end: number,
  ) {
    this.at = start;
  }

  /** Field number and wire type, or 0 at the end. */
  tag(): number {
    if (this.at >= this.end) return 0;
    const tag = this.varint();
    if (tag < 8 || tag > 0xffffffff) throw malformed('field tag');
    return tag;
  }

  /** As a number; from 2^63 on negative, so that 2^64-1 is -1. */
  varint(): number {
    const { buffer } = this;
    let byte = this.#byte(buffer);
    if (byte < 0x80) return byte;
    let low = byte & 0x7f;
    for (let shift = 7; shift < 28; shift += 7) {
      byte = this.#byte(buffer);
      low |= (byte & 0x7f) << shift;
      if (byte < 0x80) return low;
    }
    let middle = 0;
    for (let shift = 0; shift < 28; shift += 7) {
      byte = this.#byte(buffer);
      middle |= (byte & 0x7f) << shift;
      if (byte < 0x80) return low + middle * TWO_28;
    }
    byte = this.#byte(buffer);
    let high = byte & 0x7f;
    if (byte >= 0x80) {
      byte = this.#byte(buffer);
      if (byte > 1) throw malformed('number of more than 64 bits');
      high |= byte << 7;
    }
    if (high < 0x80) return low + middle * TWO_28 + high * TWO_56;
    return -((~low & MASK_28) + (~middle & MASK_28) * TWO_28 + (0xff - high) * TWO_56 + 1);
  }

  /** All 64 bits, signed. */
  varint64(): bigint {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.#byte(this.buffer);
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt.asIntN(64, value);
    }
    throw malformed('number of more than 64 bits');
  }

  /** The end of a length-delimited field that starts here. */
  limit(): number {
    const length = this.varint();
    if (length < 0 || length > this.end - this.at) throw malformed('field beyond its message');
    return this.at + length;
  }

  skip(tag: number): void {
    switch (tag & 7) {
      case 0:
        this.varint();
        break;
      case 1:
        this.#advance(8);
        break;
      case 2:
        this.at = this.limit();
        break;
      case 5:
        this.#advance(4);
        break;
      default:
        throw malformed(`wire type ${tag & 7}`);
    }
  }

  #advance(bytes: number): void {
    if (bytes > this.end - this.at) throw malformed('field beyond its message');
    this.at += bytes;
  }

  #byte(buffer: Uint8Array): number {
    if (this.at >= this.end) throw malformed('number beyond its message');
    return buffer[this.at++];
  }
}

const MASK_28 = 0xfffffff;
const TWO_28 = 2 ** 28;
const TWO_56 = 2 ** 56;
