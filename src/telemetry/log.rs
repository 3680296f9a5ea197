//! The program's own log, on stderr. Spans are for traces; no line shows any.

use std::fmt::Debug;

use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::filter::{FilterExt, LevelFilter, Targets, filter_fn};
use tracing_subscriber::layer::{Context, Filter, Layer, SubscriberExt};
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;

use super::traces::{Traces, is_span_of_ours};
use crate::config::{LogConfig, LogFormat};

/// What is logged, for who changes it later.
pub struct LogFilter(Handle<Targets, Registry>);

impl LogFilter {
    /// Logs what this configuration wants, in the format of before.
    pub fn set(&self, config: &LogConfig) {
        // Fails only when the log is gone.
        let _ = self.0.reload(targets(config));
    }
}

fn targets(config: &LogConfig) -> Targets {
    // The configuration has checked the filter; `info` is for a caller that has not.
    config.filter.parse().unwrap_or_else(|_| Targets::new().with_default(LevelFilter::INFO))
}

/// Starts the log of the process, and beside it the spans of these traces. A second call changes
/// nothing.
pub fn start_log(config: &LogConfig, traces: &Traces) -> LogFilter {
    let (filter, handle) = reload::Layer::new(targets(config));
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let layer = match config.format {
        LogFormat::Text => layer.with_ansi(false).boxed(),
        LogFormat::Json => layer.json().boxed(),
    };
    // Without the hint the level of the first filter would be no bound.
    let no_spans = filter_fn(|metadata| !is_span_of_ours(metadata));
    let no_spans = no_spans.with_max_level_hint(LevelFilter::TRACE);
    let layer = layer.with_filter(filter.and(NoBatchWarnings).and(no_spans));
    let log = tracing_subscriber::registry().with(layer);
    // Fails only when a log was started before.
    let _ = match traces.layer() {
        Some(spans) => log.with(spans).try_init(),
        None => log.try_init(),
    };
    LogFilter(handle)
}

/// Leaves out two warnings of Cassandra's, which the driver logs for each batch of ours: that an
/// unlogged batch covers more than ten partitions, and that it is larger than 5 KiB. They are meant
/// for batches whose partitions live on different nodes; those of ours share their replicas.
struct NoBatchWarnings;

impl<S: Subscriber> Filter<S> for NoBatchWarnings {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    /// Without it the level of the other filter would be no bound.
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        if !event.metadata().target().starts_with("scylla") {
            return true;
        }
        let mut found = IsBatchWarning(false);
        event.record(&mut found);
        !found.0
    }
}

struct IsBatchWarning(bool);

impl Visit for IsBatchWarning {
    fn record_str(&mut self, field: &Field, value: &str) {
        let of_batches = ["Unlogged batch covering ", "Batch for ["];
        self.0 |= field.name() == "warning" && of_batches.iter().any(|w| value.starts_with(w));
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}
