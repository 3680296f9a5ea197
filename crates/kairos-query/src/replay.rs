//! Every query that was asked of a real KairosDB 1.3.0-1, over the points that were stored in it: the answer is the
//! same, byte for byte. [`EXCEPTIONS`] has the others, each with its reason.

use std::sync::Arc;

use crate::json::{self, Json};
use crate::point::{GroupType, Point, Series, Tags, Value};
use crate::{Answer, Limits, MetricQuery, Order, QueryError, TagMatcher, parse, render_errors};

const RECORDED: &str = include_str!("../../../tests/data/kairos-query/answers-1.3.0-1.jsonl");
/// When KairosDB was asked.
const NOW: i64 = 1_795_710_092_000;
/// The time of most points.
const T: i64 = 1_700_000_000_000;

/// What is not the same.
const EXCEPTIONS: [(&str, &str, Same); 10] = [
    ("avg {'sampling': {'value': 0, 'unit': 'seconds'}}", "/ by zero has a text", Same::Nothing),
    ("gaps then avg", "the client is at fault: 400", Same::Text),
    ("empty q", "the client is at fault: 400", Same::Text),
    ("array q", "the client is at fault: 400", Same::Text),
    ("count minutes align_start", "no time_zone is UTC, not the zone of a JVM", Same::InZone),
    ("count sampling align", "no time_zone is UTC, not the zone of a JVM", Same::InZone),
    ("count day align_start notz", "no time_zone is UTC, not the zone of a JVM", Same::InZone),
    ("tags regex", "the H2 store of the probe does not filter by regex:", Same::Status),
    ("bad tz", "the probe kept 1,500 characters of the list of zones", Same::Beginning),
    ("GET q none", "without a query there is nothing to parse", Same::Nothing),
];

/// What is the same in an exception.
#[derive(Clone, Copy, PartialEq)]
enum Same {
    Nothing,
    Status,
    /// All, if the query names the zone that KairosDB ran in.
    InZone,
    Text,
    Beginning,
}

struct Recorded {
    what: String,
    path: String,
    request: Option<String>,
    status: u16,
    answer: String,
}

fn recorded() -> Vec<Recorded> {
    let read = |line: &str| {
        let case = json::read(line, 4).expect("valid");
        let text = |name| case.get(name).and_then(Json::as_text);
        Recorded {
            what: text("what").expect("valid"),
            path: text("path").expect("valid"),
            request: text("request"),
            status: text("status").expect("valid").parse().expect("valid"),
            answer: text("answer").expect("valid"),
        }
    };
    RECORDED.lines().map(read).collect()
}

/// A row: metric, tags, points.
type Row = (&'static str, &'static [(&'static str, &'static str)], Vec<(i64, Value)>);

/// What `probe_ingest.py`, and the telnet lines of `probe_rest_telnet.py`, left in the store.
fn stored() -> Vec<Row> {
    let long = |time, value| (time, Value::Long(value));
    let double = |time, value| (time, Value::Double(value));
    let tag = &[("a", "b")];
    vec![
        ("m1", &[("dc", "x"), ("host", "a")], (0..10).map(|i| long(T + i * 1_000, i)).collect()),
        (
            "m1",
            &[("dc", "x"), ("host", "b")],
            (0..10).map(|i| double(T + 500 + i * 1_000, i as f64 + 0.5)).collect(),
        ),
        ("ok2", tag, vec![long(T, 1)]),
        ("ov", tag, vec![long(T, 7_766_279_631_452_241_919)]),
        ("t1", &[("host", "a")], vec![long(T, 5), long(T + 2_000, 6)]),
        ("t1", &[("host", "a")], vec![double(T + 1_000, 5.5)]),
        ("t1", &[("host", "a")], vec![(T + 3_000, Value::Text(Arc::from("hello world")))]),
        ("t2", &[("add", "tag")], vec![long(T, 1)]),
        ("t4", tag, vec![long(T, 1)]),
        ("t 6", &[("a", "b c")], vec![long(T, 1)]),
        ("t8", tag, vec![double(T, 1_000.0)]),
        ("t9", tag, vec![long(3_000_000_000, 1)]),
        ("tÃ¼", &[("a", "Ã¼")], vec![long(T, 1)]),
    ]
}

fn tags_of(row: &Row) -> Tags {
    row.1.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn value_of<'r>(row: &'r Row, name: &str) -> Option<&'r str> {
    row.1.iter().find(|(tag, _)| *tag == name).map(|(_, value)| *value)
}

