import { ConfigurableModuleBuilder, type FactoryProvider, Inject, Module, type OnModuleDestroy } from '@nestjs/common';
import { OptionsError } from '../errors.js';
import { MqttClientProxy } from './mqtt-client.proxy.js';
import { MqttServerStrategy } from './mqtt-server.strategy.js';
import { type MqttClientProxyOptions, type PulsarClientProxyOptions } from './proxy-options.js';
import { PulsarClientProxy } from './pulsar-client.proxy.js';

/** What {@link MqttPulsarModule} makes; what is left out cannot be used. */
export interface MqttPulsarModuleOptions {
  /** For {@link MqttServerStrategy}: `app.connectMicroservice({ strategy: app.get(MqttServerStrategy) })`. */
  readonly mqtt?: ConstructorParameters<typeof MqttServerStrategy>[0];
  /** For {@link PulsarClientProxy}. */
  readonly pulsar?: PulsarClientProxyOptions;
  /** For {@link MqttClientProxy}, on a connection of its own. */
  readonly mqttClient?: MqttClientProxyOptions;
}

const { ConfigurableModuleClass, MODULE_OPTIONS_TOKEN } = new ConfigurableModuleBuilder<MqttPulsarModuleOptions>({
  moduleName: 'MqttPulsar',
})
  .setClassMethodName('forRoot')
  .setExtras({ isGlobal: false }, (definition, { isGlobal }) => ({ ...definition, global: isGlobal }))
  .build();

function provide<T>(
  token: abstract new (...args: never[]) => T,
  key: keyof MqttPulsarModuleOptions,
  make: (options: MqttPulsarModuleOptions) => T | undefined,
): FactoryProvider<T> {
  return {
    provide: token,
    inject: [MODULE_OPTIONS_TOKEN],
    useFactory: (options: MqttPulsarModuleOptions) => make(options) ?? absent<T>(token.name, key),
  };
}

const providers = [
  provide(MqttServerStrategy, 'mqtt', ({ mqtt }) => (mqtt === undefined ? undefined : new MqttServerStrategy(mqtt))),
  provide(PulsarClientProxy, 'pulsar', ({ pulsar }) =>
    pulsar === undefined ? undefined : new PulsarClientProxy(pulsar),
  ),
  provide(MqttClientProxy, 'mqttClient', ({ mqttClient }) =>
    mqttClient === undefined ? undefined : new MqttClientProxy(mqttClient),
  ),
];

/**
 * Strategy and proxies as providers, from one set of options:
 *
 * ```ts
 * MqttPulsarModule.forRootAsync({
 *   isGlobal: true,
 *   inject: [ConfigService],
 *   useFactory: (config: ConfigService) => ({
 *     mqtt: { url: config.get('MQTT_URL'), clientId: config.get('HOSTNAME') },
 *     pulsar: { url: config.get('PULSAR_URL') },
 *   }),
 * })
 * ```
 *
 * Inject `PulsarClientProxy` or `MqttClientProxy` by class; give `app.get(MqttServerStrategy)` to `connectMicroservice()`.
 * The strategy is closed when the module is destroyed, the proxies at the end of the application's shutdown.
 */
@Module({ providers, exports: providers })
export class MqttPulsarModule extends ConfigurableModuleClass implements OnModuleDestroy {
  constructor(@Inject(MqttServerStrategy) private readonly strategy: MqttServerStrategy) {
    super();
  }

  /**
   * On a signal Nest destroys the modules before it closes the servers: what handlers need would be gone while messages
   * still come. So the strategy is closed here already, bounded by its `shutdownTimeout`.
   */
  async onModuleDestroy(): Promise<void> {
    if (!absentParts.has(this.strategy)) await this.strategy.close();
  }
}

const absentParts = new WeakSet<object>();

/** Nest looks these up on every provider. */
const LIFECYCLE = new Set([
  'then',
  'constructor',
  'onModuleInit',
  'onApplicationBootstrap',
  'onModuleDestroy',
  'beforeApplicationShutdown',
  'onApplicationShutdown',
]);

/** Asynchronous options are known after the providers are: so a part without options fails where it is used, and says why. */
function absent<T>(name: string, key: string): T {
  const part = new Proxy(
    {},
    {
      get(_target, property) {
        if (typeof property === 'symbol' || LIFECYCLE.has(property)) return undefined;
        throw new OptionsError(`MqttPulsarModule.${key}`, `options for ${name}, which is used`, 'none');
      },
    },
  );
  absentParts.add(part);
  return part as T;
}
