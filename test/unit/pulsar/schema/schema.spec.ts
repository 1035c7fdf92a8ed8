import avsc from 'avsc';
import protobuf from 'protobufjs';
import descriptor from 'protobufjs/ext/descriptor.js';
import {
  avroSchema,
  bytesSchema,
  jsonSchema,
  protobufSchema,
  stringSchema,
} from '../../../../lib/pulsar/schema/index.js';

const definition = {
  type: 'record',
  name: 'Reading',
  fields: [
    { name: 'device', type: 'string' },
    { name: 'value', type: 'double' },
    { name: 'note', type: ['null', 'string'], default: null },
  ],
};
const reading = { device: 'd1', value: 21.5, note: null };
const refused = expect.objectContaining({ code: 'ERR_SERIALIZATION' });

describe('bytesSchema', () => {
  it('takes bytes as they are and registers nothing', () => {
    const bytes = new Uint8Array([1, 2, 3]);
    expect(bytesSchema.info).toBeUndefined();
    expect(bytesSchema.encode(bytes)).toEqual(Buffer.from([1, 2, 3]));
    expect(bytesSchema.decode(bytes)).toEqual(Buffer.from([1, 2, 3]));
    expect(() => bytesSchema.encode('text' as never)).toThrow(refused as never);
  });
});

describe('stringSchema', () => {
  const schema = stringSchema({ properties: { a: 'b' } });

  it('is the registry entry of other clients', () => {
    expect(schema.info).toEqual({
      name: 'String',
      type: 1,
      schemaData: Buffer.alloc(0),
      properties: [{ key: 'a', value: 'b' }],
    });
  });

  it('encodes UTF-8, and keeps a byte order mark', () => {
    for (const text of ['', 'temperature', '21 °C', '\ufeffx', '𝄞']) {
      expect(schema.encode(text)).toEqual(Buffer.from(text));
      expect(schema.decode(schema.encode(text))).toBe(text);
    }
  });

  it('refuses what is no text', () => {
    expect(() => schema.encode(5 as never)).toThrow(refused as never);
    expect(() => schema.decode(Buffer.from([0xff]))).toThrow(refused as never);
  });
});

describe('jsonSchema', () => {
  const schema = jsonSchema<typeof reading>({ definition, name: 'reading' });

  it('registers the definition', () => {
    expect(schema.info).toMatchObject({ name: 'reading', type: 2, properties: [] });
    expect(JSON.parse(Buffer.from(schema.info!.schemaData).toString())).toEqual(definition);
    expect(jsonSchema({ definition: JSON.stringify(definition) }).info?.schemaData).toEqual(schema.info?.schemaData);
  });

  it('encodes JSON', () => {
    expect(schema.encode(reading).toString()).toBe('{"device":"d1","value":21.5,"note":null}');
    expect(schema.decode(schema.encode(reading))).toEqual(reading);
  });

  it('refuses what is no JSON', () => {
    const circle: Record<string, unknown> = {};
    circle.self = circle;
    expect(() => schema.encode(circle as never)).toThrow(refused as never);
    expect(() => schema.encode(undefined as never)).toThrow(refused as never);
    expect(() => schema.encode(Buffer.from('{}') as never)).toThrow(/goes as payload/);
    expect(() => schema.decode(Buffer.from('{'))).toThrow(refused as never);
  });

  it.each(['{', '5', 'null'])('refuses the definition %s', (text) => {
    const wrong = expect.objectContaining({ code: 'ERR_SCHEMA' });
    expect(() => jsonSchema({ definition: text })).toThrow(wrong as never);
  });
});

describe('avroSchema', () => {
  const schema = avroSchema<typeof reading>({ definition });

  it('encodes what avsc reads back', () => {
    expect(schema.info).toMatchObject({ name: '', type: 4 });
    expect(avsc.Type.forSchema(definition as avsc.Schema).fromBuffer(schema.encode(reading))).toMatchObject(reading);
    expect(schema.decode(schema.encode(reading))).toMatchObject(reading);
  });

  it('refuses a value of another form, and other bytes', () => {
    expect(() => schema.encode({ device: 5 } as never)).toThrow(refused as never);
    expect(() => schema.decode(Buffer.alloc(2))).toThrow(refused as never);
  });

  it('refuses a definition that is not Avro', () => {
    const wrong = expect.objectContaining({ code: 'ERR_SCHEMA', message: expect.stringContaining('unknown') });
    expect(() => avroSchema({ definition: { type: 'unknown' } })).toThrow(wrong as never);
  });

  it('takes options and a library of the caller', () => {
    const forSchema = (given: unknown, options: unknown): object => ({
      toBuffer: () => Buffer.from(JSON.stringify([given, options])),
    });
    const own = avroSchema({ definition: '"string"', avsc: { wrapUnions: true }, library: { Type: { forSchema } } });
    expect(own.encode('x').toString()).toBe('["string",{"wrapUnions":true}]');
  });
});

