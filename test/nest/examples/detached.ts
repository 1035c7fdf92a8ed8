import { Controller, Inject } from '@nestjs/common';
import { Ctx, Payload } from '@nestjs/microservices';
import { MqttEvent, MqttMessageContext } from '../../../lib/index.js';

/** Takes work now, calls `done` some time later. */
export interface Uploads {
  add(bytes: Buffer, done: (error?: Error) => void): void;
}

@Controller()
export class UploadController {
  constructor(
    @Inject('UPLOADS') private readonly uploads: Uploads,
    @Inject('STORE_URL') private readonly storeUrl: string,
  ) {}

  // Returns at once and frees its running place; the message is acknowledged when the upload is done.
  @MqttEvent('devices/+/upload')
  upload(@Payload() payload: Buffer, @Ctx() context: MqttMessageContext): void {
    const handle = context.detach({ timeout: 600_000 });
    this.uploads.add(payload, (error) => {
      if (error === undefined) handle.acknowledge();
      else handle.fail(error);
    });
  }

  // The signal aborts when the handler's time is over, at the end of `shutdownTimeout`, and on `destroy()`.
  @MqttEvent('devices/+/report', { handlerTimeout: 5_000 })
  async report(@Payload() payload: Buffer, @Ctx() context: MqttMessageContext): Promise<void> {
    const { signal } = context;
    const response = await fetch(this.storeUrl, { method: 'POST', body: new Uint8Array(payload), signal });
    if (!response.ok) throw new Error(`the store answered ${response.status}`);
  }
}
