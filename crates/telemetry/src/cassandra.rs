//! Metrics of the statements sent to Cassandra.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::LimitMetrics;
use super::group::{Labels, label_values, metrics};

label_values! {
    /// How a statement ended.
    pub enum StatementOutcome {
        /// Done.
        Ok = "ok",
        /// Failed, and tried again.
        Retried = "retried",
        /// Failed because of a timeout, or because no server was available.
        Unavailable = "unavailable",
        /// Refused by the server for good.
        Refused = "refused",
        /// A read that the server gave up; it may succeed in slices.
        GivenUp = "given_up",
        /// Failed in another way.
        Failed = "failed",
    }
}

metrics! {
    /// Metrics of the statements sent to Cassandra.
    CassandraMetrics {
        statements: Family<Labels<2>, Counter>, "statements", "Attempts of statements by outcome";
        latency: Family<Labels<1>, Histogram, fn() -> Histogram> = Family::new_with_constructor(latency_buckets),
            "statement_duration" Seconds, "Time of one attempt";
        skipped: Family<Labels<1>, Counter>, "skipped", "Rows that a read left out, by reason";
        series_cached: Family<[(&'static str, String); 1], Gauge>, "series_cached",
            "Series of windows in memory, by the type of their data";
        tag_index_tags: Family<Labels<1>, Gauge>, "tag_index_tags",
            "Indexed tags of metrics, by the state of their index";
        pub rows_written: Counter, "rows_written", "Rows written to data_points";
        pub rows_read: Counter, "rows_read", "Rows read from data_points";
        pub reads_given_up: Counter, "reads_given_up",
            "Reads that a server gave up, as a rule for what was deleted or has expired on their way";
        pub reads_unread: Counter, "reads_unread",
            "Reads that failed because a server gave up even their smallest slices";
        pub tombstone_warnings: Counter, "tombstone_warnings",
            "Warnings of servers of reads that pass over more dead cells than tombstone_warn_threshold";
        pub floored: Counter, "floored",
            "Points that lost the digits below a second, as the keyspace counts seconds";
        pub index_rows_written: Counter, "index_rows_written", "Index rows written";
        pub index_rows_ahead: Counter, "index_rows_ahead",
            "Rows of row_keys written before their window began";
        pub tag_index_gaps: Counter, "tag_index_gaps",
            "Tags of windows in which the tag index turned out to miss series";
        pub series_cache_reads: Counter, "series_cache_reads",
            "Partitions of row_keys read into memory";
        pub series_cache_hits: Counter, "series_cache_hits",
            "Partitions of row_keys that were in memory and good";
        pub label_answer_hits: Counter, "label_answer_hits",
            "Requests for label names or values that were answered as not long before";
        /// Each point counts once.
        pub quarantined: Counter, "quarantined",
            "Points of flushes that Cassandra refused for good";
        pub open_refused: Counter, "open_refused",
            "Attempts to open the store that Cassandra refused, by login or keyspace";
        pub read_cache_hits: Counter, "read_cache_hits",
            "Reads of a series in a window whose settled part was wholly in the read cache";
        pub read_cache_misses: Counter, "read_cache_misses",
            "Reads of a series in a window whose settled part was not wholly in the read cache";
        pub read_cache_evictions: Counter, "read_cache_evictions",
            "Files of the read cache that made room for others";
        pub read_cache_damaged: Counter, "read_cache_damaged",
            "Frames of the read cache that were damaged";
        pub read_cache_entries: Gauge, "read_cache_entries", "Ranges of series in the read cache";
        pub read_cache_bytes: Gauge, "read_cache" Bytes, "Bytes of the files of the read cache";
        pub in_flight: Gauge, "in_flight", "Statements in flight";
        pub write_concurrency: Gauge, "write_concurrency",
            "Writes of points that may be in flight at once, as the servers keep up with them";
        pub windows_cached: Gauge, "windows_cached", "Windows with something in memory";
        pub index_rows_remembered: Gauge, "index_rows_remembered",
            "Index rows remembered as written";
        /// Absent before Cassandra is asked for the first time.
        reachable: Family<Labels<0>, Gauge>, "reachable",
            "Whether Cassandra answered when it was asked last, to be opened or for a statement";
        clock_skew: Gauge<f64, AtomicU64>, "clock_skew" Seconds,
            "Our clock minus the coordinator's";
        pub series_cache_bytes: Gauge, "series_cache" Bytes, "Bytes of series in memory, about";
    }
    with {
        /// Counts statements that get no permit in time.
        pub limits: LimitMetrics,
    }
}

fn latency_buckets() -> Histogram {
    Histogram::new([0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0])
}

impl CassandraMetrics {
    pub(super) fn register(registry: &mut Registry, limits: LimitMetrics) -> Self {
        let registry = registry.sub_registry_with_prefix("cassandra");
        Self { limits, ..Self::default() }.registered(registry)
    }

    /// Metrics for another cluster. Both share the counters; gauges of one cluster (its clock, its
    /// data in memory) do not show the other one.
    pub fn of_other_cluster(&self) -> Self {
        Self {
            write_concurrency: Gauge::default(),
            index_rows_remembered: Gauge::default(),
            series_cache_bytes: Gauge::default(),
            series_cached: Family::default(),
            tag_index_tags: Family::default(),
            windows_cached: Gauge::default(),
            read_cache_entries: Gauge::default(),
            read_cache_bytes: Gauge::default(),
            reachable: Family::default(),
            clock_skew: Gauge::default(),
            ..self.clone()
        }
    }

    /// Counts an attempt of `statement` and its time. The first attempt creates all outcomes, so
    /// that the first failure of a statement shows as an increase.
    pub fn attempt(&self, statement: &'static str, outcome: StatementOutcome, took: Duration) {
        let kind = [("statement", statement)];
        let attempt = |outcome: &'static str| [("statement", statement), ("outcome", outcome)];
        if self.latency.get(&kind).is_none() {
            for outcome in StatementOutcome::VALUES {
                drop(self.statements.get_or_create(&attempt(outcome)));
            }
        }
        match outcome {
            StatementOutcome::Ok | StatementOutcome::Refused | StatementOutcome::GivenUp => {
                self.answered();
            }
            StatementOutcome::Unavailable => self.unanswered(),
            StatementOutcome::Retried | StatementOutcome::Failed => {}
        }
        self.statements.get_or_create(&attempt(outcome.value())).inc();
        self.latency.get_or_create(&kind).observe(took.as_secs_f64());
    }

    /// Counts warnings that a read passed over more cells than `tombstone_warn_threshold`.
    pub fn count_warnings<'a>(&self, warnings: impl Iterator<Item = &'a str>) {
        let of_tombstones = warnings.filter(|warning| warning.contains("tombstone"));
        self.tombstone_warnings.inc_by(of_tombstones.count() as u64);
    }

    /// Notes that Cassandra has answered, whatever the answer.
    pub fn answered(&self) {
        self.reachable.get_or_create(&[]).set(1);
    }

    /// Notes that Cassandra has not answered, or not with enough replicas.
    pub fn unanswered(&self) {
        self.reachable.get_or_create(&[]).set(0);
    }

    /// The gauge of series of windows in memory with data of this type.
    pub fn series_cached(&self, data_type: &str) -> Gauge {
        self.series_cached.get_or_create_owned(&[("data_type", data_type.to_owned())])
    }

    /// The gauge of indexed tags whose index is in this state.
    pub fn tag_index_tags(&self, state: &'static str) -> Gauge {
        self.tag_index_tags.get_or_create_owned(&[("state", state)])
    }

    /// Sets the difference of our clock minus the coordinator's.
    pub fn set_clock_skew(&self, milliseconds: i64) {
        self.clock_skew.set(milliseconds as f64 / 1_000.0);
    }

    /// Counts rows that were left out of a read.
    pub fn skip(&self, reason: &'static str, rows: u64) {
        self.skipped.get_or_create(&[("reason", reason)]).inc_by(rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metrics;

    #[test]
    fn who_was_never_asked_is_neither_there_nor_away() {
        let metrics = Metrics::new();
        let shown = || {
            let text = metrics.encode();
            let value = text
                .lines()
                .find_map(|line| line.strip_prefix("promkairos_cassandra_reachable{} "));
            value.map(str::to_owned)
        };
        let ask = |outcome| metrics.cassandra.attempt("insert_point", outcome, Duration::ZERO);
        assert_eq!(shown(), None);
        metrics.cassandra.unanswered();
        assert_eq!(shown().as_deref(), Some("0"));
        for (outcome, want) in [
            (StatementOutcome::Ok, "1"),
            (StatementOutcome::Retried, "1"),
            (StatementOutcome::Unavailable, "0"),
            (StatementOutcome::Retried, "0"),
            (StatementOutcome::Failed, "0"),
            (StatementOutcome::Refused, "1"),
        ] {
            ask(outcome);
            assert_eq!(shown().as_deref(), Some(want), "{outcome:?}");
        }
        // The metrics of another cluster do not change this one.
        metrics.cassandra.of_other_cluster().unanswered();
        assert_eq!(shown().as_deref(), Some("1"));
    }

    #[test]
    fn a_statement_has_all_its_outcomes_from_its_first_attempt_on() {
        let metrics = Metrics::new();
        let lines = || {
            let text = metrics.encode();
            let family = "promkairos_cassandra_statements_total{statement=\"insert_point\",";
            let of_it = text.lines().filter_map(|line| line.strip_prefix(family));
            of_it.map(str::to_owned).collect::<std::collections::BTreeSet<_>>()
        };
        assert!(lines().is_empty());
        for count in 1..3 {
            metrics.cassandra.attempt("insert_point", StatementOutcome::Ok, Duration::ZERO);
            let line = |outcome, count| format!("outcome=\"{outcome}\"}} {count}");
            let failed = ["failed", "given_up", "refused", "retried", "unavailable"];
            let mut want: std::collections::BTreeSet<_> =
                failed.map(|outcome| line(outcome, 0)).into();
            want.insert(line("ok", count));
            assert_eq!(lines(), want);
        }
    }
}
