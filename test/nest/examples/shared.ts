import { MqttServerStrategy } from '../../../lib/index.js';

/** @param pod the name of a pod of a StatefulSet: `ingest-0`, `ingest-1`, … */
export const createMember = (url: string, pod: string): MqttServerStrategy =>
  new MqttServerStrategy({ url, clientId: pod, sharedGroup: 'ingest', sessionExpiry: 7 * 24 * 3600 });
