/**
 * `npm run fault-test -- pulsar-producer | end-to-end [--seconds 60] [--rate N] [--seed N] [--broker NAME]
 * [--sabotage NAME]`: a minute of planted faults on real brokers. The last line is JSON with the true figures; exit 1 on any
 * violation, and exit 3 if a sabotage went unnoticed or was taken for something else.
 */
import { checkBroker } from '../crash/mqtt-brokers.js';
import { checkSabotage } from '../crash/sabotage-names.js';
import { commandLine } from '../wire/index.js';
import { endToEndFault } from './end-to-end.js';
import { pulsarProducerFault } from './pulsar-producer.js';

const USAGE =
  'usage: npm run fault-test -- pulsar-producer | end-to-end [--seconds 60] [--rate N] [--seed N] [--broker NAME] ' +
  '[--sabotage NAME]';
const { values, positionals } = commandLine(USAGE, {
  allowPositionals: true,
  options: {
    seconds: { type: 'string', default: '60' },
    rate: { type: 'string' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    broker: { type: 'string', default: 'mosquitto' },
    sabotage: { type: 'string' },
  },
});
const [scenario] = positionals;
const common = {
  seconds: Number(values.seconds),
  seed: Number(values.seed),
  sabotage: checkSabotage(values.sabotage),
};
const broker = checkBroker(values.broker);
console.log(
  `fault test ${scenario}, ${common.seconds} s, seed ${common.seed}${common.sabotage ? `, ${common.sabotage}` : ''}`,
);
switch (scenario) {
  case 'pulsar-producer':
    process.exit((await pulsarProducerFault({ ...common, rate: Number(values.rate ?? 2000) })) ? 0 : 1);
    break;
  case 'end-to-end':
    process.exit(await endToEndFault({ ...common, broker, rate: Number(values.rate ?? 500) }));
    break;
  default:
    console.error(`expected pulsar-producer or end-to-end, received ${scenario ?? 'nothing'}`);
    process.exit(2);
}
