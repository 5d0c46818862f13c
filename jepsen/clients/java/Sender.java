import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Sends what standard input says until it ends, and says what became of each record.
 *
 * <p>Arguments: properties name=value. Input: a line for each record, with its number, topic,
 * partition, key ("-" if it has none) and value, between tabs. Output: "a number offset" when it is
 * acknowledged, "f number why" when it is given up, "e" at last.
 */
public class Sender {
    static final PrintStream LINES = new PrintStream(System.out, false);

    public static void main(String[] words) throws IOException {
        Properties properties = new Properties();
        for (String word : words) {
            properties.put(word.split("=", 2)[0], word.split("=", 2)[1]);
        }
        ByteArraySerializer bytes = new ByteArraySerializer();
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        try (KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(properties, bytes, bytes)) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                send(producer, line.split("\t", 5));
            }
            producer.flush();
        }
        say("e");
    }

    static void send(KafkaProducer<byte[], byte[]> producer, String[] words) {
        Integer partition = words[2].equals("-") ? null : Integer.valueOf(words[2]);
        byte[] key = words[3].equals("-") ? null : words[3].getBytes(StandardCharsets.US_ASCII);
        byte[] value = words[4].getBytes(StandardCharsets.US_ASCII);
        try {
            producer.send(
                new ProducerRecord<>(words[1], partition, key, value),
                (metadata, error) -> {
                    if (error == null) {
                        say("a " + words[0] + " " + metadata.offset());
                    } else {
                        say("f " + words[0] + " " + error);
                    }
                });
        } catch (RuntimeException error) {
            say("f " + words[0] + " " + error);
        }
    }

    static synchronized void say(String line) {
        LINES.println(line);
        LINES.flush();
    }
}
