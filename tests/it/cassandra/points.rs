//! Points of all kinds are written and read back, and the bytes of their rows.

use promkairos::kairos::DataType;
use promkairos::model::{
    Counts, Histogram, MatchOp, RawLabels, RejectReason, ResetHint, STALE_NAN_BITS, ShownSize,
    Span, Target, TimeRange, Value,
};
use promkairos::storage::{ListSize, SelectHints, SeriesQuery, Store, StoreError, chunk_bytes};

use super::keyspace::{
    OwnedExemplar, Request, TestKeyspace, bits, hex, key, labels, matcher, named, read,
};

const WIDTH: i64 = 1_814_400_000;

#[tokio::test]
async fn floats_keep_their_bits_and_stand_where_kairosdb_looks() {
    let keyspace = TestKeyspace::new().await;
    let store = keyspace.open().await;
    let up = labels(&[("__name__", "up"), ("instance", "h:9100"), ("job", "a=b")]);
    let special = f64::from_bits(0x7ff8_0000_dead_beef);
    let stale = f64::from_bits(STALE_NAN_BITS);
    let points = [
        (-5, 0.5),
        (0, -0.0),
        (1, special),
        (2, stale),
        (3, f64::INFINITY),
        (4, f64::NEG_INFINITY),
        (5, f64::MIN_POSITIVE),
        (WIDTH + 1, 2.0),
        (3 * WIDTH, f64::MAX),
    ];
    let outcome = Request::default().floats(&up, &points).write(&store).await;
    assert_eq!((outcome.samples, outcome.rejections.len()), (9, 0));
    let all = read(&store, &named("up"), TimeRange::ALL).await;
    assert_eq!(bits(&all[&up]), points.map(|(time, value)| (time, value.to_bits())));
    let part = read(&store, &named("up"), TimeRange::new(2, WIDTH + 1)).await;
    let want: Vec<_> = points[3..8].iter().map(|(time, value)| (*time, value.to_bits())).collect();
    assert_eq!(bits(&part[&up]), want);

    let mut rows = Vec::new();
    for (time, value) in points {
        let data_type = DataType::of_float(value);
        let row_time = time - time.abs() % WIDTH;
        let column = hex(&((time - row_time) as u32).to_be_bytes());
        let value = hex(&value.to_bits().to_be_bytes());
        rows.push((hex(&key(&up, row_time, data_type)), column, value));
    }
    rows.sort();
    assert_eq!(keyspace.data_points().await, rows);
    type Tags = std::collections::BTreeMap<String, String>;
    type Row = (String, String, i64, String, Tags, Option<String>);
    let cql = "SELECT metric, table_name, toUnixTimestamp(row_time), data_type, tags, value \
               FROM {k}.row_keys WHERE metric = 'up' AND table_name = 'prometheus' \
               AND row_time = 0";
    let index: Vec<Row> = keyspace.rows(cql).await;
    let tags = [("instance", "h:9100"), ("job", "a=b")];
    let tags = tags.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let want = ("up".into(), "prometheus".into(), 0, "prom_double".into(), tags, Some("".into()));
    assert_eq!(index, [want]);
    let mut names: Vec<(Vec<u8>, String, Vec<u8>)> =
        keyspace.rows("SELECT key, column1, value FROM {k}.string_index").await;
    names.sort();
    let name = |list: &str| (list.as_bytes().to_vec(), "up".to_owned(), vec![0]);
    assert_eq!(names, [name("metric_names"), name("prometheus_metric_names")]);
    let stamps: Vec<(i64,)> = keyspace.rows("SELECT WRITETIME(value) FROM {k}.data_points").await;
    assert!(stamps.iter().all(|(stamp,)| (1 << 40..1 << 42).contains(stamp)), "{stamps:?}");
    keyspace.drop().await;
}

fn histogram(counts: Counts, schema: i32, custom_values: Vec<f64>) -> Histogram {
    Histogram {
        schema,
        zero_threshold: if schema == -53 { 0.0 } else { 0.001 },
        sum: 12.5,
        reset_hint: ResetHint::Unknown,
        positive_spans: vec![Span { offset: 0, length: 2 }],
        negative_spans: vec![],
        custom_values,
        counts,
    }
}

