//! Exemplars and metadata of the first Prometheus are in the store after a kill and a restart.
//!
//! Remote read carries neither. So the test opens the store itself once the server has ended: the
//! part files, or the keyspace without the log in front of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use promkairos::model::{Labels, TimeRange};
use promkairos::storage::SharedStore;
use promkairos::storage::embedded::{self, Parts};
use promkairos::telemetry::{CassandraMetrics, StoreMetrics};
use serde_json::Value;

use super::{metric_values, seconds};
use crate::support::prometheus::Prometheus;
use crate::support::promkairos::{Backend, Message, Promkairos, WHOLE_FLUSH};
use crate::support::remote_read::LabelMap;
use crate::support::{self, eventually};

/// Bits of the values by time and labels of the exemplar, for each series.
type Exemplars = BTreeMap<LabelMap, BTreeMap<(i64, LabelMap), u64>>;
/// Type, help and unit by family. Targets may disagree.
pub(super) type Families = BTreeMap<String, BTreeSet<[String; 3]>>;

/// Suffixes of series names that the names of their families do not have.
const SUFFIXES: &[&str] = &["_total", "_bucket", "_sum", "_count"];

/// Series that Prometheus makes of its scrapes. 2.0 sends their metadata; its API omits it.
const OF_SCRAPES: &[&str] = &[
    "up",
    "scrape_duration_seconds",
    "scrape_samples_scraped",
    "scrape_samples_post_metric_relabeling",
    "scrape_series_added",
];

/// The exemplars, metadata and names that a Prometheus has of the range.
pub(super) struct Known {
    exemplars: Exemplars,
    families: Families,
    /// Names of all its series.
    names: BTreeSet<String>,
}

impl Known {
    /// Asks a Prometheus. It returns metadata only of targets that answer, so `before` has more.
    pub(super) async fn of(
        prometheus: &Prometheus,
        start: i64,
        end: i64,
        before: Families,
    ) -> Self {
        let range = [("start", seconds(start)), ("end", seconds(end))];
        let mut parameters = vec![("query", "{__name__=~\".+\"}")];
        parameters.extend(range.iter().map(|(name, value)| (*name, value.as_str())));
        let answer = prometheus.api("/api/v1/query_exemplars", &parameters).await;
        let answer = answer.expect("it answers");
        let mut exemplars = Exemplars::new();
        for series in answer["data"].as_array().expect("a list") {
            let own = exemplars.entry(label_map(&series["seriesLabels"])).or_default();
            for exemplar in series["exemplars"].as_array().expect("a list") {
                let time = exemplar["timestamp"].as_f64().expect("seconds") * 1000.0;
                let value: f64 = text(&exemplar["value"]).parse().expect("a number");
                own.insert((time.round() as i64, label_map(&exemplar["labels"])), value.to_bits());
            }
        }
        for name in ["requests_total", "latency_seconds_bucket", "native_integer"] {
            let some = exemplars.keys().any(|series| series["__name__"] == name);
            assert!(some, "the first Prometheus has no exemplar of {name}");
        }
        let mut known = families(prometheus).await;
        for (name, entries) in before {
            known.entry(name).or_default().extend(entries);
        }
        let names = prometheus.api("/api/v1/label/__name__/values", &[]).await;
        let names = names.expect("it answers");
        let names = names["data"].as_array().expect("a list").iter().map(text).collect();
        Self { exemplars, families: known, names }
    }

    /// The exemplars that are sent with this message: see `CUSTOM_BOUNDS_QUERIES`.
    fn sent_exemplars(&self, message: Message) -> Exemplars {
        let mut sent = self.exemplars.clone();
        if message == Message::V1 {
            sent.retain(|series, _| {
                series["__name__"] != "latency_seconds" || series["job"] != "custom"
            });
        }
        sent
    }

    /// The metadata that is sent with this message. 1.0 sends it by family, 2.0 by series; the family follows from
    /// the name and the type of the series.
    fn sent_metadata(&self, message: Message) -> Families {
        match message {
            Message::V1 => self.families.clone(),
            Message::V2 => {
                let family = |name: &String| {
                    let is_part = |shorter: &&str| self.families.contains_key(*shorter);
                    let parts = ["_bucket", "_sum", "_count"];
                    let mut shorter = parts.iter().filter_map(|part| name.strip_suffix(part));
                    let family = match self.families.contains_key(name) {
                        true => name,
                        false => shorter.find(is_part).unwrap_or(name),
                    };
                    (family.to_owned(), self.entries_of(name))
                };
                let all = self.names.iter().map(family);
                all.filter(|(_, entries)| !entries.is_empty()).collect()
            }
        }
    }

