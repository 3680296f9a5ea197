//! The program's own log, on stderr: each event is one line, whatever its text. Spans are only for
//! traces and are not in the log.

use std::fmt::Debug;
use std::io::{self, Write};

use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::filter::{FilterExt, LevelFilter, Targets, filter_fn};
use tracing_subscriber::layer::{Context, Filter, Layer, SubscriberExt};
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;

use super::traces::{OURS, Traces, is_span_of_ours};
use promkairos_model::Printable;

/// Settings of the program's own log.
#[derive(Debug, Clone)]
pub struct LogConfig {
    /// Its format.
    pub format: LogFormat,
    /// A level, or a filter as `tracing` writes it.
    pub filter: String,
}

/// Format of the program's own log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// The filter of the log, which can be changed later.
pub struct LogFilter(Handle<Targets, Registry>);

impl LogFilter {
    /// Applies the filter of this configuration; the format stays.
    pub fn set(&self, config: &LogConfig) {
        // Fails only when the log is gone.
        let _ = self.0.reload(targets(config));
    }
}

/// A filter that is only a level applies to this program. Libraries log at most at `info`, since
/// they write many lines for each request.
fn targets(config: &LogConfig) -> Targets {
    if let Ok(level) = config.filter.parse::<LevelFilter>() {
        let libraries = level.min(LevelFilter::INFO);
        return Targets::new().with_default(libraries).with_target(OURS, level);
    }
    // The configuration has checked the filter; `info` is for a caller that has not.
    let given: Result<Targets, _> = config.filter.parse();
    let given = given.unwrap_or_else(|_| Targets::new().with_default(LevelFilter::INFO));
    let of_crates: Vec<(String, LevelFilter)> = given
        .iter()
        .flat_map(|(target, level)| {
            targets_of_crates(target).into_iter().map(move |target| (target, level))
        })
        .collect();
    given.with_targets(of_crates)
}

/// The parts of the program that are crates: in a filter they are modules of it. The first that fits holds. A target
/// of `tracing` is a beginning, so `storage` means the crates of the stores too.
const CRATES: [(&str, &[&str]); 13] = [
    ("storage::cassandra", &["promkairos_storage_cassandra"]),
    ("storage::embedded", &["promkairos_storage_embedded::parts"]),
    ("storage::head", &["promkairos_storage_embedded::head"]),
    ("storage", &["promkairos_storage"]),
    ("promql", &["promkairos_promql"]),
    ("ingest", &["promkairos_ingest"]),
    ("api::remote_write", &["promkairos_api::remote_write", "promkairos_ingest"]),
    ("api", &["promkairos_api", "promkairos_ingest"]),
    ("telemetry", &["promkairos_telemetry"]),
    ("chunk", &["promkairos_chunk"]),
    ("kairos", &["promkairos_kairos"]),
    ("model", &["promkairos_model"]),
    ("wire", &["promkairos_wire"]),
];

/// What the events of a part of the program are marked with, where the part is one crate or several.
fn targets_of_crates(target: &str) -> Vec<String> {
    let module = target.strip_prefix(OURS).and_then(|rest| rest.strip_prefix("::"));
    let found = module.and_then(|module| {
        CRATES.iter().find_map(|(part, names)| {
            let below = module.strip_prefix(part)?;
            (below.is_empty() || below.starts_with("::")).then_some((names, below))
        })
    });
    let Some((names, below)) = found else { return Vec::new() };
    names.iter().map(|name| format!("{name}{below}")).collect()
}

/// Starts the log of the process, and the spans of these traces. A second call changes nothing.
pub fn start_log(config: &LogConfig, traces: &Traces) -> LogFilter {
    let (filter, handle) = reload::Layer::new(targets(config));
    let layer = tracing_subscriber::fmt::layer().with_writer(|| OneLine(io::stderr()));
    let layer = match config.format {
        LogFormat::Text => layer.with_ansi(false).boxed(),
        LogFormat::Json => layer.json().boxed(),
    };
    // Without the hint the level of the first filter would be ignored.
    let no_spans = filter_fn(|metadata| !is_span_of_ours(metadata));
    let no_spans = no_spans.with_max_level_hint(LevelFilter::TRACE);
    let layer = layer.with_filter(filter.and(NoKnownWarnings).and(no_spans));
    let log = tracing_subscriber::registry().with(layer);
    // Fails only when a log was started before.
    let _ = match traces.layer() {
        Some(spans) => log.with(spans).try_init(),
        None => log.try_init(),
    };
    LogFilter(handle)
}

/// Makes one line of an event, which is written in one piece. Characters that a terminal would act on, perhaps from a
/// received label, are escaped ([`Printable`]), in a form that is valid in JSON too.
struct OneLine<W>(W);

