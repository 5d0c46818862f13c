import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.common.utils.Exit;

/** Does with Kafka's own clients what lines of JSON ask for, and answers each with a line. */
public class Agent {
    static final ObjectMapper JSON = new ObjectMapper();
    static final PrintStream ANSWERS = System.out;

    static class Exited extends RuntimeException {}

    public static void main(String[] words) throws Exception {
        System.setOut(System.err);
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, Object> answer = new HashMap<>();
            try {
                answer.put("ok", answer(JSON.readTree(line)));
            } catch (Throwable error) {
                Throwable cause = error;
                while (cause instanceof ExecutionException && cause.getCause() != null) {
                    cause = cause.getCause();
                }
                answer.put("error", name(cause));
                answer.put("message", cause.toString());
            }
            ANSWERS.println(JSON.writeValueAsString(answer));
            ANSWERS.flush();
        }
    }

    static String name(Throwable error) {
        if (error instanceof org.apache.kafka.clients.consumer.OffsetOutOfRangeException) {
            return "OFFSET_OUT_OF_RANGE";
        }
        Errors known = Errors.forException(error);
        return known == Errors.UNKNOWN_SERVER_ERROR ? error.getClass().getSimpleName() : known.name();
    }

    static Object answer(JsonNode ask) throws Exception {
        if (ask.get("op").asText().startsWith("txn_")) {
            return Transactions.answer(ask);
        }
        switch (ask.get("op").asText()) {
            case "version":
                return AppInfoParser.getVersion();
            case "produce":
                return produce(ask);
            case "consume":
                return consume(ask);
            case "time":
                try (KafkaConsumer<byte[], byte[]> consumer = consumer(ask)) {
                    TopicPartition partition = partition(ask);
                    var found =
                        consumer.offsetsForTimes(Map.of(partition, ask.get("timestamp").asLong()));
                    return found.get(partition) == null ? -1 : found.get(partition).offset();
                }
            case "ends":
                try (KafkaConsumer<byte[], byte[]> consumer = consumer(ask)) {
                    List<TopicPartition> asked = List.of(partition(ask));
                    return List.of(
                        consumer.beginningOffsets(asked).get(asked.get(0)),
                        consumer.endOffsets(asked).get(asked.get(0)));
                }
            case "tool":
                return tool(ask);
            default:
                try (Admin admin = Admin.create(settings(ask))) {
                    return administer(ask, admin);
                }
        }
    }

    static Map<String, Object> settings(JsonNode ask) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", ask.get("bootstrap").asText());
        settings.put("default.api.timeout.ms", ask.get("deadline_ms").asInt());
        if (!ask.get("ca").asText().isEmpty()) {
            settings.put("security.protocol", "SSL");
            settings.put("ssl.truststore.type", "PEM");
            settings.put("ssl.truststore.location", ask.get("ca").asText());
        }
        return settings;
    }

    static TopicPartition partition(JsonNode ask) {
        return new TopicPartition(ask.get("topic").asText(), ask.get("partition").asInt());
    }

    static KafkaConsumer<byte[], byte[]> consumer(JsonNode ask) {
        Map<String, Object> settings = settings(ask);
        settings.put("enable.auto.commit", false);
        settings.put("allow.auto.create.topics", false);
        if (ask.has("reset")) {
            settings.put("auto.offset.reset", ask.get("reset").asText());
            settings.put("max.partition.fetch.bytes", ask.get("fetch_bytes_max").asInt());
        }
        return new KafkaConsumer<>(
            settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static Object produce(JsonNode ask) throws Exception {
        Map<String, Object> settings = settings(ask);
        settings.put("compression.type", ask.get("codec").asText());
        settings.put("acks", ask.get("acks").asText());
        settings.put("linger.ms", 5);
        settings.put("batch.size", ask.get("request_bytes_max").asInt());
        settings.put("max.request.size", ask.get("request_bytes_max").asInt() + 100_000);
        settings.put("max.block.ms", ask.get("deadline_ms").asInt());
        settings.put("delivery.timeout.ms", ask.get("deadline_ms").asInt());
        if (!ask.get("idempotent").isNull()) {
            settings.put("enable.idempotence", ask.get("idempotent").asBoolean());
        }
        List<Future<RecordMetadata>> stored = new ArrayList<>();
        List<List<Long>> places = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (JsonNode message : ask.get("messages")) {
                ProducerRecord<byte[], byte[]> record =
                    new ProducerRecord<>(
                        ask.get("topic").asText(),
                        message.get("partition").isNull() ? null : message.get("partition").asInt(),
                        message.get("timestamp").isNull() ? null : message.get("timestamp").asLong(),
                        bytes(message.get("key")),
                        bytes(message.get("value")));
                for (JsonNode header : message.get("headers")) {
                    record.headers().add(header.get(0).asText(), bytes(header.get(1)));
                }
                stored.add(producer.send(record));
            }
            for (Future<RecordMetadata> one : stored) {
                RecordMetadata metadata = one.get();
                places.add(List.of((long) metadata.partition(), metadata.offset()));
            }
        }
        return places;
    }

    static Object consume(JsonNode ask) {
        int count = ask.get("count").asInt();
        List<Object> received = new ArrayList<>();
        long deadline = System.nanoTime() + ask.get("deadline_ms").asLong() * 1_000_000L;
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(ask)) {
            Map<TopicPartition, Long> starts = new LinkedHashMap<>();
            for (JsonNode start : ask.get("starts")) {
                starts.put(
                    new TopicPartition(
                        ask.get("topic").asText(), start.get("partition").asInt()),
                    start.get("offset").asLong());
            }
            consumer.assign(starts.keySet());
            starts.forEach(
                (partition, offset) -> {
                    if (offset == -2) {
                        consumer.seekToBeginning(List.of(partition));
                    } else if (offset == -1) {
                        consumer.seekToEnd(List.of(partition));
                    } else {
                        consumer.seek(partition, offset);
                    }
                });
            while (received.size() < count) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException(received.size() + " of " + count + " records");
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    received.add(describe(record));
                }
            }
        }
        return received.subList(0, count);
    }

    static Map<String, Object> describe(ConsumerRecord<byte[], byte[]> record) {
        List<Object> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            List<Object> pair = new ArrayList<>();
            pair.add(header.key());
            pair.add(text(header.value()));
            headers.add(pair);
        }
        Map<String, Object> told = new HashMap<>();
        told.put("partition", record.partition());
        told.put("offset", record.offset());
        told.put("timestamp", record.timestamp());
        told.put("key", text(record.key()));
        told.put("value", text(record.value()));
        told.put("headers", headers);
        return told;
    }

    static Object administer(JsonNode ask, Admin admin) throws Exception {
        String topic = ask.has("topic") ? ask.get("topic").asText() : "";
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        switch (ask.get("op").asText()) {
            case "topics":
                return admin.listTopics().names().get();
            case "describe":
                TopicDescription described =
                    admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
                List<Object> partitions = new ArrayList<>();
                for (TopicPartitionInfo one : described.partitions()) {
                    partitions.add(
                        List.of(
                            one.partition(),
                            one.leader() == null ? -1 : one.leader().id(),
                            one.replicas().stream().map(Node::id).toList(),
                            one.isr().stream().map(Node::id).toList()));
                }
                return partitions;
            case "create":
                Map<String, String> configs = new HashMap<>();
                ask.get("configs").properties().forEach(
                    entry -> configs.put(entry.getKey(), entry.getValue().asText()));
                NewTopic created =
                    new NewTopic(
                        topic, Optional.of(ask.get("partitions").asInt()), Optional.empty());
                admin.createTopics(List.of(created.configs(configs))).all().get();
                return true;
            case "delete":
                admin.deleteTopics(List.of(topic)).all().get();
                return true;
            case "partitions":
                NewPartitions total = NewPartitions.increaseTo(ask.get("total").asInt());
                admin.createPartitions(Map.of(topic, total)).all().get();
                return true;
            case "configs":
                Map<String, Object> values = new HashMap<>();
                for (ConfigEntry entry :
                    admin.describeConfigs(Set.of(resource)).all().get().get(resource).entries()) {
                    values.put(entry.name(), entry.value());
                }
                return values;
            case "configure":
                ConfigEntry entry =
                    new ConfigEntry(ask.get("name").asText(), ask.get("value").asText());
                admin.incrementalAlterConfigs(
                    Map.of(resource, List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET))))
                    .all().get();
                return true;
            case "delete_records":
                TopicPartition partition = partition(ask);
                RecordsToDelete before =
                    RecordsToDelete.beforeOffset(ask.get("before").asLong());
                return admin.deleteRecords(Map.of(partition, before))
                    .lowWatermarks().get(partition).get().lowWatermark();
            default:
                throw new IllegalArgumentException("unknown " + ask);
        }
    }

    /** Runs a tool's main method in this JVM: as it is, but for where it reads, writes and ends. */
    static Object tool(JsonNode ask) throws Exception {
        String[] args = new String[ask.get("args").size()];
        for (int index = 0; index < args.length; index++) {
            args[index] = ask.get("args").get(index).asText();
        }
        InputStream input = System.in;
        PrintStream output = System.out;
        PrintStream errors = System.err;
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        ByteArrayOutputStream complained = new ByteArrayOutputStream();
        List<Runnable> hooks = new ArrayList<>();
        // Some tools catch everything, this too, and exit again: the first status is what they meant.
        List<Integer> statuses = new ArrayList<>();
        Exit.Procedure exit =
            (status, message) -> {
                statuses.add(status);
                throw new Exited();
            };
        Exit.setExitProcedure(exit);
        Exit.setHaltProcedure(exit);
        Exit.setShutdownHookAdder((name, runnable) -> hooks.add(runnable));
        try {
            System.setIn(
                new ByteArrayInputStream(ask.get("stdin").asText().getBytes(StandardCharsets.UTF_8)));
            System.setOut(new PrintStream(said, true));
            System.setErr(new PrintStream(complained, true));
            try {
                Class.forName(ask.get("main").asText())
                    .getMethod("main", String[].class).invoke(null, (Object) args);
            } catch (java.lang.reflect.InvocationTargetException error) {
                if (!(error.getCause() instanceof Exited)) {
                    throw error;
                }
            }
            hooks.forEach(Runnable::run);
        } finally {
            System.out.flush();
            System.setIn(input);
            System.setOut(output);
            System.setErr(errors);
            Exit.resetExitProcedure();
            Exit.resetHaltProcedure();
            Exit.resetShutdownHookAdder();
        }
        return Map.of(
            "status", statuses.isEmpty() ? 0 : statuses.get(0),
            "stdout", said.toString(StandardCharsets.UTF_8),
            "stderr", complained.toString(StandardCharsets.UTF_8));
    }

    static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    static String text(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }
}
