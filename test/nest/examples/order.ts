import { MqttServerStrategy } from '../../../lib/index.js';

export const createStrategy = (url: string): MqttServerStrategy =>
  new MqttServerStrategy({
    url,
    clientId: 'ingest-1',
    // For handlers of `devices/+/…`: `devices/7/on` and `devices/7/off` one after the other, other devices beside them.
    // Where several handlers match, the context goes by the filter of the first.
    order: (context) => context.getParams()[0],
  });