impl<W: Write> Write for OneLine<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = event.strip_suffix(b"\n").unwrap_or(event);
        let mut line = match std::str::from_utf8(text) {
            Ok(text) => Printable(text).to_string(),
            // An event is a string, so this does not happen; if it did, no byte could do harm.
            Err(_) => text.escape_ascii().to_string(),
        };
        line.extend(event[text.len()..].iter().map(|end| char::from(*end)));
        // One write, so that lines of two threads do not mix.
        self.0.write_all(line.as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Leaves out three warnings of Cassandra, which the driver logs for each of our batches or reads: that an unlogged
/// batch covers more than ten partitions, and that it is larger than 5 KiB, which matter only for batches whose
/// partitions are on different nodes, while our batches share their replicas; and how many tombstones a read passed
/// over, which is counted (`promkairos_cassandra_tombstone_warnings_total`).
struct NoKnownWarnings;

impl<S: Subscriber> Filter<S> for NoKnownWarnings {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    /// Without it the level of the other filter would be ignored.
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        if !event.metadata().target().starts_with("scylla") {
            return true;
        }
        let mut found = IsKnownWarning(false);
        event.record(&mut found);
        !found.0
    }
}

struct IsKnownWarning(bool);

impl Visit for IsKnownWarning {
    fn record_str(&mut self, field: &Field, value: &str) {
        let of_batches = ["Unlogged batch covering ", "Batch for ["];
        let is_of_batch = of_batches.iter().any(|w| value.starts_with(w));
        let is_of_read = value.starts_with("Read ") && value.contains(" tombstone");
        self.0 |= field.name() == "warning" && (is_of_batch || is_of_read);
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn a_part_that_is_a_crate_is_named_as_a_module() {
        let filter = "info,promkairos::storage=debug,promkairos::storage::head::wal=trace";
        let filter = LogConfig { filter: filter.to_owned(), format: LogFormat::Text };
        let filter = targets(&filter);
        for (target, level) in [
            ("promkairos_storage::disk", Level::DEBUG),
            ("promkairos_storage_cassandra::doctor", Level::DEBUG),
            ("promkairos_storage_embedded::head", Level::DEBUG),
            ("promkairos_storage_embedded::head::wal::log", Level::TRACE),
            ("promkairos::api", Level::INFO),
            ("promkairos_promql", Level::INFO),
        ] {
            assert!(filter.would_enable(target, &level), "{target}");
            let more = match level {
                Level::INFO => Level::DEBUG,
                Level::DEBUG => Level::TRACE,
                _ => continue,
            };
            assert!(!filter.would_enable(target, &more), "{target}");
        }
    }

    #[test]
    fn a_filter_of_the_api_covers_its_crate_and_ingest() {
        for (part, has_writes, has_queries) in
            [("api", true, true), ("api::remote_write", true, false), ("ingest", false, false)]
        {
            let filter = format!("info,promkairos::{part}=debug");
            let filter = targets(&LogConfig { filter, format: LogFormat::Text });
            for (target, want) in [
                ("promkairos_ingest::throttled_log", true),
                ("promkairos_api::remote_write::respond", has_writes),
                ("promkairos_api::query", has_queries),
            ] {
                assert_eq!(filter.would_enable(target, &Level::DEBUG), want, "{part}: {target}");
            }
        }
    }

    #[test]
    fn a_level_alone_is_that_of_this_program() {
        let enables = |filter: &str, target: &str, level: Level| {
            let (filter, format) = (filter.to_owned(), LogFormat::Text);
            targets(&LogConfig { filter, format }).would_enable(target, &level)
        };
        assert!(enables("debug", "promkairos::api", Level::DEBUG));
        assert!(!enables("debug", "promkairos::api", Level::TRACE));
        assert!(!enables("debug", "h2::codec", Level::DEBUG));
        assert!(enables("debug", "h2::codec", Level::INFO));
        assert!(!enables("error", "h2::codec", Level::WARN));
        assert!(!enables("off", "promkairos", Level::ERROR));
        assert!(enables("info,h2=debug", "h2::codec", Level::DEBUG));
        assert!(enables("warn,promkairos=debug", "promkairos::api", Level::DEBUG));
    }

    #[test]
    fn an_event_is_one_line() {
        let check = |event: &str, want: &str| {
            let mut written = Vec::new();
            OneLine(&mut written).write_all(event.as_bytes()).expect("room");
            assert_eq!(String::from_utf8(written).expect("UTF-8"), want);
        };
        check("INFO a b\n", "INFO a b\n");
        check("WARN a\nb\r\n\n", "WARN a\\nb\\r\\n\n");
        check("no end\nhere", "no end\\nhere");
        check("a\0b\u{1b}[31m\u{7f}\u{85}\n", "a\\u0000b\\u001b[31m\\u007f\\u0085\n");
        check("\u{202e}\u{2066}\u{2028}\u{61c} é ✓\n", "\\u202e\\u2066\\u2028\\u061c é ✓\n");
    }
}
