import java.io.BufferedOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Sends numbered records at an even pace until standard input ends, and says what became of each.
 *
 * <p>Arguments: topic, partitions, producer, records per second, bytes of a value, and properties
 * name=value. Record n is "producer n xxx..." and goes to partition n % partitions. Lines: "s n
 * time" when it is sent (by the monotonic clock, in nanoseconds), "a n time offset" when it is
 * acknowledged, "f n why" when it is given up, and "e" at last.
 */
public class Writer {
    static volatile boolean stopping = false;
    static final PrintStream LINES =
        new PrintStream(new BufferedOutputStream(System.out, 1 << 16), false);

    public static void main(String[] words) throws Exception {
        String topic = words[0];
        int partitions = Integer.parseInt(words[1]);
        int recordsPerS = Integer.parseInt(words[3]);
        int valueBytes = Integer.parseInt(words[4]);
        Properties properties = new Properties();
        for (String word : Arrays.copyOfRange(words, 5, words.length)) {
            properties.put(word.split("=", 2)[0], word.split("=", 2)[1]);
        }
        Thread watcher = new Thread(Writer::waitForEnd);
        watcher.setDaemon(true);
        watcher.start();
        ByteArraySerializer bytes = new ByteArraySerializer();
        int number = 0;
        try (KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(properties, bytes, bytes)) {
            long begun = System.nanoTime();
            while (!stopping) {
                long due = (System.nanoTime() - begun) * recordsPerS / 1_000_000_000L;
                for (; number < due && !stopping; number++) {
                    byte[] value = value(words[2] + " " + number + " ", valueBytes);
                    int partition = number % partitions;
                    send(producer, new ProducerRecord<>(topic, partition, null, value), number);
                }
                LINES.flush();
                Thread.sleep(5);
            }
            producer.flush();
        }
        LINES.println("e");
        LINES.flush();
    }

    static void send(
        KafkaProducer<byte[], byte[]> producer, ProducerRecord<byte[], byte[]> record, int number) {
        LINES.println("s " + number + " " + System.nanoTime());
        try {
            producer.send(
                record,
                (metadata, error) -> {
                    if (error == null) {
                        String where = System.nanoTime() + " " + metadata.offset();
                        LINES.println("a " + number + " " + where);
                    } else {
                        LINES.println("f " + number + " " + error);
                    }
                });
        } catch (RuntimeException error) {
            LINES.println("f " + number + " " + error);
        }
    }

    static byte[] value(String head, int size) {
        byte[] value = new byte[size];
        Arrays.fill(value, (byte) 'x');
        byte[] begin = head.getBytes(StandardCharsets.US_ASCII);
        System.arraycopy(begin, 0, value, 0, begin.length);
        return value;
    }

    static void waitForEnd() {
        try {
            while (System.in.read() >= 0) {}
        } catch (java.io.IOException error) {
            // Nobody can ask for more, either.
        }
        stopping = true;
    }
}
