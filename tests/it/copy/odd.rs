//! Copies everything that a store can hold there and back: odd values, odd labels, native histograms
//! of all kinds, exemplars, metadata; and data that a keyspace has no room for.

use promkairos::api::proto::v1;
use promkairos::model::{Counts, Histogram, Labels, METRIC_NAME, ResetHint, STALE_NAN_BITS, Span};
use promkairos::wire;

use super::{AT, All, DAY, copy, embedded, keyspace, made, over_cassandra, said, send};
use crate::cassandra::keyspace::{OwnedExemplar, Request, labels};
use crate::store::stale_histogram;
use crate::support::kairosdb::{KairosDb, TagMap};
use crate::support::load::compress;
use crate::support::promkairos::{Backend, Message, Promkairos};
use crate::support::{self, proto, series};

/// Values whose bits a copy must keep.
const VALUES: [u64; 8] = [
    0x3ff0_0000_0000_0000,
    0x8000_0000_0000_0000,
    STALE_NAN_BITS,
    0x7ff8_0000_0000_0001,
    0xfff8_0000_dead_beef,
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0x0000_0000_0000_0001,
];

fn histogram(counts: Counts, reset_hint: ResetHint, sum: f64) -> Histogram {
    Histogram {
        schema: 3,
        zero_threshold: 0.001,
        sum,
        reset_hint,
        positive_spans: vec![Span { offset: -2, length: 2 }, Span { offset: 1, length: 1 }],
        negative_spans: vec![Span { offset: 5, length: 1 }],
        custom_values: vec![],
        counts,
    }
}

fn integer(n: u64) -> Counts {
    let size = n.cast_signed();
    let (positive, negative) = (vec![size, 0, -size], vec![size]);
    Counts::Integer { count: 4 * n, zero_count: n, positive, negative }
}

fn float(n: f64) -> Counts {
    let (positive, negative) = (vec![n, n, 0.0], vec![n]);
    Counts::Float { count: 4.0 * n, zero_count: n, positive, negative }
}

/// A histogram with custom bounds.
fn custom(n: u64) -> Histogram {
    let (positive, negative) = (vec![n.cast_signed(), 0], vec![]);
    Histogram {
        schema: -53,
        zero_threshold: 0.0,
        sum: 2.5,
        reset_hint: ResetHint::Unknown,
        positive_spans: vec![Span { offset: 0, length: 2 }],
        negative_spans: vec![],
        custom_values: vec![0.5, 1.0],
        counts: Counts::Integer { count: 2 * n, zero_count: 0, positive, negative },
    }
}

/// Series of all kinds over three days, and their number of points.
fn everything() -> (Vec<Request>, usize) {
    let odd = [
        labels(&[(METRIC_NAME, "plain")]),
        labels(&[(METRIC_NAME, "with.dots é"), ("a b", "=:;,\"\\\n"), ("ü", "\u{1f600}")]),
        labels(&[(METRIC_NAME, "plain"), ("host", "a:1"), ("le", "+Inf")]),
    ];
    let mut floats = Request::default();
    for (at, series) in odd.iter().enumerate() {
        let points: Vec<(i64, f64)> = (0..64)
            .map(|n| (AT + n * DAY / 25 + at as i64, f64::from_bits(VALUES[n as usize % 8])))
            .collect();
        floats = floats.floats(series, &points);
    }
    let mut histograms = Request::default();
    let mut number = 0;
    for n in 1..30_u64 {
        let time = AT + n.cast_signed() * DAY / 12;
        let gauge = n % 7 + 1;
        for (name, one) in [
            // The count falls at every tenth point: a counter reset.
            ("h_integer", histogram(integer(n % 10 + 1), ResetHint::Unknown, n as f64)),
            ("h_float", histogram(float(n as f64), ResetHint::Unknown, -0.0)),
            ("h_gauge", histogram(integer(gauge), ResetHint::Gauge, 1.5)),
            ("h_custom", custom(n)),
        ] {
            let one = if n == 20 { stale_histogram() } else { one };
            histograms = histograms.histogram(&labels(&[(METRIC_NAME, name)]), time, one);
            number += 1;
        }
    }
    // A series that changes its type.
    let mixed = labels(&[(METRIC_NAME, "mixed"), ("job", "j")]);
    let one = histogram(integer(3), ResetHint::Unknown, 1.0);
    let mixed = Request::default().floats(&mixed, &[(AT, 1.0), (AT + 2, 2.0)]).histogram(
        &mixed,
        AT + 1,
        one,
    );
    (vec![floats, histograms, mixed], 3 * 64 + number + 3)
}

