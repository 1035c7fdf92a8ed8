/** What the broker shows in its statistics. */
export const CLIENT_VERSION = 'nestjs-mqtt-pulsar';
