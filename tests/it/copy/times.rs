//! A copy accepts the times that a write accepts. Points and exemplars too far from the clock are refused with the
//! name of the setting and counted, and the comparison misses them.

use promkairos::model::METRIC_NAME;
use serde_json::Value as Json;

use super::{AT, All, copy, embedded, said, send, text};
use crate::cassandra::keyspace::{OwnedExemplar, Request, labels};
use crate::support::promkairos::{Backend, Promkairos};

/// A time of the year 1972 in microseconds; taken for milliseconds it is in the year 4763.
const FAR: i64 = 88_160_000_000_000;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_far_from_the_clock_is_not_copied() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    let mut server = Promkairos::ready(&source, &Backend::Embedded, &["--max-sample-lead=0"]).await;
    let series = labels(&[(METRIC_NAME, "m"), ("job", "a")]);
    let exemplar = |timestamp| OwnedExemplar {
        labels: labels(&[("trace", "x")]).as_bytes().to_vec(),
        value: 1.0,
        timestamp,
    };
    let request = Request::default().floats(&series, &[(AT, 1.0), (AT + 1, 2.0), (FAR, 3.0)]);
    let request = request.exemplar(&series, exemplar(AT)).exemplar(&series, exemplar(FAR));
    send(&server, &request).await;
    assert!(server.process.terminate().success(), "{}", server.process.log());
    let (from, to) = (embedded(&source), embedded(&target));
    let both = ["--from", &*from, "--to", &*to];
    let output = copy(folder.path(), &[&both[..], &["--json"]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let report: Json = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["copied"]["floats"], 2, "{report}");
    assert_eq!(report["copied"]["exemplars"], 1, "{report}");
    assert_eq!(report["copied"]["refused"], 2, "{report}");
    let why = "is more than 365d in the future, which is the setting max-sample-lead for series {__name__=\"m\"";
    assert!(
        report["copied"]["reasons"][0].as_str().is_some_and(|text| text.contains(why)),
        "{report}"
    );
    assert_eq!(report["compared"]["differences"], 2, "{report}");
    // A larger `--max-sample-lead` accepts all points.
    said(&copy(folder.path(), &[&both[..], &["--max-sample-lead=3000y"]].concat()));
    assert_eq!(All::in_folder(&target).await.points(), 3);
    // `--max-sample-age` refuses older points.
    let aged = embedded(&folder.path().join("aged"));
    let both = ["--from", &*from, "--to", &*aged, "--max-sample-age=1h", "--max-sample-lead=0"];
    let output = copy(folder.path(), &both);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("which is the setting max-sample-age"), "{}", text(&output));
}