fn exemplars() -> Request {
    let series = labels(&[(METRIC_NAME, "plain"), ("host", "a:1"), ("le", "+Inf")]);
    let one = |n: i64| OwnedExemplar {
        labels: labels(&[("trace_id", &format!("é{n}"))]).as_bytes().to_vec(),
        value: 0.1 * n as f64,
        timestamp: AT + n * DAY / 3,
    };
    // The first point of the series again.
    let all = Request::default().floats(&series, &[(AT + 2, 1.0)]);
    (0..5).fold(all, |request, n| request.exemplar(&series, one(n)))
}

/// Sends metadata by remote write 1.0, where it is separate from the series.
async fn send_metadata(server: &Promkairos) {
    let family = |name: &str, kind: i32, help: &str, unit: &str| v1::MetricMetadata {
        r#type: kind,
        metric_family_name: name.into(),
        help: help.into(),
        unit: unit.into(),
    };
    let metadata =
        vec![family("plain", 1, "A \"help\"\nof two lines", ""), family("x", 2, "", "s")];
    let request = v1::WriteRequest { metadata, ..v1::WriteRequest::default() };
    let status = series::send_request(&server.url(""), &request).await;
    assert!(matches!(status, 200 | 204), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_there_and_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, back) = (folder.path().join("first"), folder.path().join("back"));
    let (requests, points) = everything();
    made(&first, &requests).await;
    let mut server = Promkairos::ready(&first, &Backend::Embedded, &[]).await;
    send(&server, &exemplars()).await;
    send_metadata(&server).await;
    let before = All::of(&server).await;
    assert_eq!(before.points(), points, "of what was sent");
    assert_eq!(before.exemplars.len(), 1);
    assert_eq!(before.metadata.as_object().expect("families").len(), 2);
    assert!(server.process.terminate().success());

    let name = support::keyspace();
    let (source, there, target) = (embedded(&first), keyspace(&name), embedded(&back));
    let report = said(&copy(folder.path(), &["--from", &source, "--to", &there]));
    let copied = format!("Copied {points} points (");
    let rest = "5 exemplars and the metadata of 2 families.\n";
    assert!(report.starts_with(&copied) && report.contains(rest), "{report}");
    let same = format!("The same on both sides: {points} points (checksum ");
    assert!(report.contains(&same) && report.ends_with(" and 5 exemplars.\n"), "{report}");
    let state = folder.path().join("promkairos-copy.json");
    assert!(!state.exists(), "the copy has ended");
    let over = folder.path().join("over");
    let server = Promkairos::ready(&over, &over_cassandra(&name), &[]).await;
    assert_eq!(All::of(&server).await, before);

    let report = said(&copy(folder.path(), &["--from", &there, "--to", &target]));
    assert!(report.starts_with(&copied) && report.contains(&same), "{report}");
    assert_eq!(All::in_folder(&back).await, before);
    // A second copy changes nothing, and no family is written again.
    let report = said(&copy(folder.path(), &["--from", &source, "--to", &target]));
    assert!(report.contains("the metadata of 0 families.\n") && report.contains(&same), "{report}");
    assert_eq!(All::in_folder(&back).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn kairosdb_sees_what_was_copied() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let kairosdb = KairosDb::shared(promkairos::kairos::TimeUnit::Milliseconds).await;
    let metric = format!("copied{:x}", rand::random::<u32>());
    let series = |host: &str| labels(&[(METRIC_NAME, metric.as_str()), ("host", host)]);
    let points: Vec<(i64, f64)> = (0..200).map(|n| (AT + n * DAY / 50, n as f64 / 4.0)).collect();
    let nan = (AT + 5 * DAY, f64::NAN);
    let request = Request::default()
        .floats(&series("a"), &[&points[..], &[nan]].concat())
        .floats(&series("b"), &points[..3]);
    made(&data, &[request]).await;
    let selector = format!("{{__name__=\"{metric}\"}}");
    let (source, target) = (embedded(&data), keyspace(&kairosdb.keyspace));
    let arguments = ["--from", &source, "--to", &target, "--match", &selector];
    let report = said(&copy(folder.path(), &arguments));
    assert!(report.contains("The same on both sides: 204 points"), "{report}");
    let count =
        |host: &str, count: usize| (TagMap::from([("host".to_owned(), host.to_owned())]), count);
    let found = kairosdb
        .query_until(&metric, &["host"], |all| {
            all.iter().map(|series| series.values.len()).sum::<usize>() == 203
        })
        .await;
    let counts: Vec<_> = found.iter().map(|s| (s.tags.clone(), s.values.len())).collect();
    assert_eq!(counts, [count("a", 200), count("b", 3)]);
    let values: Vec<(i64, f64)> = found[0]
        .values
        .iter()
        .map(|(time, value)| (*time, value.as_f64().expect("a number")))
        .collect();
    assert_eq!(values, points);
}

#[tokio::test(flavor = "multi_thread")]
async fn start_timestamps_are_kept_where_there_is_room_and_counted_where_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let one = histogram(integer(3), ResetHint::Unknown, 1.0);
    let request = Request::default()
        .floats(&labels(&[(METRIC_NAME, "c")]), &[(AT, 1.0), (AT + 1, 2.0)])
        .histogram(&labels(&[(METRIC_NAME, "h")]), AT, one);
    let mut server = Promkairos::ready(&data, &Backend::Embedded, &[]).await;
    let mut batch = request.batch();
    batch.samples.iter_mut().for_each(|sample| sample.start_timestamp = AT - 1_000);
    batch.histograms.iter_mut().for_each(|sample| sample.start_timestamp = AT - 1_000);
    let body = compress(&proto::Message(wire::encode_v2(&batch)));
    let answer = server.write(Message::V2, body).await.expect("it answers");
    assert!(matches!(answer.status, 200 | 204), "{answer:?}");
    assert!(server.process.terminate().success());

    let name = support::keyspace();
    let (source, there) = (embedded(&data), keyspace(&name));
    let (other, back) = (folder.path().join("other"), folder.path().join("back"));
    let (other, back) = (embedded(&other), embedded(&back));
    // Between two embedded stores nothing is left out, and everything is compared.
    let report = said(&copy(folder.path(), &["--from", &source, "--to", &other]));
    assert!(!report.contains("no room"), "{report}");
    assert!(report.contains("The same on both sides: 3 points"), "{report}");
    let there_too = ["--from", &source, "--to", &there];
    let output = copy(folder.path(), &there_too);
    assert_eq!(output.status.code(), Some(1), "{}", super::text(&output));
    let report = super::text(&output);
    let lost =
        "\n  start_timestamp: 2 start timestamps of floats, for which the target has no room; ";
    assert!(report.contains(lost), "{report}");
    assert!(report.contains("What can be copied is the same on both sides: 3 points"), "{report}");
    let allowed = ["--verify-only", "--allow-left-out=start_timestamp"];
    said(&copy(folder.path(), &[&there_too[..], &allowed].concat()));
    // The data that came back lacks these, and a comparison with the source finds that.
    said(&copy(folder.path(), &["--from", &there, "--to", &back]));
    let compared = copy(folder.path(), &["--from", &source, "--to", &back, "--verify-only"]);
    assert_eq!(compared.status.code(), Some(1), "{}", super::text(&compared));
    let report = super::text(&compared);
    assert!(
        report.contains("{__name__=\"c\"}") && report.contains("points: 2 different"),
        "{report}"
    );
    assert!(!report.contains("{__name__=\"h\"}"), "{report}");
}

