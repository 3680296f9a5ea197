//! Writes the program's own metrics to its own store, so that there is data before the first sender connects.
//!
//! The samples look like those of a scraped target: labels `job` and `instance`, the metric `up`, and
//! metadata. The instance is host and port, so that several machines over one keyspace write separate series.
//! Samples that could not be stored are not retried: the next ones come soon.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::{MissedTickBehavior, interval};

use crate::model::{
    METRIC_NAME, MetadataEntry, MetricType, RawLabels, Sample, SeriesEntry, WriteBatch,
};
use crate::storage::{Clock, SharedStore};
use crate::telemetry::{Metrics, Throttle};

/// Between two writes of metadata; the interval of Prometheus.
const METADATA_INTERVAL: Duration = Duration::from_secs(60);

/// The label `instance` of a process that listens on this port.
pub(super) fn instance(port: u16) -> String {
    format!("{}:{port}", rustix::system::uname().nodename().to_string_lossy())
}

/// Writes one sample of each metric in each interval, until dropped.
pub(super) async fn run(
    metrics: Arc<Metrics>,
    store: SharedStore,
    every: Duration,
    instance: String,
) {
    let (clock, mut failures) = (Clock::default(), Throttle::default());
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut described: Option<Instant> = None;
    loop {
        ticks.tick().await;
        let text = metrics.encode() + UP;
        let series: Vec<(Vec<u8>, f64)> =
            text.lines().filter_map(|line| series_of(line, &instance)).collect();
        let mut batch = batch(&series, clock.now_ms());
        let is_due = described.is_none_or(|last| last.elapsed() >= METADATA_INTERVAL);
        if is_due {
            batch.metadata = metadata(&text);
        }
        match store.write(batch).await {
            Ok(_) if is_due => described = Some(Instant::now()),
            Ok(_) => {}
            Err(error) => {
                if let Some(times) = failures.count(1, Instant::now()) {
                    tracing::warn!(times, "own metrics were not stored: {error}");
                }
            }
        }
    }
}

/// The metric that a scrape adds.
const UP: &str = "up 1\n";

fn batch(series: &[(Vec<u8>, f64)], timestamp: i64) -> WriteBatch<'_> {
    let mut batch = WriteBatch::default();
    for (index, (labels, value)) in (0..).zip(series) {
        batch.series.push(SeriesEntry {
            labels: RawLabels(labels),
            index,
            samples: index..index + 1,
            histograms: 0..0,
            exemplars: 0..0,
        });
        batch.samples.push(Sample { timestamp, start_timestamp: 0, value: *value });
    }
    batch
}

/// The metadata in the comments of the text format.
fn metadata(text: &str) -> Vec<MetadataEntry<'_>> {
    let mut all: Vec<MetadataEntry<'_>> = Vec::new();
    for comment in text.lines().filter_map(|line| line.strip_prefix("# ")) {
        let mut words = comment.splitn(3, ' ');
        let (Some(what), Some(family), Some(said)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        if all.last().is_none_or(|entry| entry.family != family) {
            let kind = MetricType::Unknown;
            all.push(MetadataEntry { family, kind, help: "", unit: "" });
        }
        let entry = all.last_mut().expect("one was pushed");
        match what {
            "HELP" => entry.help = said,
            "TYPE" => {
                let mut kinds = (0..=7).map(MetricType::from_number);
                entry.kind = kinds.find(|kind| kind.as_str() == said).unwrap_or_default();
            }
            "UNIT" => entry.unit = said,
            _ => {}
        }
    }
    all
}

/// The labels and the value of a line of the text format, as `Metrics::encode` writes it; `None` for a comment.
fn series_of(line: &str, instance: &str) -> Option<(Vec<u8>, f64)> {
    if line.starts_with('#') {
        return None;
    }
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut raw = Vec::new();
    RawLabels::push(&mut raw, METRIC_NAME.as_bytes(), name.as_bytes());
    if let Some(labels) = rest.strip_prefix('{') {
        rest = labels;
        while !rest.starts_with('}') {
            let (label, quoted) = rest.trim_start_matches(',').split_once("=\"")?;
            let (value, behind) = unquoted(quoted)?;
            RawLabels::push(&mut raw, label.as_bytes(), value.as_bytes());
            rest = behind;
        }
        rest = rest.strip_prefix('}')?;
    }
    RawLabels::push(&mut raw, b"instance", instance.as_bytes());
    RawLabels::push(&mut raw, b"job", b"promkairos");
    let value = rest.strip_prefix(' ')?.split(' ').next()?;
    Some((raw, value.parse().ok()?))
}

/// The text up to the closing quote, and the rest.
fn unquoted(quoted: &str) -> Option<(String, &str)> {
    let mut text = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((text, &quoted[at + 1..])),
            '\\' => match characters.next()?.1 {
                'n' => text.push('\n'),
                other => text.push(other),
            },
            other => text.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn read(line: &str) -> Option<(String, f64)> {
        let (raw, value) = series_of(line, "here:1")?;
        Some((RawLabels(&raw).to_labels().expect("labels").to_string(), value))
    }

    #[test]
    fn lines_are_series() {
        assert_eq!(read("# TYPE a counter"), None);
        let own = r#"instance="here:1", job="promkairos""#;
        let want =
            |labels: &str, value| Some((format!("{{__name__=\"a_total\", {labels}}}"), value));
        assert_eq!(read("a_total 5"), want(own, 5.0));
        let labelled = format!(r#"code="200", {own}, path="a\"b\\c""#);
        assert_eq!(read(r#"a_total{path="a\"b\\c",code="200"} 1.5"#), want(&labelled, 1.5));
        assert_eq!(read("a_total +Inf"), want(own, f64::INFINITY));
        assert_eq!(read("a_total{"), None);
    }

    #[test]
    fn all_metrics_of_the_program_are_read() {
        let text = Metrics::new().encode();
        let (series, lines) = (
            text.lines().filter_map(|line| series_of(line, "i")).count(),
            text.lines().filter(|line| !line.starts_with('#')).count(),
        );
        assert!(series > 50 && series == lines, "{series} of {lines}");
    }

    #[test]
    fn each_family_of_the_program_is_described() {
        let text = Metrics::new().encode();
        let all = metadata(&text);
        let families: BTreeSet<&str> = all.iter().map(|entry| entry.family).collect();
        assert_eq!(families.len(), all.len(), "none is there twice");
        let described = |name: &str| all.iter().find(|entry| entry.family == name).copied();
        let ready = described("promkairos_ready").expect("it is there");
        assert_eq!((ready.kind, ready.unit), (MetricType::Gauge, ""));
        assert!(ready.help.starts_with("Whether what is written"), "{}", ready.help);
        let memory = described("promkairos_memory_limit_bytes").expect("it is there");
        assert_eq!((memory.kind, memory.unit), (MetricType::Gauge, "bytes"));
        let flushes = described("promkairos_head_flushes").expect("it is there");
        assert_eq!(flushes.kind, MetricType::Counter);
    }
}
