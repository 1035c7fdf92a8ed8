import { Controller, Get, ServiceUnavailableException } from '@nestjs/common';
import { type HealthReport, MqttPulsarHealth, MqttServerStrategy } from '../../../lib/index.js';

/** In a hybrid application, for Kubernetes, which asks with GET. */
@Controller()
export class OperationsController {
  constructor(
    private readonly strategy: MqttServerStrategy,
    private readonly health: MqttPulsarHealth,
  ) {}

  /** The process answers: nothing that a restart would not cure is asked here. */
  @Get('live')
  live(): string {
    return 'ok';
  }

  @Get('ready')
  ready(): HealthReport {
    const report = this.health.check();
    if (report.status === 'down') throw new ServiceUnavailableException(report);
    return report;
  }

  /** Stops the intake and answers when nothing runs any more. */
  @Get('drain')
  async drain(): Promise<string> {
    await this.strategy.drain();
    return 'drained';
  }

  /** Ends a drain, a pause, and a halt by a failure policy. */
  @Get('resume')
  resume(): string {
    this.strategy.resume();
    return this.strategy.state;
  }
}
