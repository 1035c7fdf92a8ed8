import { readFileSync } from 'node:fs';
import protobuf from 'protobufjs';
import { COMMAND_CODES } from '../../../../lib/pulsar/codec/command-codes.js';
import * as constants from '../../../../lib/pulsar/codec/constants.js';
import { descriptor } from '../../../../lib/pulsar/codec/proto/pulsar-api-descriptor.js';
import { protoType } from './support.js';

const folder = new URL('../../../../lib/pulsar/codec/proto/', import.meta.url);
const values = (name: string): Record<string, number> =>
  protobuf.Root.fromJSON(descriptor as protobuf.INamespace).lookupEnum(`pulsar.proto.${name}`).values;

describe('the protocol descriptor', () => {
  it('is what `npm run proto` makes of PulsarApi.proto', async () => {
    const { generate } = (await import(new URL('generate.mjs', folder).href)) as { generate: () => string };
    expect(readFileSync(new URL('pulsar-api-descriptor.ts', folder), 'utf8')).toBe(generate());
  });

  it('has the command codes: the type of a command is the number of its field', () => {
    const fields = protoType('BaseCommand').fieldsArray.filter((field) => field.name !== 'type');
    expect(Object.fromEntries(fields.map((field) => [field.name, field.id]))).toEqual(COMMAND_CODES);
    expect(Object.values(values('BaseCommand.Type')).toSorted()).toEqual(Object.values(COMMAND_CODES).toSorted());
  });

  it('has the enums that constants.ts names', () => {
    const { CompressionType, ProducerAccessMode, SchemaType, LookupType, ResourceType, InitialPosition } = constants;
    expect(CompressionType).toEqual(values('CompressionType'));
    expect(ProducerAccessMode).toEqual(values('ProducerAccessMode'));
    expect(SchemaType).toEqual(values('Schema.Type'));
    expect(LookupType).toEqual(values('CommandLookupTopicResponse.LookupType'));
    expect(constants.PartitionMetadataResult).toEqual(values('CommandPartitionedTopicMetadataResponse.LookupType'));
    expect(ResourceType).toEqual(values('CommandTopicMigrated.ResourceType'));
    expect(InitialPosition).toEqual(values('CommandSubscribe.InitialPosition'));
    expect(constants.AckType).toEqual(values('CommandAck.AckType'));
    expect(constants.AckValidationError).toEqual(values('CommandAck.ValidationError'));
    expect(Object.values(constants.SubType)).toEqual(Object.values(values('CommandSubscribe.SubType')));
    expect(Object.values(constants.KeySharedMode)).toEqual(Object.values(values('KeySharedMode')));
  });
});