/// A name that no row key can have.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_target_refuses_is_counted_and_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let bad = Labels::from_pairs([(METRIC_NAME, "a\0b")]).expect("labels");
    let request = Request::default()
        .floats(&bad, &[(AT, 1.0), (AT + 1, 2.0)])
        .floats(&labels(&[(METRIC_NAME, "good")]), &[(AT, 1.0)]);
    made(&data, &[request]).await;
    let (source, there) = (embedded(&data), keyspace(&support::keyspace()));
    let output = copy(folder.path(), &["--from", &source, "--to", &there, "--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", super::text(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["copied"]["floats"], 1, "{report}");
    assert_eq!(report["copied"]["refused"], 2, "{report}");
    let reasons = report["copied"]["reasons"].as_array().expect("a list");
    assert!(reasons[0].as_str().expect("a text").contains("a\\u0000b"), "{report}");
    assert_eq!(report["compared"]["differences"], 1, "{report}");
    assert_eq!(report["compared"]["listed"][0]["missing"], 2, "{report}");
    assert_eq!(report["compared"]["listed"][0]["what"], "points", "{report}");
    assert_eq!(report["left_out"]["refused"]["count"], 2, "{report}");
    let allowed = ["--from", &source, "--to", &there, "--allow-left-out=refused"];
    let report = said(&copy(folder.path(), &allowed));
    assert!(report.contains(" points: 2 missing\n") && !report.contains("NOT ALL"), "{report}");
}
