//! A keyspace of one test, with a store and plain CQL on it.

use std::collections::BTreeMap;

use promkairos::kairos::{DataType, RowKey, RowTime, Tags};
use promkairos::model::{
    ExemplarEntry, Histogram, HistogramSample, Labels, METRIC_NAME, MatchOp, Matcher, Point,
    RawLabels, Sample, SeriesEntry, TimeRange, Value, WriteBatch, WriteOutcome,
};
use promkairos::storage::cassandra::{CassandraStore, Options};
use promkairos::storage::{SelectHints, Store, StoreError};
use promkairos::telemetry::CassandraMetrics;
use scylla::client::session::Session;
use scylla::serialize::row::SerializeRow;

use crate::support;

/// A keyspace that no other test has.
pub(crate) struct TestKeyspace {
    pub(crate) name: String,
    pub(crate) session: Session,
}

impl TestKeyspace {
    /// A new name and a session; the keyspace is not created yet.
    pub(crate) async fn new() -> Self {
        Self::named(support::keyspace()).await
    }

    /// A keyspace with a given name, as in the settings of a server.
    pub(crate) async fn named(name: String) -> Self {
        let session = support::cassandra::session(&support::cassandra()).await;
        Self { name, session }
    }

    /// Like [`TestKeyspace::new`], with the keyspace created by CQL.
    pub(crate) async fn by_hand() -> Self {
        let new = Self::new().await;
        let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
        new.cql(&format!("CREATE KEYSPACE {} WITH REPLICATION = {replication}", new.name)).await;
        new
    }

    pub(crate) fn options(&self) -> Options {
        support::cassandra::options(support::cassandra(), &self.name)
    }

    pub(crate) async fn open(&self) -> CassandraStore {
        self.open_with(self.options()).await
    }

    /// Opens the store with these options, which must succeed.
    pub(crate) async fn open_with(&self, options: Options) -> CassandraStore {
        support::cassandra::open(options, &CassandraMetrics::default()).await
    }

    pub(crate) async fn try_open(&self, options: Options) -> Result<CassandraStore, StoreError> {
        CassandraStore::open(options, CassandraMetrics::default()).await
    }

    /// Runs a statement in which `{k}` stands for the keyspace.
    pub(crate) async fn cql(&self, cql: &str) {
        self.cql_with(cql, ()).await;
    }

    pub(crate) async fn cql_with(&self, cql: &str, values: impl SerializeRow) {
        let cql = cql.replace("{k}", &self.name);
        let result = self.session.query_unpaged(cql.as_str(), values).await;
        result.unwrap_or_else(|error| panic!("{cql}: {error}"));
    }

    /// The rows of a SELECT.
    pub(crate) async fn rows<R>(&self, cql: &str) -> Vec<R>
    where
        R: for<'f, 'm> scylla::deserialize::row::DeserializeRow<'f, 'm>,
    {
        let cql = cql.replace("{k}", &self.name);
        let result = self.session.query_unpaged(cql.as_str(), ()).await;
        let result = result.unwrap_or_else(|error| panic!("{cql}: {error}"));
        let rows = result.into_rows_result().expect("a SELECT");
        rows.rows::<R>().expect("the type of the rows").map(|row| row.expect("a row")).collect()
    }

    /// All rows of `data_points` as hex: key, column1, value; sorted.
    pub(crate) async fn data_points(&self) -> Vec<(String, String, String)> {
        type Row = (Vec<u8>, Vec<u8>, Vec<u8>);
        let rows: Vec<Row> = self.rows("SELECT key, column1, value FROM {k}.data_points").await;
        let mut rows: Vec<_> =
            rows.iter().map(|(key, column, value)| (hex(key), hex(column), hex(value))).collect();
        rows.sort();
        rows
    }

    /// The number of rows of each table, for messages of failures.
    pub(crate) async fn counts(&self) -> BTreeMap<String, i64> {
        let cql = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{k}'";
        let mut counts = BTreeMap::new();
        for (table,) in self.rows::<(String,)>(cql).await {
            let count = self.rows::<(i64,)>(&format!("SELECT COUNT(*) FROM {{k}}.{table}")).await;
            counts.insert(table, count[0].0);
        }
        counts
    }

