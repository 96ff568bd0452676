import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.FileInputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Properties;

/**
 * Debezium's engine with a log of files in place of Kafka: {@code java -cp 'jars/*' ChangeLog.java PROPERTIES FOLDER}.
 *
 * <p>A record is a line of {@code FOLDER/<topic>-<partition>}, of two partitions by its key; one without content is
 * {@code null}. What is written is confirmed afterwards, so a process that is killed delivers some records again, as a
 * connector does. It ends when its input does.
 */
public class ChangeLog {
  private static final int PARTITIONS = 2;

  public static void main(String[] arguments) throws Exception {
    Properties properties = new Properties();
    try (FileInputStream in = new FileInputStream(arguments[0])) {
      properties.load(in);
    }
    Path folder = Files.createDirectories(Path.of(arguments[1]));
    DebeziumEngine<ChangeEvent<String, String>> engine =
        DebeziumEngine.create(Json.class)
            .using(properties)
            .using((success, message, error) -> System.err.println("ended: " + message + " " + error))
            .notifying(
                (records, committer) -> {
                  for (ChangeEvent<String, String> record : records) {
                    append(folder, record);
                    committer.markProcessed(record);
                  }
                  committer.markBatchFinished();
                })
            .build();
    Thread work = new Thread(engine, "engine");
    work.start();
    while (System.in.read() >= 0) {
      // until it ends
    }
    engine.close();
    work.join();
  }

  private static void append(Path folder, ChangeEvent<String, String> record) {
    int partition = Math.floorMod(record.key().hashCode(), PARTITIONS);
    byte[] line = (record.value() + "\n").getBytes(StandardCharsets.UTF_8);
    try {
      Path file = folder.resolve(record.destination() + "-" + partition);
      Files.write(file, line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    } catch (java.io.IOException error) {
      throw new java.io.UncheckedIOException(error);
    }
  }
}
