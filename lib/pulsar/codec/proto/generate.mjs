// Writes pulsar-api-descriptor.ts from PulsarApi.proto (`npm run proto`). A unit test compares the two.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import protobuf from 'protobufjs';

/** The text of pulsar-api-descriptor.ts for the .proto file beside this one. */
export function generate() {
  const source = readFileSync(new URL('PulsarApi.proto', import.meta.url), 'utf8');
  const json = protobuf.parse(source, new protobuf.Root(), { keepCase: false }).root.toJSON();
  openEnums(json);
  const text = JSON.stringify(json).replaceAll('\\', '\\\\').replaceAll("'", "\\'");
  return [
    '/** Generated from PulsarApi.proto by `npm run proto`; do not edit. Field names in camelCase, enums open. */',
    'export const descriptor: { nested: Record<string, unknown> } = JSON.parse(',
    `  '${text}',`,
    ') as { nested: Record<string, unknown> };',
    '',
  ].join('\n');
}

/** proto2 enums are closed: an error code of a newer broker would make the whole command unreadable. */
function openEnums(node) {
  for (const child of Object.values(node.nested ?? {})) {
    if (child.values !== undefined) child.options = { ...child.options, features: { enum_type: 'OPEN' } };
    openEnums(child);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(new URL('pulsar-api-descriptor.ts', import.meta.url), generate());
}
