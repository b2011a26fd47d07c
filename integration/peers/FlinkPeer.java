import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.TransactionNamingStrategy;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.KafkaSourceBuilder;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.types.CopyableValue;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * The job of the benchmark on Apache Flink, in one process: hourly count, sum, min, max and mean of each device, final
 * results as JSON by transactions. Arguments are name=value; those that begin with "conf.", "source." or "sink." are
 * settings of Flink, of its consumer or of its producer. With "once" it reads what the input holds when it starts and
 * then ends, with its last results committed; a restored job would not end. It prints one line for each thing that the
 * benchmark waits for: "running" at the first reading, "from PARTITION OFFSET" at the first of each partition, "read N" each time another hundredth of target
 * is read, "half SECONDS" and "done SECONDS" from the first reading to the middle and the last.
 */
public final class FlinkPeer {
  private static final JsonFactory JSON = new JsonFactory();
  private static final AtomicLong read = new AtomicLong(), first = new AtomicLong();
  private static long target;

  /** A reading, with a serializer of its own: fields by reflection would cost on each way from a reader to a window. */
  public static final class Reading implements CopyableValue<Reading> {
    String device = "";
    long time;
    double value;

    @Override public void write(DataOutputView out) throws IOException {
      out.writeUTF(device);
      out.writeLong(time);
      out.writeDouble(value);
    }

    @Override public void read(DataInputView in) throws IOException {
      device = in.readUTF();
      time = in.readLong();
      value = in.readDouble();
    }

    @Override public int getBinaryLength() {
      return -1;
    }

    @Override public void copyTo(Reading to) {
      to.device = device;
      to.time = time;
      to.value = value;
    }

    @Override public Reading copy() {
      Reading to = new Reading();
      copyTo(to);
      return to;
    }

    @Override public void copy(DataInputView in, DataOutputView out) throws IOException {
      out.writeUTF(in.readUTF());
      out.write(in, 16);
    }
  }

  /** What is known of a window. */
  public static final class Stats implements CopyableValue<Stats> {
    private static final int LENGTH = 32;
    long count;
    double sum, min = Double.POSITIVE_INFINITY, max = Double.NEGATIVE_INFINITY;

    @Override public void write(DataOutputView out) throws IOException {
      out.writeLong(count);
      out.writeDouble(sum);
      out.writeDouble(min);
      out.writeDouble(max);
    }

    @Override public void read(DataInputView in) throws IOException {
      count = in.readLong();
      sum = in.readDouble();
      min = in.readDouble();
      max = in.readDouble();
    }

    @Override public int getBinaryLength() {
      return LENGTH;
    }

    @Override public void copyTo(Stats to) {
      to.count = count;
      to.sum = sum;
      to.min = min;
      to.max = max;
    }

    @Override public Stats copy() {
      Stats to = new Stats();
      copyTo(to);
      return to;
    }

    @Override public void copy(DataInputView in, DataOutputView out) throws IOException {
      out.write(in, LENGTH);
    }
  }

  private static final class Add implements AggregateFunction<Reading, Stats, Stats> {
    @Override public Stats createAccumulator() {
      return new Stats();
    }

    @Override public Stats add(Reading r, Stats s) {
      s.count++;
      s.sum += r.value;
      s.min = Math.min(s.min, r.value);
      s.max = Math.max(s.max, r.value);
      return s;
    }

    @Override public Stats getResult(Stats s) {
      return s;
    }

    @Override public Stats merge(Stats a, Stats b) {
      a.count += b.count;
      a.sum += b.sum;
      a.min = Math.min(a.min, b.min);
      a.max = Math.max(a.max, b.max);
      return a;
    }
  }

  private static final class Result extends ProcessWindowFunction<Stats, Tuple2<String, String>, String, TimeWindow> {
    @Override public void process(String device, Context context, Iterable<Stats> one, Collector<Tuple2<String, String>> out) {
      Stats s = one.iterator().next();
      TimeWindow w = context.window();
      out.collect(Tuple2.of(device, "{\"key\":[\"" + device + "\"],\"start\":" + w.getStart() + ",\"end\":" + w.getEnd() + ",\"count\":" + s.count
          + ",\"sum\":" + s.sum + ",\"min\":" + s.min + ",\"max\":" + s.max + ",\"mean\":" + s.sum / s.count + "}"));
    }
  }

