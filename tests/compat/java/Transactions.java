import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Transactional producers by name, and what is read as committed. */
class Transactions {
    static final Map<String, KafkaProducer<byte[], byte[]>> PRODUCERS = new HashMap<>();

    static Object answer(JsonNode ask) throws Exception {
        String name = ask.path("name").asText();
        switch (ask.get("op").asText()) {
            case "txn_open":
                Map<String, Object> settings = Agent.settings(ask);
                settings.remove("default.api.timeout.ms");
                settings.put("transactional.id", ask.get("transactional_id").asText());
                settings.put("transaction.timeout.ms", ask.get("timeout_ms").asInt());
                settings.put("max.block.ms", ask.get("deadline_ms").asInt());
                settings.put("linger.ms", 0);
                KafkaProducer<byte[], byte[]> made =
                    new KafkaProducer<>(
                        settings, new ByteArraySerializer(), new ByteArraySerializer());
                PRODUCERS.put(name, made);
                made.initTransactions();
                return true;
            case "txn_begin":
                PRODUCERS.get(name).beginTransaction();
                return true;
            case "txn_send":
                PRODUCERS.get(name).send(
                    new ProducerRecord<>(
                        ask.get("topic").asText(), ask.get("partition").asInt(), null,
                        Agent.bytes(ask.get("value")))).get();
                return true;
            case "txn_offsets":
                PRODUCERS.get(name).sendOffsetsToTransaction(
                    Map.of(Agent.partition(ask), new OffsetAndMetadata(ask.get("offset").asLong())),
                    new ConsumerGroupMetadata(ask.get("group").asText()));
                return true;
            case "txn_commit":
                PRODUCERS.get(name).commitTransaction();
                return true;
            case "txn_abort":
                PRODUCERS.get(name).abortTransaction();
                return true;
            case "txn_close":
                PRODUCERS.remove(name).close(Duration.ZERO);
                return true;
            case "txn_copy":
                return copy(ask, PRODUCERS.get(name));
            case "txn_read":
                return read(ask);
            default:
                throw new IllegalArgumentException("unknown " + ask);
        }
    }

    static KafkaConsumer<byte[], byte[]> committed(JsonNode ask, Map<String, Object> more) {
        Map<String, Object> settings = Agent.settings(ask);
        settings.put("enable.auto.commit", false);
        settings.put("auto.offset.reset", "earliest");
        settings.put("isolation.level", ask.path("isolation").asText("read_committed"));
        settings.putAll(more);
        return new KafkaConsumer<>(
            settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /** Reads to the end; returns the values in the order of partitions. */
    static Object read(JsonNode ask) {
        List<Object> values = new ArrayList<>();
        try (KafkaConsumer<byte[], byte[]> consumer = committed(ask, Map.of())) {
            List<TopicPartition> partitions = new ArrayList<>();
            for (int number = 0; number < ask.get("partitions").asInt(); number++) {
                partitions.add(new TopicPartition(ask.get("topic").asText(), number));
            }
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            long deadline = System.nanoTime() + ask.get("deadline_ms").asLong() * 1_000_000L;
            for (TopicPartition partition : partitions) {
                consumer.assign(List.of(partition));
                consumer.seekToBeginning(List.of(partition));
                while (consumer.position(partition) < ends.get(partition)) {
                    if (System.nanoTime() > deadline) {
                        throw new IllegalStateException("at " + consumer.position(partition));
                    }
                    for (ConsumerRecord<byte[], byte[]> record :
                        consumer.poll(Duration.ofMillis(100))) {
                        values.add(Agent.text(record.value()));
                    }
                }
            }
        }
        return values;
    }

    /** Reads, writes and commits in transactions, of which every third one is aborted. */
    static Object copy(JsonNode ask, KafkaProducer<byte[], byte[]> producer) {
        String input = ask.get("topic").asText();
        int left = ask.get("count").asInt();
        int turn = 0;
        Map<String, Object> more =
            Map.of("group.id", ask.get("group").asText(), "max.poll.records", 10);
        try (KafkaConsumer<byte[], byte[]> consumer = committed(ask, more)) {
            consumer.subscribe(List.of(input));
            long deadline = System.nanoTime() + ask.get("deadline_ms").asLong() * 1_000_000L;
            while (left > 0) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException(left + " left");
                }
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
                if (records.isEmpty()) {
                    continue;
                }
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                Map<TopicPartition, Long> firsts = new HashMap<>();
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    TopicPartition partition =
                        new TopicPartition(record.topic(), record.partition());
                    firsts.putIfAbsent(partition, record.offset());
                    offsets.put(partition, new OffsetAndMetadata(record.offset() + 1));
                    producer.send(new ProducerRecord<>(ask.get("output").asText(), record.value()));
                }
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                if (turn++ % 3 == 1) {
                    producer.abortTransaction();
                    firsts.forEach(consumer::seek);
                } else {
                    producer.commitTransaction();
                    left -= records.count();
                }
            }
        }
        return turn;
    }
}
