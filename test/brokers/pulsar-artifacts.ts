import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { mavenJars } from './maven-jars.js';
import { brokerFile, brokersCache } from './paths.js';

/** The version in `pom.xml`. */
export const pulsarVersion = ((): string => {
  const version = /<pulsar\.version>([^<]+)</.exec(readFileSync(brokerFile('pom.xml'), 'utf8'))?.[1];
  if (version === undefined) throw new Error('pom.xml names no pulsar.version');
  return version;
})();

export interface PulsarArtifacts {
  /** Sorted and explicit: a class-data archive is valid for one class path only. */
  readonly classPath: string;
  /** Where the class-data archive is, once the first start has written it. */
  readonly archive: string;
}

/** The broker's jars: from the cache, or downloaded into it (about 235 MB, once). */
export async function pulsarArtifacts(): Promise<PulsarArtifacts> {
  const folder = join(brokersCache(), `pulsar-${pulsarVersion}`);
  const jars = await mavenJars(folder, brokerFile('pom.xml'));
  const javaVersion = spawnSync('java', ['-version'], { encoding: 'utf8' }).stderr ?? '';
  const major = /version "(\d+)/.exec(javaVersion)?.[1];
  if (major === undefined || Number(major) < 17) throw new Error('Java 17 or newer is not installed');
  return {
    classPath: jars.join(':'),
    archive: join(folder, `standalone-java${major}.jsa`),
  };
}
