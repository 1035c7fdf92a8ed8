import com.hivemq.embedded.EmbeddedHiveMQ;
import java.nio.file.Path;

/** HiveMQ Community Edition for tests: its configuration and data are in the folder that is named. */
public final class HiveMqBroker {
  public static void main(String[] args) {
    Path folder = Path.of(args[0]);
    EmbeddedHiveMQ broker = EmbeddedHiveMQ.builder()
        .withConfigurationFolder(folder.resolve("conf"))
        .withDataFolder(folder.resolve("data"))
        .withExtensionsFolder(folder.resolve("extensions"))
        .build();
    Runtime.getRuntime().addShutdownHook(new Thread(() -> broker.stop().join()));
    broker.start().join();
  }
}
