import { BatchEncoder } from './codec/batch-encoder.js';
import { planChunks } from './codec/chunk-encoder.js';
import { encodeSingle } from './codec/single-encoder.js';
import { type Compression, type EncodableMessage, type Encryption, type FrameSource } from './codec/send-types.js';
import { type FrameCodec, type FrameSourceInfo } from './protocol/frame-maker.js';

/** SEND frames by the codec, with the compression and encryption of one producer. */
export class SendFrameCodec implements FrameCodec<EncodableMessage> {
  private readonly encoder = new BatchEncoder();

  constructor(
    private readonly compression: Compression | undefined,
    /** Looked at for every frame: keys may come later. */
    private readonly encryption: { readonly current: Encryption | undefined } | undefined,
    private readonly maxChunkSize: number | undefined,
  ) {}

  batch(
    source: FrameSourceInfo,
    messages: readonly { readonly message: EncodableMessage }[],
    sequenceIds: readonly number[],
  ): Buffer {
    try {
      for (let index = 0; index < messages.length; index++) {
        this.encoder.add(messages[index].message, sequenceIds[index]);
      }
      return this.encoder.seal(this.source(source));
    } catch (error) {
      this.encoder.clear();
      throw error;
    }
  }

  single(source: FrameSourceInfo, message: EncodableMessage, sequenceId: number): Buffer {
    return encodeSingle(this.source(source), message, sequenceId);
  }

  chunks(source: FrameSourceInfo, message: EncodableMessage, sequenceId: number, maxChunks: number): Buffer[] {
    const frame = this.source(source);
    const { maxMessageSize } = source;
    const { maxChunkSize } = this;
    const plan = planChunks(frame, message, {
      maxMessageSize,
      maxChunks,
      ...(maxChunkSize !== undefined && { maxChunkSize }),
    });
    if (plan === undefined) return [encodeSingle(frame, message, sequenceId)];
    return Array.from({ length: plan.count }, (_, index) => plan.encode(index, frame, sequenceId));
  }

  /** The ordering key wins over the key, as Key_Shared dispatches. */
  batchKey({ orderingKey, keyBytes, key }: EncodableMessage): string {
    const bytes = orderingKey ?? keyBytes;
    if (bytes !== undefined) return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
    return key === undefined ? '' : Buffer.from(key, 'utf8').toString('base64');
  }

  private source(info: FrameSourceInfo): FrameSource {
    const { producerId, producerName, publishTime, maxMessageSize, schemaVersion } = info;
    const { compression } = this;
    const encryption = this.encryption?.current;
    return {
      producerId,
      producerName,
      publishTime,
      maxMessageSize,
      ...(schemaVersion !== undefined && { schemaVersion }),
      ...(compression !== undefined && { compression }),
      ...(encryption !== undefined && { encryption }),
    };
  }
}
