#!/usr/bin/env node
// PulsarClientProxy of nestjs-mqtt-pulsar as Nest's handlers use it: emit() and a subscriber, batching like everybody's.
import { PulsarClientProxy } from 'nestjs-mqtt-pulsar';
import { run } from '../lib/contestant.mjs';

run('ours-proxy', {
  connect: async (o) => {
    const proxy = new PulsarClientProxy({
      url: o.url,
      producer: {
        maxPendingMessages: 100_000,
        batching: o.batch ? { maxMessages: 1000, maxDelay: 10 } : false,
      },
    });
    return {
      createProducer: async () => {
        await proxy.connect();
        return {
          send: (payload) =>
            new Promise((resolve, reject) => {
              proxy.emit(o.topic, payload).subscribe({ next: resolve, error: reject });
            }),
          close: () => undefined,
        };
      },
      close: () => proxy.close(),
    };
  },
});
