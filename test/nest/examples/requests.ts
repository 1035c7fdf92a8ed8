import { Controller } from '@nestjs/common';
import { Payload, RpcException } from '@nestjs/microservices';
import { MqttRequest } from '../../../lib/index.js';

@Controller()
export class ConfigController {
  // Goes to the Response Topic of the request, with its Correlation Data.
  @MqttRequest('devices/+/config', { payload: 'json' })
  config(@Payload() { version }: { version: number }): { interval: number } {
    if (version > 2) throw new RpcException({ status: 'error', message: `no version ${version}` });
    return { interval: 60 };
  }
}
