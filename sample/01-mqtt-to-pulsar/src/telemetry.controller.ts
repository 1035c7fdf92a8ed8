import { Controller, Inject } from '@nestjs/common';
import { Ctx, Payload } from '@nestjs/microservices';
import { type Observable } from 'rxjs';
import {
  type MessageId,
  MqttEvent,
  type MqttMessageContext,
  PulsarClientProxy,
  PulsarRecordBuilder,
} from '../../../lib/index.js';

/** What a device sends. */
export interface Reading {
  readonly id: number;
  readonly celsius: number;
}

/** The main job: what devices publish goes to Pulsar, and is acknowledged to the MQTT broker when Pulsar has stored it. */
@Controller()
export class TelemetryController {
  constructor(@Inject(PulsarClientProxy) private readonly pulsar: PulsarClientProxy) {}

  /**
   * One Pulsar topic for all devices; the record carries the MQTT topic as key, the user properties and the times over.
   * The handler has succeeded when the emit has: returning it, awaiting it or forgetting it makes no difference to that.
   */
  @MqttEvent('devices/+/telemetry', { payload: 'json' })
  store(@Payload() reading: Reading, @Ctx() context: MqttMessageContext): Observable<MessageId> {
    const record = new PulsarRecordBuilder(reading).from(context).setProperty('device', context.getParams()[0] ?? '');
    return this.pulsar.emit('telemetry', record.build());
  }
}
