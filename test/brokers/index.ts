export { type Certificates, type KeyPair, makeCertificates } from './certificates.js';
export { ManagedProcess, type ManagedProcessOptions } from './managed-process.js';
export { Mosquitto, type MosquittoOptions, mosquittoVersion } from './mosquitto.js';
export { brokersCache, repositoryRoot, scratchFolder } from './paths.js';
export { freePort, isListening } from './ports.js';
export { Pulsar, type PulsarOptions, type PulsarSecurity } from './pulsar.js';
export { PulsarAdmin, type TopicStats } from './pulsar-admin.js';
export { pulsarArtifacts, pulsarVersion } from './pulsar-artifacts.js';
