import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.ConsumerCryptoFailureAction;
import org.apache.pulsar.client.api.CryptoKeyReader;
import org.apache.pulsar.client.api.EncryptionKeyInfo;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageIdAdv;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.schema.Field;
import org.apache.pulsar.client.api.schema.GenericRecord;
import org.apache.pulsar.client.impl.MessageImpl;
import org.apache.pulsar.common.api.proto.MessageMetadata;

/**
 * Reads topics with Pulsar's Java client, for tests that must not trust our own reader. One JSON command a line on standard
 * input: {topic, count, schema: "bytes" | "string" | "auto", shared?: boolean, privateKeys?: {name: file}}; the answer is
 * `count` lines of messages (all there are for a count of -1) and one `{"end": n}`, or one `{"error": "..."}`. Argument: the
 * service URL.
 */
public class CrossReader {
    private static final Gson GSON = new GsonBuilder().serializeNulls().create();

    public static void main(String[] args) throws Exception {
        try (PulsarClient client = PulsarClient.builder().serviceUrl(args[0]).build()) {
            BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            emit(Map.of("ready", true));
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                try {
                    read(client, GSON.fromJson(line, JsonObject.class));
                } catch (Throwable error) {
                    emit(Map.of("error", String.valueOf(error)));
                }
            }
        }
    }

    private static void read(PulsarClient client, JsonObject command) throws Exception {
        int count = command.get("count").getAsInt();
        Schema<?> schema = switch (command.get("schema").getAsString()) {
            case "string" -> Schema.STRING;
            case "auto" -> Schema.AUTO_CONSUME();
            default -> Schema.BYTES;
        };
        ConsumerBuilder<?> builder = client.newConsumer(schema)
                .topic(command.get("topic").getAsString())
                .subscriptionName("cross-java-" + System.nanoTime())
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                .cryptoFailureAction(ConsumerCryptoFailureAction.FAIL);
        if (command.has("shared")) builder.subscriptionType(SubscriptionType.Shared);
        if (command.has("privateKeys")) builder.cryptoKeyReader(keys(command.getAsJsonObject("privateKeys")));
        try (Consumer<?> consumer = builder.subscribe()) {
            int found = 0;
            for (; found != count; found++) {
                Message<?> message = consumer.receive(count < 0 && found > 0 ? 2 : 20, TimeUnit.SECONDS);
                if (message == null) break;
                emit(describe(message));
            }
            Message<?> more = found == count ? consumer.receive(300, TimeUnit.MILLISECONDS) : null;
            emit(Map.of("end", found, "more", more != null));
        }
    }

    private static Map<String, Object> describe(Message<?> message) {
        Map<String, Object> out = new TreeMap<>();
        byte[] data = message.getData();
        out.put("payload", data == null ? null : base64(data));
        out.put("size", message.size());
        if (message.hasKey()) out.put("key", message.getKey());
        if (message.hasKey() && message.hasBase64EncodedKey()) out.put("keyBytes", base64(message.getKeyBytes()));
        if (message.hasOrderingKey()) out.put("orderingKey", base64(message.getOrderingKey()));
        out.put("properties", new TreeMap<>(message.getProperties()));
        out.put("eventTime", message.getEventTime());
        out.put("publishTime", message.getPublishTime());
        out.put("receivedAt", System.currentTimeMillis());
        out.put("sequenceId", message.getSequenceId());
        out.put("producerName", message.getProducerName());
        MessageIdAdv id = (MessageIdAdv) message.getMessageId();
        out.put("ledgerId", id.getLedgerId());
        out.put("entryId", id.getEntryId());
        out.put("partition", id.getPartitionIndex());
        out.put("batchIndex", id.getBatchIndex());
        out.put("batchSize", id.getBatchSize());
        MessageMetadata metadata = ((MessageImpl<?>) message).getMessageBuilder();
        out.put("deliverAt", metadata.hasDeliverAtTime() ? metadata.getDeliverAtTime() : 0);
        List<String> replicateTo = new ArrayList<>();
        for (int at = 0; at < metadata.getReplicateTosCount(); at++) replicateTo.add(metadata.getReplicateToAt(at));
        out.put("replicateTo", replicateTo);
        out.put("schemaVersion", message.getSchemaVersion() == null ? null : base64(message.getSchemaVersion()));
        message.getEncryptionCtx().ifPresent(context -> out.put("encryptedFor", new ArrayList<>(context.getKeys().keySet())));
        out.put("value", value(message));
        return out;
    }

    private static Object value(Message<?> message) {
        Object value = message.getValue();
        if (value instanceof GenericRecord record) {
            Map<String, Object> fields = new TreeMap<>();
            for (Field field : record.getFields()) {
                Object content = record.getField(field);
                fields.put(field.getName(), content == null ? null : content.toString());
            }
            return new TreeMap<>(Map.of("schemaType", record.getSchemaType().name(), "fields", fields));
        }
        return value instanceof byte[] ? null : value;
    }

    private static CryptoKeyReader keys(JsonObject files) {
        return new CryptoKeyReader() {
            @Override
            public EncryptionKeyInfo getPublicKey(String name, Map<String, String> metadata) {
                throw new IllegalStateException("a reader needs no public key");
            }

            @Override
            public EncryptionKeyInfo getPrivateKey(String name, Map<String, String> metadata) {
                if (!files.has(name)) return new EncryptionKeyInfo(new byte[0], metadata);
                try {
                    return new EncryptionKeyInfo(Files.readAllBytes(Path.of(files.get(name).getAsString())), metadata);
                } catch (Exception error) {
                    throw new IllegalStateException(error);
                }
            }
        };
    }

    private static String base64(byte[] bytes) {
        return Base64.getEncoder().encodeToString(bytes);
    }

    private static void emit(Map<String, ?> line) {
        System.out.println("cross:" + GSON.toJson(new TreeMap<>(line)));
    }
}
