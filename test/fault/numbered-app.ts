/**
 * A producer with a stable name as its own process, to be killed: sends numbered messages from `first` on and reports every
 * outcome. Configuration in `NUMBERED_CONFIG`.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { PulsarClient } from '../../lib/pulsar/index.js';
import { type NumberedConfig, type NumberedReport } from './numbered-config.js';

const config = JSON.parse(process.env['NUMBERED_CONFIG'] ?? '{}') as NumberedConfig;
const report = (message: NumberedReport): void => void process.send?.(message);

const client = new PulsarClient({ url: config.url, createTimeout: 60_000 });
const producer = await client.createProducer({ topic: config.topic, name: config.name });
const began = performance.now();
for (let sent = 0; sent < config.count; await sleep(2)) {
  const due = Math.min(config.count, Math.ceil(((performance.now() - began) / 1000) * config.rate));
  for (; sent < due; sent++) send(config.first + sent);
}
await producer.flush().catch(() => undefined);
await client.close();
report({ kind: 'done' });
process.disconnect();

function send(number: number): void {
  producer.submit(
    { payload: Buffer.from(`{"id":${number}}`), ...(config.numberIsId && { sequenceId: number }) },
    (error, result) => {
      if (error === undefined) report({ kind: 'resolved', number, deduplicated: result!.deduplicated });
      else report({ kind: 'rejected', number, code: error.code });
    },
  );
}
