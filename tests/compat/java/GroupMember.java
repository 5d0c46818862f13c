import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** One member of a group with Kafka's own consumer; says what clients/group_member.py says. */
public class GroupMember {
    static final ObjectMapper JSON = new ObjectMapper();
    static final PrintStream SAID = System.out;

    static volatile boolean stopped = false;

    public static void main(String[] words) throws Exception {
        System.setOut(System.err);
        JsonNode settings = JSON.readTree(words[0]);
        Map<String, Object> properties = new HashMap<>();
        properties.put("bootstrap.servers", settings.get("bootstrap").asText());
        properties.put("group.id", settings.get("group").asText());
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", false);
        properties.put("session.timeout.ms", settings.get("session_ms").asInt());
        properties.put("heartbeat.interval.ms", settings.get("session_ms").asInt() / 4);
        properties.put("client.id", "java");
        properties.put(
            "partition.assignment.strategy",
            "org.apache.kafka.clients.consumer."
                + (settings.get("strategy").asText().equals("range")
                    ? "RangeAssignor"
                    : "CooperativeStickyAssignor"));
        if (!settings.get("instance_id").asText().isEmpty()) {
            properties.put("group.instance.id", settings.get("instance_id").asText());
        }
        Thread reader = Thread.currentThread();
        Runtime.getRuntime()
            .addShutdownHook(
                new Thread(
                    () -> {
                        stopped = true;
                        try {
                            reader.join();
                        } catch (InterruptedException error) {
                            Thread.currentThread().interrupt();
                        }
                    }));
        try (KafkaConsumer<byte[], byte[]> consumer =
            new KafkaConsumer<>(
                properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(settings.get("topic").asText()));
            read(consumer, settings.get("commit").asBoolean());
        }
    }

    static void read(KafkaConsumer<byte[], byte[]> consumer, boolean commit) throws Exception {
        List<Integer> assigned = null;
        while (!stopped) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(50))) {
                String value = new String(record.value(), StandardCharsets.UTF_8);
                say("read", List.of(record.partition(), record.offset(), value));
                if (commit) {
                    consumer.commitSync(
                        Map.of(
                            new TopicPartition(record.topic(), record.partition()),
                            new OffsetAndMetadata(record.offset() + 1)));
                }
            }
            List<Integer> now =
                consumer.assignment().stream().map(TopicPartition::partition).sorted().toList();
            if (!now.equals(assigned)) {
                assigned = now;
                say("assigned", now);
            }
        }
    }

    static void say(String what, Object value) throws Exception {
        SAID.println(JSON.writeValueAsString(Map.of(what, value)));
        SAID.flush();
    }
}
