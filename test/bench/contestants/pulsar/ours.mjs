#!/usr/bin/env node
// The Pulsar producer of nestjs-mqtt-pulsar, batching of at most 1,000 messages / 10 ms like everybody's.
import { PulsarClient } from 'nestjs-mqtt-pulsar';
import { run } from '../lib/contestant.mjs';

run('ours', {
  connect: async (o) => {
    const client = new PulsarClient({ url: o.url });
    return {
      createProducer: async () => {
        const producer = await client.createProducer({
          topic: o.topic,
          maxPendingMessages: 100_000,
          batching: o.batch ? { maxMessages: 1000, maxDelay: 10 } : false,
        });
        return {
          send: (payload) => producer.send({ payload }),
          flush: () => producer.flush(),
          close: () => producer.close(),
        };
      },
      close: () => client.close(),
    };
  },
});
