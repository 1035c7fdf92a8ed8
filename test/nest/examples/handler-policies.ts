import { Controller } from '@nestjs/common';
import { Ctx, Payload } from '@nestjs/microservices';
import { type FailureFunction, MqttEvent, MqttMessageContext } from '../../../lib/index.js';

export class InvalidOrder extends Error {}

/** Where a table is not enough: sees what was thrown, decides per failure, may be async. */
const byError: FailureFunction = ({ error, run, ageMs }) => {
  if (error instanceof InvalidOrder) return { action: 'deadLetter', reason: error.message };
  if (run < 3) return { action: 'retry', delayMs: 50 };
  return ageMs > 3_600_000 ? 'discard' : 'redeliver';
};

@Controller()
export class DeviceController {
  // The next position is worth more than a retry of this one. `retry: 1` is one run: else the strategy's four.
  @MqttEvent('devices/+/position', { failure: { retry: 1, then: 'discard' } })
  position(@Payload() payload: Buffer): void {
    if (payload.length !== 16) throw new Error('not a position');
  }

  @MqttEvent('devices/+/order', { payload: 'json', failure: byError })
  order(@Payload() order: { item?: string }): void {
    if (order.item === undefined) throw new InvalidOrder('no item');
  }

  // Or the handler says it itself; what it returns or throws does not count then.
  @MqttEvent('devices/+/firmware')
  firmware(@Payload() payload: Buffer, @Ctx() context: MqttMessageContext): void {
    if (payload.length === 0) context.reject(0x99);
    else if (payload[0] > 2) context.deadLetter(`version ${payload[0]}`);
    else if (context.getRun() === 1) context.retryLater(100);
  }
}