describe('protobufSchema', () => {
  const root = protobuf.parse(`
    syntax = "proto3";
    package plant.line;
    message Reading {
      string device_id = 1;
      Kind kind = 2;
      Position position = 3;
      map<string, double> other_values = 4;
      optional int64 at = 5;
      message Position { int32 x = 1; }
    }
    enum Kind { UNKNOWN = 0; TEMPERATURE = 1; }
  `).root;
  const type = root.lookupType('plant.line.Reading');
  const schema = protobufSchema({ type });
  const value = { deviceId: 'd1', kind: 1, position: { x: 3 }, otherValues: { a: 1.5 } };

  interface Registered {
    readonly fileDescriptorSet: string;
    readonly rootMessageTypeName: string;
    readonly rootFileDescriptorName: string;
  }
  const registered = (info = schema.info): Registered =>
    JSON.parse(Buffer.from(info!.schemaData).toString()) as Registered;
  const filesOf = (data: Registered): descriptor.IFileDescriptorProto[] =>
    descriptor.FileDescriptorSet.decode(Buffer.from(data.fileDescriptorSet, 'base64')).file ?? [];

  it('encodes what protobufjs reads back', () => {
    expect(schema.info?.type).toBe(20);
    expect(type.toObject(type.decode(schema.encode(value)))).toEqual(value);
    expect(schema.decode(schema.encode(value))).toMatchObject(value);
  });

  it('registers descriptors from which the message can be read again', () => {
    const data = registered();
    expect(data.rootMessageTypeName).toBe('plant.line.Reading');
    const files = filesOf(data);
    expect(files.map((file) => file.name)).toEqual([data.rootFileDescriptorName]);
    const again = protobuf.Root.fromDescriptor(descriptor.FileDescriptorSet.encode({ file: files }).finish());
    const copy = again.resolveAll().lookupType(data.rootMessageTypeName);
    expect(copy.toObject(copy.decode(schema.encode(value)), { longs: Number })).toMatchObject(value);
  });

  it('keeps names as in the .proto file, and those of map entries as protoc gives them', () => {
    const message = filesOf(registered())[0].messageType![0];
    expect(message.field?.map((field) => field.name)).toEqual(['device_id', 'kind', 'position', 'other_values', 'at']);
    expect(message.nestedType?.map((nested) => nested.name).toSorted()).toEqual(['OtherValuesEntry', 'Position']);
    expect(message.field?.[3].typeName).toBe('OtherValuesEntry');
  });

  it('brings the packages that a message uses, those first that others need', () => {
    const several = new protobuf.Root();
    protobuf.parse('syntax = "proto3"; package base; message Id { string id = 1; }', several);
    protobuf.parse('syntax = "proto3"; package unused; message None {}', several);
    protobuf.parse('syntax = "proto3"; package middle; message Part { base.Id id = 1; }', several);
    protobuf.parse('syntax = "proto3"; package top; message Whole { middle.Part part = 1; }', several);
    const { info } = protobufSchema({ type: several.resolveAll().lookupType('top.Whole') });
    const files = filesOf(registered(info));
    expect(files.map((file) => [file.name, file.dependency])).toEqual([
      ['base.proto', []],
      ['middle.proto', ['base.proto']],
      ['top.proto', ['middle.proto']],
    ]);
    expect(registered(info).rootFileDescriptorName).toBe('top.proto');
  });

  it('refuses packages that use each other', () => {
    const circle = new protobuf.Root();
    protobuf.parse('syntax = "proto3"; package a; message A { b.B b = 1; }', circle);
    protobuf.parse('syntax = "proto3"; package b; message B { a.A a = 1; }', circle);
    const wrong = expect.objectContaining({ code: 'ERR_SCHEMA', message: expect.stringContaining('a -> b -> a') });
    expect(() => protobufSchema({ type: circle.resolveAll().lookupType('a.A') })).toThrow(wrong as never);
  });

  it('registers an Avro definition where the topic has that kind of schema', () => {
    const { info } = protobufSchema({ type, definition });
    expect(info?.type).toBe(3);
    expect(JSON.parse(Buffer.from(info!.schemaData).toString())).toEqual(definition);
  });

  it('refuses a value of another form, and other bytes', () => {
    expect(() => schema.encode({ deviceId: 5 })).toThrow(/plant\.line\.Reading: deviceId: string expected/);
    expect(() => schema.decode(Buffer.from([0x0a, 0x09]))).toThrow(refused as never);
  });
});
