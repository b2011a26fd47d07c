import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;

/**
 * The job of the benchmark in the Kafka Streams DSL: hourly count, sum, min and max of each device. Arguments are
 * name=value; those that begin with "conf." are settings of Kafka Streams. It prints one line for each thing that the
 * benchmark waits for: "running", "read N" each time another hundredth of target is read, and "done SECONDS" from its
 * first to its last reading.
 */
public final class Peer {
  private static final JsonFactory JSON = new JsonFactory();

  private record Reading(long time, double value) {}

  private record Stats(long count, double sum, double min, double max) {
    static final Stats NONE = new Stats(0, 0, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY);

    Stats with(double v) {
      return new Stats(count + 1, sum + v, Math.min(min, v), Math.max(max, v));
    }
  }

  private static Reading parse(byte[] text) {
    long time = 0;
    double value = 0;
    try (JsonParser p = JSON.createParser(text)) {
      p.nextToken();
      while (p.nextToken() == JsonToken.FIELD_NAME) {
        String field = p.currentName();
        p.nextToken();
        if (field.equals("ts")) {
          time = p.getLongValue();
        } else if (field.equals("value")) {
          value = p.getDoubleValue();
        }
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return new Reading(time, value);
  }

  private static Serde<Reading> readings() {
    Deserializer<Reading> from = (topic, text) -> text == null ? null : parse(text);
    Serializer<Reading> to = (topic, r) -> ByteBuffer.allocate(16).putLong(r.time()).putDouble(r.value()).array();
    return Serdes.serdeFrom(to, from);
  }

  private static Serde<Stats> stats() {
    Serializer<Stats> to = (topic, s) -> s == null ? null
        : ByteBuffer.allocate(32).putLong(s.count()).putDouble(s.sum()).putDouble(s.min()).putDouble(s.max()).array();
    Deserializer<Stats> from = (topic, bytes) -> {
      if (bytes == null) {
        return null;
      }
      ByteBuffer b = ByteBuffer.wrap(bytes);
      return new Stats(b.getLong(), b.getDouble(), b.getDouble(), b.getDouble());
    };
    return Serdes.serdeFrom(to, from);
  }

  private static WindowBytesStoreSupplier store(String kind) {
    Duration kept = Duration.ofHours(48), size = Duration.ofHours(1);
    return kind.equals("memory") ? Stores.inMemoryWindowStore("stats", kept, size, false)
        : Stores.persistentWindowStore("stats", kept, size, false);
  }

  private static void say(String line) {
    System.out.println(line);
    System.out.flush();
  }

  public static void main(String[] args) {
    Map<String, String> given = new HashMap<>();
    for (String arg : args) {
      given.put(arg.substring(0, arg.indexOf('=')), arg.substring(arg.indexOf('=') + 1));
    }
    Properties settings = new Properties();
    settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
    settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
    settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
    given.forEach((name, value) -> {
      if (name.startsWith("conf.")) {
        settings.put(name.substring(5), value);
      }
    });
    long target = Long.parseLong(given.get("target"));
    AtomicLong read = new AtomicLong(), first = new AtomicLong();

    StreamsBuilder topology = new StreamsBuilder();
    Materialized<String, Stats, ?> table = Materialized.<String, Stats>as(store(given.get("store")));
    @SuppressWarnings("unchecked")
    var kept = (Materialized<String, Stats, org.apache.kafka.streams.state.WindowStore<org.apache.kafka.common.utils.Bytes, byte[]>>) table
        .withKeySerde(Serdes.String()).withValueSerde(stats());
    topology.stream(given.get("input"), Consumed.with(Serdes.String(), readings())
            .withTimestampExtractor((record, before) -> record.value() instanceof Reading r ? r.time() : record.timestamp()))
        .peek((key, value) -> {
          long n = read.incrementAndGet();
          if (n == 1) {
            first.set(System.nanoTime());
          }
          if (n % (target / 100) == 0) {
            say("read " + n);
          }
          if (n == target) {
            say("done " + (System.nanoTime() - first.get()) / 1e9);
          }
        })
        .groupByKey(Grouped.with(Serdes.String(), readings()))
        .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofHours(1), Duration.ofHours(1)))
        .aggregate(() -> Stats.NONE, (key, r, s) -> s.with(r.value()), kept)
        .toStream((window, s) -> window.key() + "@" + window.window().start())
        .to(given.get("output"), Produced.with(Serdes.String(), stats()));

    KafkaStreams streams = new KafkaStreams(topology.build(), settings);
    streams.setStateListener((now, before) -> {
      if (now == KafkaStreams.State.RUNNING) {
        say("running");
      }
    });
    streams.setUncaughtExceptionHandler(e -> {
      e.printStackTrace();
      return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
    });
    Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
    streams.start();
  }
}