    /// The metadata that targets give for the family of a series. Targets name the family of a
    /// counter differently: with `_total` in Prometheus' text format, without it in OpenMetrics.
    fn entries_of(&self, series: &str) -> BTreeSet<[String; 3]> {
        let shorter = SUFFIXES.iter().filter_map(|suffix| series.strip_suffix(suffix));
        let names = std::iter::once(series).chain(shorter);
        names.filter_map(|name| self.families.get(name)).flatten().cloned().collect()
    }
}

/// The metadata of families that a Prometheus has from its targets.
pub(super) async fn families(prometheus: &Prometheus) -> Families {
    let answer = prometheus.api("/api/v1/metadata", &[]).await.expect("it answers");
    let families = answer["data"].as_object().expect("families");
    let entries = |entries: &Value| {
        let entries = entries.as_array().expect("a list").iter();
        entries.map(|one| ["type", "help", "unit"].map(|key| text(&one[key]))).collect()
    };
    families.iter().map(|(name, all)| (name.clone(), entries(all))).collect()
}

/// Waits until a Prometheus that no longer scrapes has sent all its samples.
pub(super) async fn everything_sent(prometheus: &Prometheus) {
    eventually("everything is sent", async || {
        let (_, page) = prometheus.get("/metrics").await.map_err(|error| error.to_string())?;
        let sum = |name: &str| metric_values(&page, name).into_iter().sum::<f64>();
        let kept = sum("prometheus_tsdb_exemplar_exemplars_appended_total");
        let sent = sum("prometheus_remote_storage_exemplars_total")
            + sum("prometheus_remote_storage_exemplars_dropped_total");
        let pending = ["samples", "exemplars", "histograms"]
            .map(|kind| sum(&format!("prometheus_remote_storage_{kind}_pending")));
        // Each sample goes to both servers.
        let done = sent >= 2.0 * kept && pending == [0.0; 3];
        done.then_some(()).ok_or_else(|| format!("{sent} of twice {kept}, {pending:?} wait"))
    })
    .await;
}

/// Kills the server, lets another one replay its log and end in order, and reads the store.
pub(super) async fn same_in_the_store(
    mut server: Promkairos,
    data: &Path,
    backend: &Backend,
    message: Message,
    (known, range): (&Known, TimeRange),
) {
    server.process.kill();
    let mut again = Promkairos::ready(data, backend, &[WHOLE_FLUSH]).await;
    assert!(again.process.terminate().success(), "{}", again.process.log());
    let store = open(data, backend).await;

    let mut found = Exemplars::new();
    for (series, exemplars) in store.exemplars(&[], range, usize::MAX).await.expect("it answers") {
        let own = found.entry(labels(&series)).or_default();
        for one in exemplars {
            own.insert((one.timestamp, labels(&one.labels)), one.value.to_bits());
        }
    }
    let sent = known.sent_exemplars(message);
    for (series, exemplars) in &sent {
        assert_eq!(found.get(series), Some(exemplars), "{}: {series:?}", message.name());
    }
    let more: Vec<_> = found.keys().filter(|series| !sent.contains_key(*series)).collect();
    assert!(more.is_empty(), "{}: {more:?}", message.name());

    let found: BTreeMap<_, _> =
        store.metadata(None, usize::MAX).await.expect("it answers").into_iter().collect();
    let sent = known.sent_metadata(message);
    let is_more = |name: &str| {
        !(sent.contains_key(name) || message == Message::V2 && OF_SCRAPES.contains(&name))
    };
    let more: Vec<_> = found.iter().filter(|(name, _)| is_more(name)).collect();
    assert!(more.is_empty(), "{}: {more:?}", message.name());
    for (name, entries) in &sent {
        let one = found.get(name).unwrap_or_else(|| panic!("{}: no {name}", message.name()));
        let one = [one.kind.as_str().to_owned(), one.help.clone(), one.unit.clone()];
        assert!(entries.contains(&one), "{}: {name} is {one:?}, not {entries:?}", message.name());
    }
    store.close().await.expect("it closes");
}

/// The store behind a server that has ended.
async fn open(data: &Path, backend: &Backend) -> SharedStore {
    match backend {
        Backend::Embedded => {
            let folder = data.join("embedded/parts");
            let metrics = StoreMetrics::default();
            let parts = tokio::task::spawn_blocking(move || {
                Parts::open(&folder, embedded::Options::default(), metrics)
            });
            Arc::new(parts.await.expect("it does not panic").expect("the store opens"))
        }
        Backend::CassandraStore { address, keyspace }
        | Backend::CassandraWal { address, keyspace } => {
            let options = support::cassandra::options(address.clone(), keyspace);
            Arc::new(support::cassandra::open(options, &CassandraMetrics::default()).await)
        }
    }
}

fn labels(labels: &Labels) -> LabelMap {
    labels.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn label_map(object: &Value) -> LabelMap {
    let object = object.as_object().expect("labels");
    object.iter().map(|(name, value)| (name.clone(), text(value))).collect()
}

fn text(value: &Value) -> String {
    value.as_str().expect("a string").to_owned()
}
