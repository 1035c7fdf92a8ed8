export interface BrokerPorts {
  readonly port: number;
  readonly httpPort: number;
  readonly advertisePort?: number | undefined;
}

/** standalone.conf for tests: one copy of everything, few threads, no optional service, nothing ever deleted. */
export function brokerSettings(ports: BrokerPorts): Record<string, string | number | boolean> {
  const advertised: Record<string, string> =
    ports.advertisePort === undefined
      ? {}
      : { advertisedListeners: `proxy:pulsar://127.0.0.1:${ports.advertisePort}`, internalListenerName: 'proxy' };
  return {
    clusterName: 'standalone',
    zookeeperServers: '',
    configurationStoreServers: '',
    bindAddress: '127.0.0.1',
    advertisedAddress: '127.0.0.1',
    brokerServicePort: ports.port,
    webServicePort: ports.httpPort,
    ...advertised,
    // An unload closes the ledger, and a closed ledger without retention or subscription is deleted: it looks like loss.
    defaultRetentionTimeInMinutes: -1,
    defaultRetentionSizeInMB: -1,
    brokerDeleteInactiveTopicsEnabled: false,
    backlogQuotaCheckIntervalInSeconds: 2,
    allowEphemeralPorts: true,
    managedLedgerDefaultEnsembleSize: 1,
    managedLedgerDefaultWriteQuorum: 1,
    managedLedgerDefaultAckQuorum: 1,
    managedLedgerCacheSizeMB: 16,
    defaultNumberOfNamespaceBundles: 4,
    loadBalancerEnabled: false,
    functionsWorkerEnabled: false,
    webSocketServiceEnabled: false,
    transactionCoordinatorEnabled: false,
    systemTopicEnabled: false,
    topicLevelPoliciesEnabled: false,
    numIOThreads: 2,
    numOrderedExecutorThreads: 2,
    numHttpServerThreads: 8,
    numExecutorThreadPoolSize: 2,
    numCacheExecutorThreadPoolSize: 2,
    bookkeeperNumberOfChannelsPerBookie: 2,
    bookkeeperClientNumWorkerThreads: 2,
    journalMaxSizeMB: 64,
    dbStorage_writeCacheMaxSizeMb: 32,
    dbStorage_readAheadCacheMaxSizeMb: 16,
    dbStorage_rocksDB_blockCacheSize: 16_777_216,
    // A full disk of the machine is not what these tests are about.
    diskUsageThreshold: 0.99,
    diskUsageWarnThreshold: 0.98,
  };
}

/** JVM arguments without the main class: a small heap, one collector thread, quick compilation only. */
export function javaArguments(classPath: string, logConfiguration: string, heapMb: number): string[] {
  const opened = [
    ...['java.lang', 'java.io', 'java.nio', 'java.util.zip', 'sun.net', 'jdk.internal.loader'],
    ...['jdk.internal.platform', 'jdk.internal.misc'],
  ].map((name) => `java.base/${name}`);
  return [
    '-Xms64m',
    `-Xmx${heapMb}m`,
    `-XX:MaxDirectMemorySize=${heapMb}m`,
    '-XX:+UseSerialGC',
    '-XX:TieredStopAtLevel=1',
    '-XX:+ExitOnOutOfMemoryError',
    '-Xlog:cds=off',
    '-Xlog:cds+dynamic=off',
    ...[...opened, 'java.management/sun.management'].flatMap((name) => ['--add-opens', `${name}=ALL-UNNAMED`]),
    '-Dio.netty.tryReflectionSetAccessible=true',
    '-Dio.netty.leakDetection.level=disabled',
    '-Dpulsar.allocator.exit_on_oom=true',
    '-Djava.net.preferIPv4Stack=true',
    `-Dlog4j.configurationFile=${logConfiguration}`,
    `-Dbroker.log.level=${process.env['PULSAR_LOG_LEVEL'] ?? 'warn'}`,
    '-cp',
    classPath,
  ];
}
