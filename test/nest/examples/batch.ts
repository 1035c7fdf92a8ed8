import { Controller, Inject } from '@nestjs/common';
import { Ctx, Payload } from '@nestjs/microservices';
import { MqttBatchContext, MqttEvent } from '../../../lib/index.js';

interface Reading {
  celsius?: number;
}

@Controller()
export class ReadingsController {
  constructor(@Inject('TABLE') private readonly table: { insert(rows: object[]): Promise<void> }) {}

  // Called with 100 messages, or with what has come 50 ms after the first.
  @MqttEvent('devices/+/reading', { payload: 'json', batch: { size: 100, delay: 50 } })
  async store(@Payload() readings: Reading[], @Ctx() batch: MqttBatchContext): Promise<void> {
    const rows: object[] = [];
    for (const [index, { celsius }] of readings.entries()) {
      // This message alone failed: the failure policy decides about it.
      if (celsius === undefined) batch.fail(index, new Error('no temperature'));
      else rows.push({ device: batch.getContexts()[index].getParams()[0], celsius });
    }
    await this.table.insert(rows);
  }
}
