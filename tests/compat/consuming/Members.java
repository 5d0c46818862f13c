import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Consumers in groups, each in a thread of its own; a line of JSON starts, asks or ends one. */
public final class Members {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, Member> MEMBERS = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, Object> answer = new HashMap<>();
            try {
                answer.put("ok", answer(JSON.readTree(line)));
            } catch (Throwable error) {
                answer.put("error", error.getClass().getSimpleName());
                answer.put("message", error.toString());
            }
            answers.println(JSON.writeValueAsString(answer));
            answers.flush();
        }
        System.exit(0);
    }

    private static Object answer(JsonNode ask) throws Exception {
        String name = ask.get("name").asText();
        switch (ask.get("op").asText()) {
            case "start":
                MEMBERS.put(name, new Member(ask));
                return true;
            case "look":
                return MEMBERS.get(name).look();
            default:
                return MEMBERS.get(name).end();
        }
    }

    private static final class Member implements Runnable {
        private final KafkaConsumer<byte[], byte[]> consumer;
        private final Thread thread;
        private final TreeSet<String> assigned = new TreeSet<>();
        private final List<String> read = new ArrayList<>();
        private volatile boolean goesOn = true;
        private String error = "";

        Member(JsonNode ask) {
            Map<String, Object> settings = new HashMap<>();
            settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
            settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
            settings.put("auto.offset.reset", "earliest");
            ask.get("settings").fields().forEachRemaining(
                each -> settings.put(each.getKey(), each.getValue().asText()));
            consumer = new KafkaConsumer<>(settings);
            List<String> topics = new ArrayList<>();
            ask.get("topics").forEach(topic -> topics.add(topic.asText()));
            if (ask.get("pattern").isNull()) {
                consumer.subscribe(topics);
            } else {
                consumer.subscribe(new SubscriptionPattern(ask.get("pattern").asText()));
            }
            thread = new Thread(this);
            thread.start();
        }

        @Override
        public void run() {
            try {
                while (goesOn) {
                    var records = consumer.poll(Duration.ofMillis(50));
                    synchronized (this) {
                        assigned.clear();
                        for (TopicPartition each : consumer.assignment()) {
                            assigned.add(each.toString());
                        }
                        records.forEach(
                            each -> read.add(each.topic() + "-" + each.partition() + "@" + each.offset()));
                    }
                }
            } catch (WakeupException ended) {
                // asked to
            } catch (Throwable failed) {
                synchronized (this) {
                    error = failed.toString();
                }
            } finally {
                consumer.close(CloseOptions.timeout(Duration.ofSeconds(10)));
            }
        }

        synchronized Map<String, Object> look() {
            return Map.of("assigned", new ArrayList<>(assigned), "read", new ArrayList<>(read), "error", error);
        }

        Object end() throws InterruptedException {
            goesOn = false;
            consumer.wakeup();
            thread.join();
            return look();
        }
    }
}
