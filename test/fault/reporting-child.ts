import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { repositoryRoot } from '../brokers/index.js';

/** A program of ours in a process of its own, which answers requests with reports; the first one is `ready`. */
export interface ReportingChild<Request, Report extends { readonly kind: string }> {
  tell(request: Request): void;
  ask<K extends Report['kind']>(request: Request, kind: K): Promise<Extract<Report, { kind: K }>>;
  kill(): Promise<void>;
}

/**
 * @param name what it is called in errors
 * @param script the compiled program, below `out/test`
 * @param env added to this process's environment
 */
export async function startReportingChild<Request extends object, Report extends { readonly kind: string }>(
  name: string,
  script: string,
  env: Readonly<Record<string, string>>,
): Promise<ReportingChild<Request, Report>> {
  const child = fork(join(repositoryRoot, 'out', 'test', script), [], {
    execArgv: ['--enable-source-maps'],
    env: { ...process.env, ...env },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  process.on('exit', () => child.kill('SIGKILL'));
  const ended = once(child, 'exit');
  const report = <K extends Report['kind']>(kind: K): Promise<Extract<Report, { kind: K }>> =>
    new Promise((resolve, reject) => {
      child.on('message', (message: Report) => {
        if (message.kind === kind) resolve(message as Extract<Report, { kind: K }>);
      });
      void ended.then(([code, signal]) => reject(new Error(`the ${name} ended with ${code ?? signal}`)));
    });
  await report('ready');
  return {
    tell: (request) => void child.send(request),
    ask: (request, kind) => {
      const answer = report(kind);
      child.send(request);
      return answer;
    },
    kill: async () => {
      child.kill('SIGKILL');
      await ended;
    },
  };
}
