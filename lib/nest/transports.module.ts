import {
  ConfigurableModuleBuilder,
  type DynamicModule,
  type FactoryProvider,
  Inject,
  Injectable,
  Module,
  type OnModuleDestroy,
} from '@nestjs/common';
import { OptionsError } from '../errors.js';
import {
  anyObject,
  boolean,
  checkOptions,
  isFunction,
  isPlainObject,
  type OptionSchema,
  satisfies,
} from '../option-checks.js';
import { MqttClientProxy } from './mqtt-client.proxy.js';
import { type MqttServerOptions } from './mqtt-server-options.js';
import { MqttServerStrategy } from './mqtt-server.strategy.js';
import { type MqttClientProxyOptions, type PulsarClientProxyOptions } from './proxy-options.js';
import { PulsarClientProxy } from './pulsar-client.proxy.js';

/** The proxies of a {@link MqttPulsarModule}. */
export interface MqttPulsarProxies {
  readonly pulsar: PulsarClientProxy;
  readonly mqttClient: MqttClientProxy;
}

/** What {@link MqttPulsarModule} makes; what is left out cannot be used. */
export interface MqttPulsarModuleOptions {
  /**
   * For {@link MqttServerStrategy}: `app.connectMicroservice({ strategy: app.get(MqttServerStrategy) })`. A function gets the
   * proxies of this module, for `deadLetter.client`.
   */
  readonly mqtt?: MqttServerOptions | ((proxies: MqttPulsarProxies) => MqttServerOptions);
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

const NAME = 'MqttPulsarModule';
const PARTS: OptionSchema<MqttPulsarModuleOptions> = {
  mqtt: satisfies('an object or a function', (value) => isPlainObject(value) || isFunction(value)),
  pulsar: anyObject,
  mqttClient: anyObject,
};

/** The options, checked: those of `forRootAsync()` are known here at the earliest. The parts check their own. */
const CHECKED = Symbol('checked options');
const checked: FactoryProvider<MqttPulsarModuleOptions> = {
  provide: CHECKED,
  inject: [MODULE_OPTIONS_TOKEN],
  useFactory: (options: unknown) => {
    checkOptions<MqttPulsarModuleOptions>(NAME, options, PARTS);
    return options;
  },
};

function provide<T>(
  token: abstract new (...args: never[]) => T,
  key: keyof MqttPulsarModuleOptions,
  make: (options: MqttPulsarModuleOptions) => T | undefined,
): FactoryProvider<T> {
  return {
    provide: token,
    inject: [CHECKED],
    useFactory: (options: MqttPulsarModuleOptions) => make(options) ?? absent<T>(token.name, key),
  };
}

const providers = [
  {
    provide: MqttServerStrategy,
    inject: [CHECKED, PulsarClientProxy, MqttClientProxy],
    useFactory: ({ mqtt }: MqttPulsarModuleOptions, pulsar: PulsarClientProxy, mqttClient: MqttClientProxy) =>
      mqtt === undefined
        ? absent<MqttServerStrategy>('MqttServerStrategy', 'mqtt')
        : new MqttServerStrategy(typeof mqtt === 'function' ? mqtt({ pulsar, mqttClient }) : mqtt),
  },
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
 * The proxies are closed at the end of the application's shutdown, after the strategy; see also {@link MqttEarlyShutdown}.
 */
@Module({ providers: [checked, ...providers], exports: providers })
export class MqttPulsarModule extends ConfigurableModuleClass {
  /** @throws OptionsError for an unknown part; the parts check their options when the application is made */
  static override forRoot(options: MqttPulsarModuleOptions & { readonly isGlobal?: boolean }): DynamicModule {
    checkOptions<typeof options>(NAME, options, { ...PARTS, isGlobal: boolean });
    return super.forRoot(options);
  }
}

/**
 * In `providers` of the root module of a hybrid application: closes the strategy of {@link MqttPulsarModule} as the first
 * step of the shutdown, bounded by its `shutdownTimeout`.
 *
 * Without it Nest destroys the modules first (`onModuleDestroy`, database pools and so on) and closes the servers after
 * that, so handlers may run without what they need; their messages are not acknowledged then and come again. Nest destroys
 * the root module before all others and global modules last, which is why this cannot be a part of the module itself.
 */
@Injectable()
export class MqttEarlyShutdown implements OnModuleDestroy {
  constructor(@Inject(MqttServerStrategy) private readonly strategy: MqttServerStrategy) {}

  async onModuleDestroy(): Promise<void> {
    if (!absentParts.has(this.strategy)) await this.strategy.close();
  }
}

const MINIMUM = { mqtt: '{ url, clientId }', pulsar: '{ url }', mqttClient: '{ url }' } as const;

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
function absent<T>(name: string, key: keyof MqttPulsarModuleOptions): T {
  const part = new Proxy(
    {},
    {
      get(_target, property) {
        if (typeof property === 'symbol' || LIFECYCLE.has(property)) return undefined;
        const wanted = `options for ${name}, which is used (pass \`${key}: ${MINIMUM[key]}\` to forRoot())`;
        throw new OptionsError(`${NAME}.${key}`, wanted, 'none');
      },
    },
  );
  absentParts.add(part);
  return part as T;
}
