import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Sends so many records at a time and commits them, or only waits for them: bootstrap, topic,
 * partitions, bytes, records at a time, warm-up and length in seconds, "transactional" or "plain".
 */
public class TransactionLoad {
    public static void main(String[] words) {
        String topic = words[1];
        int partitions = Integer.parseInt(words[2]);
        byte[] value = new byte[Integer.parseInt(words[3])];
        int turn = Integer.parseInt(words[4]);
        double warm = Double.parseDouble(words[5]);
        double length = Double.parseDouble(words[6]);
        boolean transactional = words[7].equals("transactional");
        Properties settings = new Properties();
        settings.put("bootstrap.servers", words[0]);
        settings.put("acks", "all");
        settings.put("linger.ms", "0");
        if (transactional) {
            settings.put("transactional.id", "bench-" + System.nanoTime());
        }
        List<Double> took = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            if (transactional) {
                producer.initTransactions();
            }
            long begun = System.nanoTime();
            while (System.nanoTime() - begun < warm * 1e9) {
                send(producer, topic, partitions, value, turn, transactional);
            }
            System.out.println("{\"event\": \"begin\"}");
            begun = System.nanoTime();
            while (System.nanoTime() - begun < length * 1e9) {
                long at = System.nanoTime();
                send(producer, topic, partitions, value, turn, transactional);
                took.add((System.nanoTime() - at) / 1e6);
            }
            double seconds = (System.nanoTime() - begun) / 1e9;
            System.out.println("{\"event\": \"stop\"}");
            Collections.sort(took);
            System.out.printf(
                Locale.ROOT,
                "{\"event\": \"result\", \"seconds\": %f, \"records_per_s\": %f,"
                    + " \"turns_per_s\": %f, \"p50_ms\": %f, \"p99_ms\": %f, \"failed\": 0}%n",
                seconds, took.size() * turn / seconds, took.size() / seconds,
                took.get(took.size() / 2), took.get(took.size() * 99 / 100));
        }
    }

    static void send(
        KafkaProducer<byte[], byte[]> producer, String topic, int partitions, byte[] value,
        int turn, boolean transactional) {
        if (transactional) {
            producer.beginTransaction();
        }
        for (int number = 0; number < turn; number++) {
            producer.send(new ProducerRecord<>(topic, number % partitions, null, value));
        }
        if (transactional) {
            producer.commitTransaction();
        } else {
            producer.flush();
        }
    }
}
