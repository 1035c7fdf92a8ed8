/** What Pulsar's registry holds of a protobuf message: descriptors of the files it needs, as JSON around base64. */
import descriptor from 'protobufjs/ext/descriptor.js';
import protobuf from 'protobufjs/light.js';
import { TransportError } from '../../errors.js';

/** @param json a protobufjs root @param fullName of the message in it, such as `.my.package.Message` */
export function describeMessage(json: object, fullName: string): string {
  // Built anew: the caller's copy of protobufjs need not have the descriptor extension.
  const root = protobuf.Root.fromJSON(json);
  root.resolveAll();
  const message = root.lookupType(fullName);
  const { edition = 'proto3' } = message.toJSON() as { edition?: string };
  const files = new Map<string, File>();
  for (const file of root.toDescriptor(edition).file ?? []) files.set(file.package ?? '', file);
  const ordered: File[] = [];
  collect(packageOf(message), usedPackages(message), files, ordered, []);
  for (const file of ordered) for (const type of file.messageType ?? []) nameMapEntries(type);
  const set = descriptor.FileDescriptorSet.encode({ file: ordered }).finish();
  return JSON.stringify({
    fileDescriptorSet: Buffer.from(set).toString('base64'),
    rootMessageTypeName: message.fullName.slice(1),
    rootFileDescriptorName: ordered.at(-1)?.name,
  });
}

type File = descriptor.IFileDescriptorProto;
type Message = descriptor.IDescriptorProto;

/** Every package with the packages that its messages use, as far as `message` reaches. */
function usedPackages(message: protobuf.Type): Map<string, Set<string>> {
  const used = new Map<string, Set<string>>();
  const seen = new Set<protobuf.ReflectionObject>();
  const visit = (object: protobuf.ReflectionObject): void => {
    if (seen.has(object)) return;
    seen.add(object);
    const from = packageOf(object);
    if (!used.has(from)) used.set(from, new Set());
    // A file goes as a whole: so do all its messages.
    for (const sibling of packageObject(object).nestedArray) visit(sibling);
    if (!(object instanceof protobuf.Type)) return;
    object.nestedArray.forEach(visit);
    for (const { resolvedType } of object.fieldsArray) {
      if (resolvedType === null) continue;
      if (packageOf(resolvedType) !== from) used.get(from)?.add(packageOf(resolvedType));
      visit(resolvedType);
    }
  };
  visit(message);
  return used;
}

/** Appends the files of a package: after those it depends on. */
function collect(
  name: string,
  used: Map<string, Set<string>>,
  files: Map<string, File>,
  ordered: File[],
  path: readonly string[],
): void {
  const file = files.get(name);
  if (path.includes(name) || file === undefined) {
    throw new TransportError('ERR_SCHEMA', `Protobuf packages use each other: ${[...path, name].join(' -> ')}`);
  }
  if (ordered.includes(file)) return;
  const needed = [...(used.get(name) ?? [])];
  for (const other of needed) collect(other, used, files, ordered, [...path, name]);
  file.dependency = needed.map((other) => files.get(other)?.name ?? '');
  ordered.push(file);
}

function packageObject(object: protobuf.ReflectionObject): protobuf.NamespaceBase {
  let parent = object.parent;
  while (parent instanceof protobuf.Type) parent = parent.parent;
  if (parent === null) throw new TransportError('ERR_SCHEMA', `The type '${object.name}' stands in no root`);
  return parent;
}

const packageOf = (object: protobuf.ReflectionObject): string => packageObject(object).fullName.slice(1);

/** protoc names the entry of a map `FieldNameEntry`, and some readers insist on it; protobufjs does not. */
function nameMapEntries(message: Message): void {
  for (const nested of message.nestedType ?? []) {
    nameMapEntries(nested);
    if (nested.options?.mapEntry !== true) continue;
    for (const field of message.field ?? []) {
      if (field.typeName !== nested.name || field.name == null) continue;
      const name = `${field.name.replace(/(?:^|_)([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())}Entry`;
      field.typeName = name;
      nested.name = name;
      break;
    }
  }
}
