//! The pipeline that every protocol shares, as a small protocol of this test sees it: all limits and metrics hold for
//! it, though it is one parser and one renderer.

mod lines;

use std::sync::Arc;
use std::time::Duration;

use promkairos::ingest::{Intake, Pipeline, WriteLimits};
use promkairos::model::{LabelLimits, Matcher, TimeLimits, TimeRange};
use promkairos::storage::memory::MemoryStore;
use promkairos::storage::{Clock, Pressure, SelectHints, Store};
use promkairos::telemetry::Metrics;

use self::lines::{Lines, answer};

/// A pipeline over a memory store.
struct Server {
    pipeline: Pipeline,
    store: MemoryStore,
    metrics: Arc<Metrics>,
}

impl Server {
    fn new(limits: WriteLimits) -> Self {
        Self::within(limits, u64::MAX)
    }

    /// A process that may use `memory` bytes.
    fn within(limits: WriteLimits, memory: u64) -> Self {
        let metrics = Arc::new(Metrics::new());
        let pressure = Arc::new(Pressure::new(memory));
        pressure.note(1 << 20);
        let pipeline = Pipeline::new(metrics.clone()).within(Intake::default(), pressure);
        pipeline.set_limits(limits);
        Self { pipeline, store: MemoryStore::new(), metrics }
    }

    /// The answer to lines, each a series with a point that is `age` seconds old.
    async fn send(&self, lines: &[(&str, i64)]) -> String {
        let now = Clock::default().now_ms();
        let line = |(series, age): &(&str, i64)| format!("{series} 1.5 {}\n", now - 1000 * age);
        self.send_text(lines.iter().map(line).collect()).await
    }

    async fn send_text(&self, body: String) -> String {
        answer(&self.pipeline.write_bytes(&self.store, body.into(), &Lines).await)
    }

    /// The labels of all series in the store.
    async fn stored(&self) -> Vec<String> {
        let all = [Matcher::equal("job", "a")];
        let found = self.store.select(&all, TimeRange::ALL, &SelectHints::default()).await;
        found.expect("selected").series.iter().map(ToString::to_string).collect()
    }

    #[track_caller]
    fn has_metrics(&self, lines: &[&str]) {
        let text = self.metrics.encode();
        for line in lines {
            assert!(text.contains(&format!("\npromkairos_{line}\n")), "{line}");
        }
    }
}

#[test]
fn the_protocol_is_small() {
    assert!(include_str!("ingest/lines.rs").lines().count() <= 60);
}

#[tokio::test]
async fn lines_are_stored_and_counted() {
    let server = Server::new(WriteLimits::default());
    let lines = [("up{job=\"a\"}", 1), ("down{job=\"a\",az=\"b\"}", 2)];
    assert_eq!(server.send(&lines).await, "OK 2");
    let stored = ["{__name__=\"down\", az=\"b\", job=\"a\"}", "{__name__=\"up\", job=\"a\"}"];
    assert_eq!(server.stored().await, stored);
    server.has_metrics(&["write_samples_total 2", "active_series 2"]);
    let refused = server.send_text("up 1.5".to_owned()).await;
    assert_eq!(refused, "ERROR a line is not a series and a point");
    server.has_metrics(&["write_rejected_total{reason=\"body\"} 1"]);
}

#[tokio::test]
async fn requests_beyond_a_limit_are_refused_as_a_whole() {
    let usual = WriteLimits::default();
    let two = [("up{job=\"a\"}", 1), ("up{job=\"b\"}", 1)];
    let cases = [
        (
            WriteLimits { body_bytes: 40, ..usual },
            "ERROR body has more than 40 bytes, which is the setting max-request-body-size",
            "max-request-body-size",
        ),
        (
            WriteLimits { series_per_request: 1, ..usual },
            "ERROR 2 series in one request, and the setting max-series-per-request is 1",
            "max-series-per-request",
        ),
        (
            WriteLimits { samples_per_request: 1, ..usual },
            "ERROR 2 samples in one request, and the setting max-samples-per-request is 1",
            "max-samples-per-request",
        ),
    ];
    for (limits, want, setting) in cases {
        let server = Server::new(limits);
        assert_eq!(server.send(&two).await, want);
        assert!(server.stored().await.is_empty(), "{want}");
        server.has_metrics(&[
            &format!("write_rejected_total{{reason=\"{setting}\"}} 1"),
            &format!("limits_reached_total{{limit=\"{setting}\"}} 1"),
        ]);
    }
}

#[tokio::test]
async fn parts_beyond_a_limit_are_left_out() {
    let usual = WriteLimits::default();
    let hour = Some(Duration::from_secs(3_600));
    let cases = [
        (
            WriteLimits { active_series: Some(1), ..usual },
            ("up{job=\"b\"}", 1),
            "there are 1 active series, and the setting max-active-series is 1 for series \
             {__name__=\"up\", job=\"b\"}",
            "max-active-series",
        ),
        (
            WriteLimits { labels: LabelLimits { labels: 2, ..usual.labels }, ..usual },
            ("up{az=\"c\",job=\"b\"}", 1),
            "3 labels, and the setting max-labels-per-series is 2 for series \
             {__name__=\"up\", az=\"c\", job=\"b\"}",
            "max-labels-per-series",
        ),
        (
            WriteLimits { sample_times: TimeLimits { age: hour, ..usual.sample_times }, ..usual },
            ("up{job=\"a\"}", 7_200),
            "is more than 1h old, which is the setting max-sample-age",
            "max-sample-age",
        ),
    ];
    for (limits, beyond, want, setting) in cases {
        let server = Server::new(limits);
        let answered = server.send(&[("up{job=\"a\"}", 1), beyond]).await;
        assert!(answered.starts_with("PARTLY 1: ") && answered.contains(want), "{answered}");
        assert_eq!(server.stored().await.len(), 1, "{want}");
        server.has_metrics(&[
            "write_samples_total 1",
            &format!("write_rejected_total{{reason=\"{setting}\"}} 1"),
            &format!("write_samples_refused_total{{reason=\"{setting}\"}} 1"),
            &format!("limits_reached_total{{limit=\"{setting}\"}} 1"),
        ]);
    }
}

#[tokio::test]
async fn senders_come_again_where_memory_or_time_is_short() {
    let lines = [("up{job=\"a\"}", 1), ("up{job=\"b\"}", 1)];
    let slow = WriteLimits { samples_per_second: Some(1), ..WriteLimits::default() };
    let server = Server::new(slow);
    assert_eq!(server.send(&lines).await, "OK 2");
    let want = "RETRY more samples than the 1 a second of the setting max-samples-per-second";
    assert_eq!(server.send(&lines).await, want);
    server.has_metrics(&["write_samples_refused_total{reason=\"max-samples-per-second\"} 2"]);
    let full = Server::within(WriteLimits::default(), 1 << 20);
    let refused = full.send(&lines).await;
    assert!(refused.starts_with("RETRY ") && refused.contains("memory-limit"), "{refused}");
    assert!(full.stored().await.is_empty());
}
