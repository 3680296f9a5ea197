//! Tests: how far from the clock a sample may be, in both messages, for all kinds of points and both stores.

use std::time::SystemTime;

use promkairos::model::{Counts, Histogram, ResetHint, Span};
use promkairos::wire;

use super::{configured, logged, metric, reload, send, series, stored, write_settings};
use crate::batch::Batch;
use crate::support::load::compress;
use crate::support::promkairos::{Answer, Backend, Message, Promkairos};
use crate::support::proto;

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;

fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_millis()).expect("a time of today")
}

async fn write(server: &Promkairos, message: Message, batch: &Batch) -> Answer {
    let body = match message {
        Message::V1 => wire::encode_v1(&batch.build()),
        Message::V2 => wire::encode_v2(&batch.build()),
    };
    server.write(message, compress(&proto::Message(body))).await.expect("an answer")
}

fn histogram() -> Histogram {
    Histogram {
        schema: 3,
        zero_threshold: 0.001,
        sum: 1.0,
        reset_hint: ResetHint::Unknown,
        positive_spans: vec![Span { offset: 0, length: 1 }],
        negative_spans: vec![],
        custom_values: vec![],
        counts: Counts::Integer { count: 1, zero_count: 0, positive: vec![1], negative: vec![] },
    }
}

async fn refused(server: &Promkairos, what: &str, reason: &str) -> Option<f64> {
    metric(server, &format!("write_{what}_total{{reason=\"{reason}\"}}")).await
}