  /** It hands out one object again and again: whoever gets it serializes it at once. */
  private static final class Parse implements KafkaRecordDeserializationSchema<Reading> {
    private final Reading reading = new Reading();
    private final Set<Integer> partitions = new HashSet<>();

    @Override public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<Reading> out) throws IOException {
      try (JsonParser p = JSON.createParser(record.value())) {
        p.nextToken();
        while (p.nextToken() == JsonToken.FIELD_NAME) {
          String field = p.currentName();
          p.nextToken();
          switch (field) {
            case "device" -> reading.device = p.getText();
            case "ts" -> reading.time = p.getLongValue();
            case "value" -> reading.value = p.getDoubleValue();
            default -> p.skipChildren();
          }
        }
      }
      long n = read.incrementAndGet();
      if (n == 1) {
        first.set(System.nanoTime());
        say("running");
      }
      if (partitions.add(record.partition())) {
        say("from " + record.partition() + " " + record.offset());
      }
      if (n % (target / 100) == 0) {
        say("read " + n);
      }
      if (n == target / 2) {
        say("half " + seconds());
      }
      if (n == target) {
        say("done " + seconds());
      }
      out.collect(reading);
    }

    @Override public TypeInformation<Reading> getProducedType() {
      return TypeInformation.of(Reading.class);
    }
  }

  private static double seconds() {
    return (System.nanoTime() - first.get()) / 1e9;
  }

  private static synchronized void say(String line) {
    System.out.println(line);
    System.out.flush();
  }

  public static void main(String[] args) throws Exception {
    Map<String, String> given = new HashMap<>();
    Configuration settings = new Configuration();
    Properties source = new Properties(), sink = new Properties();
    for (String arg : args) {
      String name = arg.substring(0, arg.indexOf('=')), value = arg.substring(arg.indexOf('=') + 1);
      int dot = name.indexOf('.');
      switch (name.substring(0, Math.max(dot, 0))) {
        case "conf" -> settings.setString(name.substring(dot + 1), value);
        case "source" -> source.put(name.substring(dot + 1), value);
        case "sink" -> sink.put(name.substring(dot + 1), value);
        default -> given.put(name, value);
      }
    }
    target = Long.parseLong(given.get("target"));
    String output = given.get("output");
    StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(Integer.parseInt(given.get("parallelism")), settings);

    KafkaSourceBuilder<Reading> readings = KafkaSource.<Reading>builder().setBootstrapServers(given.get("brokers"))
        .setTopics(given.get("input")).setGroupId(given.get("group")).setProperties(source)
        .setStartingOffsets(OffsetsInitializer.earliest()).setDeserializer(new Parse());
    if (given.containsKey("once")) {
      readings.setBounded(OffsetsInitializer.latest());
    }
    KafkaRecordSerializationSchema<Tuple2<String, String>> toRecord = (r, context, time) -> new ProducerRecord<>(output,
        r.f0.getBytes(StandardCharsets.UTF_8), r.f1.getBytes(StandardCharsets.UTF_8));
    KafkaSink<Tuple2<String, String>> results = KafkaSink.<Tuple2<String, String>>builder().setBootstrapServers(given.get("brokers"))
        .setKafkaProducerConfig(sink).setRecordSerializer(toRecord).setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .setTransactionalIdPrefix(given.get("group")).setTransactionNamingStrategy(TransactionNamingStrategy.valueOf(given.get("names")))
        .build();
    env.fromSource(readings.build(), WatermarkStrategy.<Reading>forBoundedOutOfOrderness(Duration.ofHours(1)).withTimestampAssigner((r, t) -> r.time),
            "readings")
        .keyBy(r -> r.device, Types.STRING)
        .window(TumblingEventTimeWindows.of(Duration.ofHours(1)))
        .aggregate(new Add(), new Result(), TypeInformation.of(Stats.class), TypeInformation.of(Stats.class),
            Types.TUPLE(Types.STRING, Types.STRING))
        .sinkTo(results);
    env.execute(given.get("group"));
  }
}
