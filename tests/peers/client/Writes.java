// What senders of KairosDB write: its Java client over REST, gzip and telnet, and Micrometer.
// usage: java Writes.java URL TELNET_PORT PREFIX TIME
// All names begin with PREFIX. Times are TIME, in milliseconds, or follow it. No value depends on which server takes it.

import io.micrometer.core.instrument.DistributionSummary;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MockClock;
import io.micrometer.core.instrument.Timer;
import io.micrometer.kairos.KairosConfig;
import io.micrometer.kairos.KairosMeterRegistry;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.kairosdb.client.HttpClient;
import org.kairosdb.client.TelnetClient;
import org.kairosdb.client.builder.MetricBuilder;

class Writes {
    private final String url;
    private final String prefix;
    private final long time;

    private Writes(String url, String prefix, long time) {
        this.url = url;
        this.prefix = prefix;
        this.time = time;
    }

    public static void main(String[] arguments) throws Exception {
        Writes writes = new Writes(arguments[0], arguments[2], Long.parseLong(arguments[3]));
        writes.rest(false);
        writes.rest(true);
        writes.telnet(Integer.parseInt(arguments[1]));
        writes.micrometer();
    }

    private MetricBuilder metrics(String name) {
        MetricBuilder metrics = MetricBuilder.getInstance();
        metrics.addMetric(prefix + "." + name).addTag("host", "a").addTag("dc", "x")
            .addDataPoint(time, 9007199254740993L).addDataPoint(time + 1000, 2.5).addDataPoint(time + 2000, -7L);
        metrics.addMetric(prefix + "." + name).addTag("host", "b").addDataPoint(time, 1.0);
        return metrics;
    }

    private void rest(boolean compressed) throws Exception {
        HttpClient client = new HttpClient(url);
        MetricBuilder metrics = metrics(compressed ? "gzip" : "rest");
        metrics.setCompression(compressed);
        client.pushMetrics(metrics);
        client.close();
    }

    private void telnet(int port) throws Exception {
        TelnetClient client = new TelnetClient("127.0.0.1", port);
        client.putMetrics(metrics("put"));
        client.pushMetrics(metrics("putm"));
        client.shutdown();
    }

    // The registry sends what its clock has moved by one step, when it is closed.
    private void micrometer() throws Exception {
        KairosConfig config = new KairosConfig() {
            @Override
            public String get(String key) {
                return key.equals("kairos.uri") ? url + "/api/v1/datapoints" : null;
            }
        };
        MockClock clock = new MockClock();
        clock.add(Duration.ofMillis(time).minus(Duration.ofNanos(clock.monotonicTime())));
        KairosMeterRegistry registry = new KairosMeterRegistry(config, clock);
        registry.counter(prefix + ".requests", "host", "a").increment(3);
        Gauge.builder(prefix + ".depth", () -> 4.5).tag("host", "a").register(registry);
        Timer.builder(prefix + ".wait").register(registry).record(250, TimeUnit.MILLISECONDS);
        DistributionSummary.builder(prefix + ".size").tag("host", "a").register(registry).record(1e6);
        clock.add(config.step());
        registry.close();
    }
}
