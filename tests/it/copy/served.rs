//! A running server as a source: promkairos, and Prometheus itself.

use promkairos::model::METRIC_NAME;
use serde_json::Value as Json;

use super::{AT, All, DAY, copy, embedded, made, said, send, text};
use crate::cassandra::keyspace::{OwnedExemplar, Request, labels};
use crate::support::prometheus::Prometheus;
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::series::{self, floats};

#[tokio::test(flavor = "multi_thread")]
async fn a_running_server_is_copied_over_http() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let mut request = Request::default();
    for n in 0..300 {
        let series = labels(&[(METRIC_NAME, "m"), ("n", &n.to_string())]);
        let points: Vec<(i64, f64)> =
            (0..150).map(|at| (AT + at * DAY / 70, f64::from(n) + at as f64)).collect();
        request = request.floats(&series, &points);
    }
    made(&first, &[request]).await;
    let mut server = Promkairos::ready(&first, &Backend::Embedded, &[]).await;
    // Points that are only in memory, with an exemplar.
    let series = labels(&[(METRIC_NAME, "m"), ("n", "7")]);
    let exemplar = OwnedExemplar {
        labels: labels(&[("trace_id", "t")]).as_bytes().to_vec(),
        value: 0.1,
        timestamp: AT + 1,
    };
    let nan = f64::from_bits(0x7ff8_0000_0000_beef);
    let fresh = Request::default().floats(&series, &[(AT + 1, nan)]).exemplar(&series, exemplar);
    send(&server, &fresh).await;
    let before = All::of(&server).await;
    assert_eq!(before.points(), 300 * 150 + 1);

    let target = embedded(&second);
    let refused = copy(folder.path(), &["--from", &embedded(&first), "--to", &target]);
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
    let why = text(&refused);
    assert!(why.contains("is in use by another promkairos process"), "{why}");
    assert!(why.contains("--from http://"), "{why}");
    let url = server.url("");
    let report = said(&copy(folder.path(), &["--from", &url, "--to", &target]));
    assert!(report.starts_with("Copied 45001 points"), "{report}");
    let same = "The same on both sides: 45001 points (checksum ";
    assert!(report.contains(same) && report.ends_with("and 1 exemplars.\n"), "{report}");
    let untold =
        format!("{url} tells no start timestamps: none is copied or compared, and how many");
    assert!(report.contains(&untold), "{report}");
    assert_eq!(All::in_folder(&second).await, before);
    // The folder has the same data, and can be read once the server has ended.
    assert!(server.process.terminate().success());
    let compared = copy(
        folder.path(),
        &["--from", &embedded(&first), "--to", &target, "--verify-only", "--json"],
    );
    let report: Json = serde_json::from_str(&said(&compared)).expect("JSON");
    assert_eq!(report["compared"]["points"], 45_001, "{report}");
    assert_eq!(report["compared"]["checksum"], report["compared"]["target_checksum"], "{report}");
    assert_eq!(report["copied"], Json::Null, "{report}");
    assert_eq!(report["source_starts"], "all", "{report}");
    // The server has ended: nothing listens at this address.
    let gone = copy(folder.path(), &["--from", &url, "--to", &target, "--patience", "0s"]);
    assert_eq!(gone.status.code(), Some(1), "{}", text(&gone));
    assert!(text(&gone).contains(&url), "{}", text(&gone));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_is_served_is_no_target() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    made(&first, &[Request::default().floats(&labels(&[(METRIC_NAME, "m")]), &[(AT, 1.0)])]).await;
    let _server = Promkairos::ready(&second, &Backend::Embedded, &[]).await;
    let refused = copy(folder.path(), &["--from", &embedded(&first), "--to", &embedded(&second)]);
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
    assert!(text(&refused).contains("end that one first"), "{}", text(&refused));
    // A missing folder is no source either.
    let nowhere = folder.path().join("nowhere");
    let refused = copy(folder.path(), &["--from", &embedded(&nowhere), "--to", &embedded(&first)]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains("no embedded store is there"), "{}", text(&refused));
    assert!(!nowhere.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prometheus_is_a_source() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let prometheus = Prometheus::start().await;
    let all: Vec<_> = (0..20)
        .map(|n| {
            let points: Vec<(i64, f64)> =
                (0..200).map(|at| (AT + at * 5_000, f64::from(n) / (at + 1) as f64)).collect();
            floats(&[(METRIC_NAME, "m"), ("n", &n.to_string())], &points)
        })
        .collect();
    let status = series::send(&prometheus.url(""), all).await;
    assert!(matches!(status, 200 | 204), "{status}");
    let (source, target) = (prometheus.url(""), embedded(&data));
    let report = said(&copy(folder.path(), &["--from", &source, "--to", &target]));
    assert!(report.starts_with("Copied 4000 points"), "{report}");
    assert!(report.contains("The same on both sides: 4000 points"), "{report}");
    let found = All::in_folder(&data).await;
    assert_eq!(found.series.len(), 20);
    assert_eq!(found.points(), 4_000);
}
