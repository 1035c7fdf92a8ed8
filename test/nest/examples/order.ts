import { MqttServerStrategy } from '../../../lib/index.js';

export const createStrategy = (url: string): MqttServerStrategy =>
  new MqttServerStrategy({
    url,
    clientId: 'ingest-1',
    // `devices/7/on` and `devices/7/off` one after the other, other devices beside them. No handler is known yet, so
    // `getParams()` has nothing here.
    order: (context) => context.getTopic().split('/')[1],
  });
