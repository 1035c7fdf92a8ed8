// The rooms of lib/DESIGN.md as rules. test/architecture/check.mjs runs them and also asserts how many modules were seen:
// with a TypeScript that dependency-cruiser cannot load it would pass on zero modules.
const CORE = '^lib/(mqtt|pulsar)/(protocol|codec)/.*\\.ts$';
module.exports = {
  forbidden: [
    {
      name: 'no-circular',
      severity: 'error',
      from: {},
      to: { circular: true, viaOnly: { dependencyTypesNot: ['type-only'] } },
    },
    {
      name: 'no-orphans',
      severity: 'error',
      from: { orphan: true, path: '^lib/', pathNot: '^lib/(index|testing/index)\\.ts$' },
      to: {},
    },
    {
      name: 'protocol-stays-in-its-room',
      severity: 'error',
      comment: 'protocol/ knows itself, its codec and the errors',
      from: { path: '^lib/(mqtt|pulsar)/protocol/' },
      to: { path: '^lib/', pathNot: ['^lib/$1/(protocol|codec)/', '^lib/(errors|error-text)\\.ts$'] },
    },
    {
      name: 'codec-stays-in-its-room',
      severity: 'error',
      from: { path: '^lib/(mqtt|pulsar)/codec/' },
      to: { path: '^lib/', pathNot: ['^lib/$1/codec/', '^lib/(errors|error-text)\\.ts$'] },
    },
    {
      name: 'cores-are-sans-io',
      severity: 'error',
      comment: 'no node builtin in a core, but buffer',
      from: { path: CORE },
      to: { dependencyTypes: ['core'], pathNot: '^(node:)?buffer$' },
    },
    {
      name: 'protocol-has-no-packages',
      severity: 'error',
      from: { path: '^lib/(mqtt|pulsar)/protocol/' },
      to: { path: 'node_modules/', dependencyTypesNot: ['core'] },
    },
    {
      name: 'mqtt-packet-has-one-user',
      severity: 'error',
      from: { path: '^lib/', pathNot: ['^lib/mqtt/codec/control\\.ts$', '^lib/testing/'] },
      to: { path: 'node_modules/mqtt-packet/' },
    },
    {
      name: 'protobufjs-has-one-user',
      severity: 'error',
      from: { path: '^lib/', pathNot: ['^lib/pulsar/codec/proto/', '^lib/testing/', '^lib/pulsar/schema/'] },
      to: { path: 'node_modules/protobufjs/' },
    },
    {
      name: 'protocols-never-meet',
      severity: 'error',
      from: { path: '^lib/(mqtt|pulsar)/' },
      to: { path: '^lib/(mqtt|pulsar)/', pathNot: '^lib/$1/' },
    },
    {
      name: 'only-nest-knows-nest',
      severity: 'error',
      from: { path: '^lib/', pathNot: '^lib/(nest/|index\\.ts)' },
      to: { path: ['^lib/nest/', 'node_modules/@nestjs/', 'node_modules/rxjs/'] },
    },
    {
      name: 'nest-uses-the-doors',
      severity: 'error',
      from: { path: '^lib/nest/' },
      to: {
        path: '^lib/(mqtt|pulsar|net)/',
        pathNot: ['^lib/(mqtt|pulsar)/index\\.ts$', '^lib/net/clock\\.ts$', '^lib/net/backoff\\.ts$'],
      },
    },
    {
      name: 'no-deep-nest-imports',
      severity: 'error',
      from: { path: '^lib/' },
      to: { path: 'node_modules/@nestjs/[^/]+/.+', pathNot: 'node_modules/@nestjs/[^/]+/index\\.(d\\.ts|js)$' },
    },
    {
      name: 'net-is-a-leaf',
      severity: 'error',
      from: { path: '^lib/net/' },
      to: { path: '^lib/', pathNot: '^lib/(net/|errors\\.ts)' },
    },
    {
      name: 'sockets-live-in-net',
      severity: 'error',
      from: { path: '^lib/', pathNot: ['^lib/net/', '^lib/testing/'] },
      to: { dependencyTypes: ['core'], path: '^(node:)?(net|tls|dns|timers|http|https)' },
    },
    {
      name: 'websocket-lives-in-net',
      severity: 'error',
      from: { path: '^lib/', pathNot: '^lib/(net|testing)/' },
      to: { path: 'node_modules/ws/' },
    },
    {
      name: 'observability-only-listens',
      severity: 'error',
      from: { path: '^lib/observability/' },
      to: { path: '^lib/', pathNot: '^lib/observability/' },
    },
    {
      name: 'rooms-only-publish',
      severity: 'error',
      from: { path: '^lib/(mqtt|pulsar|net|nest)/' },
      to: { path: '^lib/observability/', pathNot: '^lib/observability/channels\\.ts$' },
    },
    { name: 'cores-publish-nothing', severity: 'error', from: { path: CORE }, to: { path: '^lib/observability/' } },
    {
      name: 'testing-uses-no-codec-of-ours',
      severity: 'error',
      comment: 'a symmetrical bug would pass',
      from: { path: '^lib/testing/' },
      to: {
        path: '^lib/',
        pathNot: [
          '^lib/testing/',
          '^lib/(errors|error-text)\\.ts$',
          '^lib/net/',
          '^lib/pulsar/codec/proto/pulsar-api-descriptor\\.ts$',
        ],
      },
    },
    {
      name: 'nobody-imports-testing',
      severity: 'error',
      from: { path: '^lib/', pathNot: '^lib/testing/' },
      to: { path: '^lib/testing/' },
    },
    { name: 'lib-never-imports-out', severity: 'error', from: { path: '^lib/' }, to: { path: '^(test|sample)/' } },
    {
      name: 'sample-uses-public-api',
      severity: 'error',
      from: { path: '^sample/' },
      to: { path: '^lib/', pathNot: '^lib/(index|testing/index)\\.ts$' },
    },
    {
      name: 'errors-is-a-leaf',
      severity: 'error',
      from: { path: '^lib/(errors|error-text)\\.ts$' },
      to: { path: '.' },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'require', 'node', 'default', 'types'],
      extensions: ['.ts', '.js', '.d.ts'],
    },
  },
};