    pub(crate) async fn drop(self) {
        self.cql("DROP KEYSPACE {k}").await;
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn labels(pairs: &[(&str, &str)]) -> Labels {
    Labels::from_pairs(pairs.iter().copied()).expect("valid labels")
}

/// The key of a row of data.
pub(crate) fn key(series: &Labels, row_time: i64, data_type: DataType) -> Vec<u8> {
    let row_time = RowTime::from_stored(row_time);
    let tags = Tags::from_labels(series.as_ref());
    let metric = series.get(METRIC_NAME).into();
    RowKey { metric, row_time, data_type, tags }.encode().expect("a key")
}

/// A batch under construction that owns its bytes.
#[derive(Default)]
pub(crate) struct Request {
    series: Vec<OwnedSeries>,
}

/// Labels and points of one series.
type OwnedSeries = (Vec<u8>, Vec<Sample>, Vec<HistogramSample>, Vec<OwnedExemplar>);

pub(crate) struct OwnedExemplar {
    pub(crate) labels: Vec<u8>,
    pub(crate) value: f64,
    pub(crate) timestamp: i64,
}

impl Request {
    pub(crate) fn floats(mut self, series: &Labels, points: &[(i64, f64)]) -> Self {
        let sample =
            |&(timestamp, value): &(i64, f64)| Sample { timestamp, start_timestamp: 0, value };
        let samples = points.iter().map(sample).collect();
        self.series.push((series.as_bytes().to_vec(), samples, vec![], vec![]));
        self
    }

    pub(crate) fn histogram(mut self, series: &Labels, timestamp: i64, h: Histogram) -> Self {
        let sample = HistogramSample { timestamp, start_timestamp: 0, histogram: h };
        self.series.push((series.as_bytes().to_vec(), vec![], vec![sample], vec![]));
        self
    }

    pub(crate) fn exemplar(mut self, series: &Labels, exemplar: OwnedExemplar) -> Self {
        self.series.push((series.as_bytes().to_vec(), vec![], vec![], vec![exemplar]));
        self
    }

    pub(crate) fn batch(&self) -> WriteBatch<'_> {
        let mut batch = WriteBatch::default();
        for (index, (labels, samples, histograms, exemplars)) in self.series.iter().enumerate() {
            let at = |len: usize, more: usize| len as u32..(len + more) as u32;
            batch.series.push(SeriesEntry {
                labels: RawLabels(labels),
                index: index as u32,
                samples: at(batch.samples.len(), samples.len()),
                histograms: at(batch.histograms.len(), histograms.len()),
                exemplars: at(batch.exemplars.len(), exemplars.len()),
            });
            batch.samples.extend_from_slice(samples);
            batch.histograms.extend_from_slice(histograms);
            batch.exemplars.extend(exemplars.iter().map(|exemplar| ExemplarEntry {
                labels: RawLabels(&exemplar.labels),
                value: exemplar.value,
                timestamp: exemplar.timestamp,
            }));
        }
        batch
    }

    pub(crate) async fn write(&self, store: &dyn Store) -> WriteOutcome {
        store.write(self.batch()).await.expect("the write is accepted")
    }
}

pub(crate) fn named(metric: &str) -> Vec<Matcher> {
    vec![Matcher::equal(METRIC_NAME, metric)]
}

pub(crate) fn matcher(name: &str, op: MatchOp, value: &str) -> Matcher {
    Matcher::new(op, name, value).expect("a valid pattern")
}

/// All points in the range by series; series without points are left out.
pub(crate) async fn read(
    store: &dyn Store,
    matchers: &[Matcher],
    range: TimeRange,
) -> BTreeMap<Labels, Vec<Point>> {
    let selection = store.select(matchers, range, &SelectHints::default()).await;
    let selection = selection.expect("the selection works");
    assert!(selection.series.is_sorted_by(|a, b| a < b), "sorted and unique");
    let chunks = selection.reader.read(0..selection.series.len()).await.expect("points");
    let mut all = BTreeMap::new();
    for (labels, chunks) in selection.series.into_iter().zip(chunks) {
        let mut points: Vec<Point> = Vec::new();
        for chunk in &chunks {
            points.extend(chunk.points().map(|point| point.expect("a sound chunk")));
        }
        assert!(points.is_sorted_by(|a, b| a.timestamp < b.timestamp), "{labels}");
        points.retain(|point| range.contains(point.timestamp));
        if !points.is_empty() {
            all.insert(labels, points);
        }
    }
    all
}

/// Floats of one series as time and bits.
pub(crate) fn bits(points: &[Point]) -> Vec<(i64, u64)> {
    points
        .iter()
        .map(|point| match &point.value {
            Value::Float(value) => (point.timestamp, value.to_bits()),
            Value::Histogram(_) => panic!("a histogram at {}", point.timestamp),
        })
        .collect()
}