/// Writes points of a day ago, of now and of a year ahead. Points within the settings are stored. The others are
/// refused with the name of the setting, and do not return when the log is replayed.
async fn what_is_too_far_from_the_clock_is_refused(backend: Backend) {
    let data = tempfile::tempdir().expect("a folder");
    let flags = ["--max-sample-age=1d", "--max-sample-lead=2h"];
    let mut server = Promkairos::ready(data.path(), &backend, &flags).await;
    let now = now();
    // Far from both edges, however slow the test is.
    let times = [now - 2 * DAY, now - 12 * HOUR, now, now + HOUR, now + DAY, now * 1_000 / 20];
    for (number, message) in [Message::V1, Message::V2].into_iter().enumerate() {
        let named = |what: &str| format!("{what}_{number}");
        let (floats, histograms) = (named("floats"), named("histograms"));
        let mut batch = Batch::new().series(&[("__name__", &floats), ("host", "a")]);
        for time in times {
            batch = batch.sample(time, 1.0).exemplar(time, 1.0, &[("trace", "x")]);
        }
        batch = batch.series(&[("__name__", &histograms), ("host", "a")]);
        for time in times {
            batch = batch.histogram(time, histogram());
        }
        // A series without a point that is within the settings.
        let gone = named("gone");
        batch = batch.series(&[("__name__", &gone), ("host", "b")]).sample(now + DAY, 1.0);
        let answer = write(&server, message, &batch).await;
        assert_eq!(answer.status, 400, "{answer:?}");
        for why in [
            " is more than 1d old, which is the setting max-sample-age for series {__name__=\"floats",
            " is more than 2h in the future, which is the setting max-sample-lead for series {__name__=\"floats",
        ] {
            assert!(answer.body.contains(why), "{answer:?}");
        }
        for name in [&floats, &histograms] {
            let found = server.read("__name__", name).await.expect("it can be read");
            let found: Vec<i64> =
                found.iter().flat_map(|series| series.points.keys().copied()).collect();
            assert_eq!(found, times[1..4], "{name}");
        }
        assert!(stored(&server, &gone).await.is_empty());
    }
    // For each message: floats, histograms and exemplars, and the one point of the series `gone`.
    assert_eq!(refused(&server, "rejected", "max-sample-age").await, Some(6.0));
    assert_eq!(refused(&server, "rejected", "max-sample-lead").await, Some(14.0));
    assert_eq!(refused(&server, "samples_refused", "max-sample-age").await, Some(4.0));
    assert_eq!(refused(&server, "samples_refused", "max-sample-lead").await, Some(10.0));
    let reached = "limits_reached_total{limit=\"max-sample-lead\"}";
    assert_eq!(metric(&server, reached).await, Some(14.0));
    logged(&server, "samples are refused: timestamp ").await;
    let before = server.read("host", ".+").await.expect("it can be read");
    server.process.kill();
    // Accepted points stay, whatever the settings are now.
    let flags = ["--max-sample-age=1ms", "--max-sample-lead=1ms"];
    let mut server = Promkairos::ready(data.path(), &backend, &flags).await;
    assert_eq!(server.read("host", ".+").await.expect("it can be read"), before);
    assert!(server.process.terminate().success(), "{}", server.process.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded() {
    what_is_too_far_from_the_clock_is_refused(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_cassandra() {
    what_is_too_far_from_the_clock_is_refused(Backend::cassandra_store()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_beyond_the_retention_is_refused_and_the_rest_stored() {
    let folder = tempfile::tempdir().expect("a folder");
    let (server, file) =
        configured(folder.path(), &Backend::Embedded, "retention = \"1d\"\n", &[]).await;
    let now = now();
    let old = now - 2 * DAY;
    for (number, message) in [Message::V1, Message::V2].into_iter().enumerate() {
        let name = format!("m_{number}");
        let batch = Batch::new().series(&[("__name__", &name), ("host", "a")]);
        let batch = batch.sample(old, 1.0).sample(now, 2.0).exemplar(old, 1.0, &[("trace", "x")]);
        let answer = write(&server, message, &batch).await;
        assert_eq!(answer.status, 400, "{answer:?}");
        let why = " is more than 1d old, which is the setting retention for series {__name__=\"m_";
        assert!(answer.body.contains(why), "{answer:?}");
        let found = server.read("__name__", &name).await.expect("it can be read");
        let found: Vec<i64> =
            found.iter().flat_map(|series| series.points.keys().copied()).collect();
        assert_eq!(found, [now], "{name}");
    }
    assert_eq!(refused(&server, "samples_refused", "retention").await, Some(2.0));
    assert_eq!(metric(&server, "limits_reached_total{limit=\"retention\"}").await, Some(4.0));
    // A longer retention accepts the point.
    write_settings(&file, "retention = \"30d\"\n");
    assert_eq!(reload(&server).await, (200, "changed: retention\n".to_owned()));
    let batch = Batch::new().series(&[("__name__", "m_0"), ("host", "a")]).sample(old, 1.0);
    assert_eq!(write(&server, Message::V1, &batch).await.status, 204);
}

#[tokio::test(flavor = "multi_thread")]
async fn by_default_microseconds_are_no_milliseconds_and_any_age_is_welcome() {
    let folder = tempfile::tempdir().expect("a folder");
    let (server, file) = configured(folder.path(), &Backend::Embedded, "", &[]).await;
    let sample = |time: i64| {
        let point = proto::Message::default().double(1, 1.0).varint(2, time.cast_unsigned());
        [series("m", "a", 0).messages(2, [point])]
    };
    // Microseconds taken for milliseconds: those of 2001 give an invalid year, those of 1972 one far ahead.
    for (micros, word) in
        [(1_000_000_000_000_000, "timestamp"), (90_000_000_000_000, "max-sample-lead")]
    {
        let answer = send(&server, &sample(micros)).await;
        assert_eq!(answer.status, 400, "{answer:?}");
        assert_eq!(refused(&server, "samples_refused", word).await, Some(1.0), "{answer:?}");
    }
    for time in [-62_135_596_800_000, 0, now(), now() + 364 * DAY] {
        assert_eq!(send(&server, &sample(time)).await.status, 204, "{time}");
    }
    // Both settings take effect on reload.
    write_settings(&file, "max_sample_age = \"1y\"\nmax_sample_lead = \"3000y\"\n");
    let changed = "changed: max-sample-age, max-sample-lead\n";
    assert_eq!(reload(&server).await, (200, changed.to_owned()));
    assert_eq!(send(&server, &sample(90_000_000_000_000)).await.status, 204);
    assert_eq!(send(&server, &sample(0)).await.status, 400);
}
