/** One line of a sequence file: what a scripted server sends and expects, and how it must end. */
export interface Sequence {
  /** Packet type the line is about, as the file groups them. */
  readonly file: string;
  readonly group: string;
  readonly name: string;
  /** 3 (MQTT 3.1), 4 (3.1.1) or 5. */
  readonly version: number;
  readonly cleanStart: boolean;
  /** What the client does once it is connected. */
  readonly command: null | 'publish-1' | 'publish-2' | 'unsubscribe';
  /** `expect`: `CONNECT`, or the next packet of the client in hexadecimal. `send`: bytes of the server. */
  readonly steps: readonly ({ readonly expect: string } | { readonly send: string })[];
  /** The client closes the connection, or keeps it and acknowledges one more message. */
  readonly then: 'closed' | 'alive';
}

export const nameOf = ({ group, name }: Sequence): string => `${group.replace(/\s+/g, ' ')}: ${name}`;

/** @throws Error that names the line and what is wrong with it */
export function parseSequences(text: string): Sequence[] {
  return text.split('\n').flatMap((line, index) => (line.trim() === '' ? [] : [parseLine(line, index + 1)]));
}

const COMMANDS: readonly unknown[] = [null, 'publish-1', 'publish-2', 'unsubscribe'];
const HEX = /^([0-9a-f]{2})*$/i;

function parseLine(line: string, number: number): Sequence {
  const fail = (what: string): never => {
    throw new Error(`line ${number}: ${what}`);
  };
  let value: Sequence;
  try {
    value = JSON.parse(line) as Sequence;
  } catch (error) {
    return fail(`not JSON: ${(error as Error).message}`);
  }
  if (typeof value.group !== 'string' || typeof value.name !== 'string') fail('group and name must be strings');
  if (typeof value.file !== 'string') fail('file must be a string');
  if (![3, 4, 5].includes(value.version)) fail(`version must be 3, 4 or 5, not ${JSON.stringify(value.version)}`);
  if (typeof value.cleanStart !== 'boolean') fail('cleanStart must be true or false');
  if (!COMMANDS.includes(value.command)) fail(`unknown command ${JSON.stringify(value.command)}`);
  if (value.then !== 'closed' && value.then !== 'alive') fail(`then must be closed or alive`);
  if (!Array.isArray(value.steps) || value.steps.length === 0) fail('steps must be a list that is not empty');
  for (const step of value.steps) {
    const bytes = 'send' in step ? step.send : step.expect;
    if (typeof bytes !== 'string' || (bytes !== 'CONNECT' && !HEX.test(bytes)) || bytes === '')
      fail(`a step must be {"send": hex} or {"expect": hex or CONNECT}, not ${JSON.stringify(step)}`);
    if ('send' in step && step.send === 'CONNECT') fail('a server does not send CONNECT');
  }
  return value;
}