pub(super) fn integer() -> Histogram {
    let (positive, negative) = (vec![1, 1], vec![]);
    histogram(Counts::Integer { count: 4, zero_count: 1, positive, negative }, 3, vec![])
}

#[tokio::test]
async fn histograms_of_all_kinds_come_back() {
    let keyspace = TestKeyspace::new().await;
    let store = keyspace.open().await;
    let float =
        Counts::Float { count: 4.5, zero_count: 1.0, positive: vec![1.5, 2.0], negative: vec![] };
    let custom =
        Counts::Integer { count: 3, zero_count: 0, positive: vec![1, 1], negative: vec![] };
    let stale = Histogram { sum: f64::from_bits(STALE_NAN_BITS), ..integer() };
    let cases = [
        (10, integer()),
        (20, histogram(float, 0, vec![])),
        (30, histogram(custom, -53, vec![0.5, 1.0, 2.0])),
        (40, stale),
    ];
    let rpc = labels(&[("__name__", "rpc"), ("job", "a")]);
    let mut request = Request::default();
    for (time, histogram) in &cases {
        request = request.histogram(&rpc, *time, histogram.clone());
    }
    let outcome = request.write(&store).await;
    assert_eq!(outcome.histograms, 4);
    let all = read(&store, &named("rpc"), TimeRange::ALL).await;
    let points = &all[&rpc];
    assert_eq!(points.iter().map(|p| p.timestamp).collect::<Vec<_>>(), [10, 20, 30, 40]);
    for (point, (_, want)) in points.iter().zip(&cases) {
        let Value::Histogram(got) = &point.value else { panic!("a float") };
        if want.is_stale() {
            assert!(got.is_stale());
        } else {
            assert_eq!(**got, *want);
        }
    }
    // Only our own index leads to these points: KairosDB knows neither name nor window.
    let index: Vec<(String,)> =
        keyspace.rows("SELECT table_name FROM {k}.row_key_time_index").await;
    assert_eq!(index, [("prometheus".into(),)]);
    keyspace.drop().await;
}

#[tokio::test]
async fn the_last_write_wins_across_all_types() {
    let keyspace = TestKeyspace::new().await;
    let store = keyspace.open().await;
    let up = labels(&[("__name__", "up")]);
    let nan = f64::from_bits(STALE_NAN_BITS);
    // Writes faster than the clock: each must still win over the one before.
    for value in [5.0, 3.0, nan, 4.0, nan, 1.0, 0.5] {
        Request::default().floats(&up, &[(7, value)]).write(&store).await;
        let all = read(&store, &named("up"), TimeRange::ALL).await;
        assert_eq!(bits(&all[&up]), [(7, value.to_bits())]);
    }
    Request::default().histogram(&up, 7, integer()).write(&store).await;
    let all = read(&store, &named("up"), TimeRange::ALL).await;
    assert!(matches!(all[&up][0].value, Value::Histogram(_)));
    // Within one request a float wins over a histogram, and the later float.
    let request =
        Request::default().floats(&up, &[(7, 1.0), (7, 2.0)]).histogram(&up, 7, integer());
    assert_eq!(request.write(&store).await.samples, 2);
    let all = read(&store, &named("up"), TimeRange::ALL).await;
    assert_eq!(bits(&all[&up]), [(7, 2.0f64.to_bits())]);
    keyspace.drop().await;
}

