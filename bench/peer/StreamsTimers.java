import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.StreamJoined;

/**
 * The timers of the seed, as they stand there: one oscillator that counts up to the present second, one Kafka Streams join on
 * the second, and a producer that sends each callback as it comes out. Only what is needed to run on this version is added.
 *
 * Requests must be partitioned by their key as the oscillator's are. Arguments: bootstrap servers, folder for state, join
 * window in minutes.
 */
public final class StreamsTimers {
    private static final String TICKS = "peer-oscillator";
    private static final String REQUESTS = "peer-request";

    public static void main(String[] arguments) throws Exception {
        String kafka = arguments[0];
        KafkaProducer<String, byte[]> producer = producer(kafka);
        KafkaStreams streams = streams(kafka, arguments[1], Duration.ofMinutes(Long.parseLong(arguments[2])), producer);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(5))));
        streams.start();
        while (streams.state() != KafkaStreams.State.RUNNING) {
            Thread.sleep(50);
        }
        System.out.println("running");
        tick(producer);
    }

    private static void tick(KafkaProducer<String, byte[]> producer) throws InterruptedException {
        long second = System.currentTimeMillis() / 1000L;
        while (true) {
            long now = System.currentTimeMillis() / 1000L;
            while (second < now) {
                second++;
                producer.send(new ProducerRecord<>(TICKS, Long.toString(second), new byte[] {'1'}));
            }
            Thread.sleep(200);
        }
    }

    private static KafkaStreams streams(
            String kafka, String folder, Duration window, KafkaProducer<String, byte[]> producer) {
        StreamsBuilder builder = new StreamsBuilder();
        var consumed = Consumed.with(Serdes.String(), Serdes.ByteArray());
        var joined = StreamJoined.with(Serdes.String(), Serdes.ByteArray(), Serdes.ByteArray()).withStoreName("timers");
        builder.stream(TICKS, consumed)
                .join(
                        builder.stream(REQUESTS, consumed),
                        (tick, future) -> future,
                        JoinWindows.ofTimeDifferenceAndGrace(window, Duration.ofMinutes(30)),
                        joined)
                .foreach((second, future) -> callBack(producer, second, future));
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "peer-timers");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, kafka);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, folder);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        return new KafkaStreams(builder.build(), settings);
    }

    private static void callBack(KafkaProducer<String, byte[]> producer, String second, byte[] value) {
        List<byte[]> fields = fields(value);
        String topic = new String(fields.get(0), StandardCharsets.UTF_8);
        String key = new String(fields.get(1), StandardCharsets.UTF_8);
        List<Header> headers = List.of(
                new RecordHeader("timer-token", fields.get(1)),
                new RecordHeader("timer-due", second.getBytes(StandardCharsets.UTF_8)));
        producer.send(new ProducerRecord<>(topic, null, null, key, fields.get(2), headers));
    }

    /** Topic, key and callback of a message whose three fields are all length-delimited and come in order. */
    private static List<byte[]> fields(byte[] message) {
        List<byte[]> fields = new ArrayList<>(List.of(new byte[0], new byte[0], new byte[0]));
        int at = 0;
        while (at < message.length) {
            int number = message[at++] >>> 3;
            int length = 0;
            for (int shift = 0; ; shift += 7) {
                byte part = message[at++];
                length |= (part & 0x7f) << shift;
                if (part >= 0) {
                    break;
                }
            }
            byte[] content = new byte[length];
            System.arraycopy(message, at, content, 0, length);
            fields.set(number - 1, content);
            at += length;
        }
        return fields;
    }

    private static KafkaProducer<String, byte[]> producer(String kafka) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", kafka);
        settings.put("linger.ms", "5");
        return new KafkaProducer<>(settings, new StringSerializer(), new ByteArraySerializer());
    }
}