/// The rows that a metric means, in its range and order.
fn select<'a>(store: &[Row], metric: &MetricQuery) -> Vec<Result<Series<'a>, QueryError>> {
    let matcher = TagMatcher::new(&metric.tags).expect("valid");
    let rows = store
        .iter()
        .filter(|row| row.0 == metric.name && matcher.matches(|name| value_of(row, name)));
    let series = rows.map(|row| {
        let is_in = |point: &&(i64, Value)| (metric.start..=metric.end).contains(&point.0);
        let mut points: Vec<Point> = row
            .2
            .iter()
            .filter(is_in)
            .map(|(time, value)| Point { time: *time, value: value.clone() })
            .collect();
        if metric.order == Order::Descending {
            points.reverse();
        }
        let is_text = matches!(row.2[0].1, Value::Text(_));
        Ok(Series {
            tags: tags_of(row),
            group_type: if is_text { GroupType::Text } else { GroupType::Number },
            points: Box::new(points.into_iter().map(Ok)),
        })
    });
    series.collect()
}

fn answer(store: &[Row], path: &str, text: &str) -> Result<Vec<u8>, QueryError> {
    let limits = Limits::default();
    let query = parse(text, NOW, &limits)?;
    let mut answer = Answer::new(&limits);
    for metric in &query.metrics {
        let series = select(store, metric);
        if path == "query/tags" {
            let tags: Vec<Tags> =
                series.into_iter().map(|series| series.expect("valid").tags).collect();
            answer.tags(metric, &tags)?;
        } else {
            answer.metric(metric, series)?;
        }
    }
    Ok(answer.finish())
}

#[test]
fn answers_are_those_of_kairosdb() {
    let cases = recorded();
    assert_eq!(cases.len(), 97);
    let (mut store, mut deletes, mut used) = (stored(), 0, 0);
    for case in &cases {
        if case.what == "after del" {
            // First of T to T + 3,000 of host a, then of all.
            deletes += 1;
            match deletes {
                1 => store[0].2.retain(|(time, _)| *time > T + 3_000),
                _ => store.retain(|row| row.0 != "m1"),
            }
        }
        let exception = EXCEPTIONS.iter().find(|(what, ..)| *what == case.what);
        used += usize::from(exception.is_some());
        let Some(request) = &case.request else {
            assert!(exception.is_some(), "{}", case.what);
            continue;
        };
        let (status, text) = match answer(&store, &case.path, request) {
            Ok(text) => (200, text),
            Err(error) => (error.status(), render_errors(&error.messages())),
        };
        let (status, text) = (status, String::from_utf8(text).expect("valid"));
        let same = exception.map(|(_, _, same)| *same);
        let is_status = matches!(same, None | Some(Same::Status | Same::InZone | Same::Beginning));
        assert_eq!(status == case.status, is_status, "{}: {status}", case.what);
        match same {
            None | Some(Same::Text) => assert_eq!(text, case.answer, "{}", case.what),
            Some(Same::Beginning) => assert!(text.starts_with(&case.answer), "{text}"),
            Some(Same::Nothing | Same::Status) => assert_ne!(text, case.answer, "{}", case.what),
            Some(Same::InZone) => {
                assert_ne!(text, case.answer, "{}", case.what);
                let zone = "{\"time_zone\":\"America/New_York\",";
                let request = request.replacen('{', zone, 1);
                let text = answer(&store, &case.path, &request).expect("valid");
                assert_eq!(String::from_utf8(text).expect("valid"), case.answer, "{}", case.what);
            }
        }
    }
    assert_eq!(used, EXCEPTIONS.len());
}

#[test]
fn without_a_time_zone_answers_are_those_of_utc() {
    let case = |what| recorded().into_iter().find(|case| case.what == what).expect("valid");
    let query = case("count day align_start notz").request.expect("valid");
    let text = answer(&stored(), "query", &query).expect("valid");
    assert_eq!(String::from_utf8(text).expect("valid"), case("count day align_start UTC").answer);
}

#[test]
fn a_sampling_of_zero_is_named() {
    let metric = r#"{"name":"m1","aggregators":[{"name":"avg","sampling":{"unit":"days"}}]}"#;
    let query = format!(r#"{{"start_absolute":1,"metrics":[{metric}]}}"#);
    let error = answer(&stored(), "query", &query).expect_err("refused");
    let text = "query.metric[0].aggregators[0].sampling.value must be greater than 0";
    assert_eq!((error.status(), error.to_string()), (400, text.to_owned()));
}