#[tokio::test]
async fn exemplars_come_back_several_a_millisecond() {
    let keyspace = TestKeyspace::new().await;
    let store = keyspace.open().await;
    let rpc = labels(&[("__name__", "rpc")]);
    let exemplar = |trace: &str, timestamp, value| {
        let mut raw = Vec::new();
        RawLabels::push(&mut raw, b"trace_id", trace.as_bytes());
        OwnedExemplar { labels: raw, value, timestamp }
    };
    let request = Request::default()
        .floats(&rpc, &[(5, 1.0)])
        .exemplar(&rpc, exemplar("b", 5, 0.25))
        .exemplar(&rpc, exemplar("a", 5, 0.5))
        .exemplar(&rpc, exemplar("a", 9, f64::INFINITY));
    assert_eq!(request.write(&store).await.exemplars, 3);
    request.write(&store).await;
    let found =
        store.exemplars(&named("rpc"), TimeRange::new(0, 8), usize::MAX).await.expect("exemplars");
    let flat: Vec<_> = found
        .iter()
        .flat_map(|(series, all)| all.iter().map(move |e| (series, e)))
        .map(|(series, e)| (series.clone(), e.timestamp, e.labels.get("trace_id"), e.value))
        .collect();
    assert_eq!(flat, [(rpc.clone(), 5, "a", 0.5), (rpc.clone(), 5, "b", 0.25)]);
    keyspace.drop().await;
}

#[tokio::test]
async fn metadata_is_kept_by_family() {
    use promkairos::model::{Metadata, MetadataEntry, MetricType, WriteBatch};
    let long = "l".repeat(1 << 16);
    let keyspace = TestKeyspace::new().await;
    let store = keyspace.open().await;
    let entry = |family, kind, help| MetadataEntry { family, kind, help, unit: "s" };
    let write = async |metadata| {
        let batch = WriteBatch { metadata, ..WriteBatch::default() };
        store.write(batch).await.expect("accepted").metadata
    };
    let first = vec![
        entry("b", MetricType::Gauge, "two\nlines"),
        entry("a", MetricType::Counter, "old"),
        entry("a", MetricType::Counter, "zzz"),
    ];
    assert_eq!(write(first).await, 3);
    assert_eq!(write(vec![entry("a", MetricType::Summary, "new")]).await, 1);
    // A family whose name is longer than a key may be is not stored and not counted.
    let both = [&*long, "b", &*long].map(|f| entry(f, MetricType::Gauge, "two\nlines"));
    assert_eq!(write(both.to_vec()).await, 1);
    let metadata = |kind, help: &str| Metadata { kind, help: help.into(), unit: "s".into() };
    let a = ("a".to_owned(), metadata(MetricType::Summary, "new"));
    let b = ("b".to_owned(), metadata(MetricType::Gauge, "two\nlines"));
    assert_eq!(store.metadata(None, usize::MAX).await.expect("all"), [a.clone(), b]);
    assert_eq!(store.metadata(Some("a"), usize::MAX).await.expect("one"), [a]);
    assert_eq!(store.metadata(Some("c"), usize::MAX).await.expect("none"), []);
    keyspace.drop().await;
}

#[tokio::test]
async fn what_the_schema_cannot_hold_is_refused_alone() {
    let keyspace = TestKeyspace::new().await;
    let store = keyspace.open().await;
    let (up, nul) = (labels(&[("__name__", "up")]), labels(&[("__name__", "a\0b")]));
    let request = Request::default().floats(&nul, &[(1, 1.0)]).floats(&up, &[(1, 1.0)]);
    let outcome = request.write(&store).await;
    assert_eq!((outcome.samples, outcome.rejections.targets()), (1, &[Target::Series(0)][..]));
    let reason = &outcome.rejections.kept()[0].reason;
    assert!(matches!(reason, RejectReason::Store(text) if text.contains("NUL")), "{reason}");
    keyspace.drop().await;
}

#[tokio::test]
async fn selections_and_label_endpoints() {
    let keyspace = TestKeyspace::new().await;
    let store = keyspace.open().await;
    let mut request = Request::default();
    for metric in ["cpu", "cpu_total", "mem"] {
        for host in ["a", "b", "c"] {
            let series = labels(&[("__name__", metric), ("host", host), (metric, "1")]);
            request = request.floats(&series, &[(1_000, 1.0)]);
        }
    }
    request.write(&store).await;
    let select = async |matchers: &[promkairos::model::Matcher]| {
        let found = read(&store, matchers, TimeRange::ALL).await;
        found.keys().map(|l| format!("{}/{}", l.get("__name__"), l.get("host"))).collect::<Vec<_>>()
    };
    use MatchOp::{Equal, NotEqual, NotRegex, Regex};
    let name = "__name__";
    assert_eq!(
        select(&[matcher(name, Regex, "cpu.+"), matcher("host", Equal, "b")]).await,
        ["cpu_total/b"]
    );
    assert_eq!(
        select(&[matcher("host", NotRegex, "a|b")]).await,
        ["cpu/c", "cpu_total/c", "mem/c"]
    );
    assert_eq!(
        select(&[matcher("mem", NotEqual, ""), matcher("host", Regex, "[ab]")]).await,
        ["mem/a", "mem/b"]
    );
    assert_eq!(select(&[]).await.len(), 9);
    assert!(select(&named("gone")).await.is_empty());

    let query = |limit| SeriesQuery { matchers: vec![], range: TimeRange::ALL, limit };
    let names = store.label_names(&query(ListSize::UNLIMITED)).await.expect("names");
    assert_eq!(names.items, ["__name__", "cpu", "cpu_total", "host", "mem"]);
    let values = store.label_values(name, &query(ListSize::items(2))).await.expect("values");
    assert_eq!((values.items, values.truncated), (vec!["cpu".into(), "cpu_total".into()], true));
    let matchers = vec![matcher("mem", Equal, "1")];
    let query =
        SeriesQuery { matchers, range: TimeRange::new(0, 5_000), limit: ListSize::UNLIMITED };
    assert_eq!(store.label_values("host", &query).await.expect("values").items, ["a", "b", "c"]);
    assert_eq!(store.series(&query).await.expect("series").items.len(), 3);
    let later = SeriesQuery { range: TimeRange::new(WIDTH, 2 * WIDTH), ..query };
    assert!(store.series(&later).await.expect("series").items.is_empty());

    let hints = SelectHints { max_label_bytes: 100, ..SelectHints::default() };
    let error = store.select(&[], TimeRange::ALL, &hints).await.map(|_| ());
    assert!(matches!(error, Err(StoreError::Limit(_))), "{error:?}");
    keyspace.drop().await;
}

#[tokio::test]
async fn a_series_of_many_windows_is_counted_and_bounded() {
    const WINDOWS: i64 = 150;
    let keyspace = TestKeyspace::new().await;
    let store = keyspace.open().await;
    let up = labels(&[("__name__", "up"), ("job", "a")]);
    let points: Vec<(i64, f64)> = (0..WINDOWS).map(|n| (n * WIDTH, n as f64)).collect();
    Request::default().floats(&up, &points).write(&store).await;
    let select =
        async |hints: SelectHints| store.select(&named("up"), TimeRange::ALL, &hints).await;
    let usual = SelectHints::default();
    let whole = select(usual.clone()).await.expect("few bytes");
    let held = whole.reader.held_bytes();
    // Each row holds its own labels.
    assert!(held > WINDOWS as usize * up.as_bytes().len(), "{held}");
    assert!(held < WINDOWS as usize * 1_000, "{held}");
    let chunks = whole.reader.read(0..1).await.expect("few bytes");
    let bytes = chunk_bytes(&chunks);
    let count: u64 = chunks.iter().flatten().map(|chunk| u64::from(chunk.count)).sum();
    assert_eq!(count, WINDOWS as u64);

    let all = up.as_bytes().len() + held;
    select(SelectHints { max_bytes: all, ..usual.clone() }).await.expect("just enough");
    let error = select(SelectHints { max_bytes: all - 1, ..usual.clone() }).await.map(|_| ());
    assert!(matches!(error, Err(StoreError::Limit(_))), "{error:?}");
    // The size of a series is checked while it is read.
    let read = async |max_series_bytes| {
        let hints = SelectHints { max_series_bytes, ..usual.clone() };
        select(hints).await.expect("few bytes").reader.read(0..1).await
    };
    assert_eq!(chunk_bytes(&read(bytes).await.expect("just enough")), bytes);
    let error = read(bytes - 1).await.expect_err("one byte less").to_string();
    let most = ShownSize::of(bytes - 1);
    let want = format!("{up} has points of more than {most} in this range");
    assert_eq!(error, want);
    keyspace.drop().await;
}
