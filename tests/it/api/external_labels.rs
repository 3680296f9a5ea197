//! External labels and scrape intervals: clients get them as YAML, and external labels are added to the answers of
//! remote read and federation only. Also: refused settings, and the metric with the lowest sample time.

use std::time::Duration;

use promkairos::api::proto::v1;
use promkairos::api::proto::v1::read_request::ResponseType;
use promkairos::storage::Clock;
use promkairos::wire::snappy;
use prost::Message;
use serde_json::json;

use super::{refusal, run};
use crate::limits::{configured, reload, write_settings};
use crate::support::api;
use crate::support::eventually;
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::series::{floats, send};

/// Settings with two external labels.
const LABELS: &str = "[external_labels]\ncluster = \"eu-1\"\nreplica = \"a\"\n";

/// Names and values in the order of the answer.
type Pairs = Vec<(String, String)>;

fn owned(pairs: &[(&str, &str)]) -> Pairs {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

async fn yaml(server: &Promkairos) -> String {
    let (status, answer) = api::get(&server.url("/api/v1/status/config"), &[]).await;
    let text = answer["data"]["yaml"].as_str().expect("a text").to_owned();
    assert_eq!((status, answer), (200, json!({ "status": "success", "data": { "yaml": text } })));
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_read_them_as_the_configuration_of_a_prometheus() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut server, file) = configured(folder.path(), &Backend::Embedded, "", &[]).await;
    let of_nobody =
        "global:\n  scrape_interval: 1m\n  scrape_timeout: 10s\n  evaluation_interval: 1m\n";
    assert_eq!(yaml(&server).await, of_nobody);
    let settings = "scrape_interval = \"5s\"\nevaluation_interval = \"1m30s\"\n\
                    external_labels = { cluster = \"eu-1\", \"odd.name\" = \"no\" }\n";
    write_settings(&file, settings);
    let changed = "changed: external-labels, scrape-interval, evaluation-interval\n";
    assert_eq!(reload(&server).await, (200, changed.to_owned()));
    let want = "global:\n  scrape_interval: 5s\n  scrape_timeout: 5s\n  evaluation_interval: 1m30s\n  \
                external_labels:\n    cluster: eu-1\n    odd.name: \"no\"\n";
    assert_eq!(yaml(&server).await, want);
    // A refused reload changes nothing.
    write_settings(&file, "external_labels = { cluster = \"\" }\n");
    let (status, why) = reload(&server).await;
    assert!(status == 500 && why.contains("external_labels.cluster"), "{status} {why}");
    assert_eq!(yaml(&server).await, want);
    assert!(server.process.terminate().success());
    // The same settings as flags.
    let flags =
        ["--scrape-interval=15s", "--evaluation-interval=15s", "--external-labels={a = \"b\"}"];
    let data = folder.path().join("data");
    let mut server = Promkairos::ready(&data, &Backend::Embedded, &flags).await;
    let want = "global:\n  scrape_interval: 15s\n  scrape_timeout: 10s\n  evaluation_interval: 15s\n  \
                external_labels:\n    a: b\n";
    assert_eq!(yaml(&server).await, want);
    assert!(server.process.terminate().success());
}

#[test]
fn what_no_label_and_no_interval_can_be_is_refused_with_the_setting() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |text: &str| {
        std::fs::write(folder.path().join("a.toml"), text).expect("written");
        refusal(&run(folder.path(), &["--config=a.toml", "--listen=127.0.0.1:0"], &[]))
    };
    assert_eq!(
        file("[external_labels]\nb = \"1\"\n__name__ = \"up\"\n"),
        "external_labels.__name__ in a.toml:3: is the name of a metric, which each series has of its own"
    );
    assert_eq!(
        file("external_labels = { a = \"\" }\n"),
        "external_labels.a in a.toml:1: must not be empty"
    );
    assert_eq!(
        file("external_labels = { \"\" = \"b\" }\n"),
        "external_labels.\"\" in a.toml:1: the name of a label must not be empty"
    );
    assert_eq!(
        file("external_labels = { a = 7 }\n"),
        "external_labels.a in a.toml:1: must be a string, true or false, a list or a table"
    );
    assert_eq!(
        file("external_labels = { a = true }\n"),
        "external_labels.a in a.toml:1: must be a string"
    );
    assert_eq!(file("external_labels = [\"a\"]\n"), "a.toml:1: external_labels must not be a list");
    assert_eq!(
        file("scrape_interval = \"0\"\n"),
        "scrape_interval = \"0\" in a.toml:1: must be more than 0"
    );
    let variables = [("PROMKAIROS_EXTERNAL_LABELS", "cluster=eu-1")];
    let line = refusal(&run(folder.path(), &["--listen=127.0.0.1:0"], &variables));
    let want = "PROMKAIROS_EXTERNAL_LABELS: must be a table of names of labels with values";
    assert!(line.starts_with(want), "{line}");
    let variables = [("PROMKAIROS_EVALUATION_INTERVAL", "often")];
    let line = refusal(&run(folder.path(), &["--listen=127.0.0.1:0"], &variables));
    let want = "PROMKAIROS_EVALUATION_INTERVAL=\"often\": not a duration";
    assert!(line.starts_with(want), "{line}");
}

/// The labels of all series of a remote-read answer of either type: labels in their order, series sorted.
async fn read(server: &Promkairos, kind: ResponseType, matchers: &[(&str, &str)]) -> Vec<Pairs> {
    let equal = |(name, value): &(&str, &str)| v1::LabelMatcher {
        r#type: v1::label_matcher::Type::Eq.into(),
        name: (*name).to_owned(),
        value: (*value).to_owned(),
    };
    let query = v1::Query {
        matchers: matchers.iter().map(equal).collect(),
        end_timestamp_ms: i64::MAX,
        ..v1::Query::default()
    };
    let accepted_response_types = vec![kind.into()];
    let request = v1::ReadRequest { queries: vec![query], accepted_response_types };
    let body = snappy::compress(&request.encode_to_vec()).expect("small");
    let request = reqwest::Client::new().post(server.url("/api/v1/read")).body(body);
    let response = request.send().await.expect("an answer");
    assert_eq!(response.status().as_u16(), 200);
    let body = response.bytes().await.expect("a body");
    let labels = match kind {
        ResponseType::Samples => {
            let mut buffer = Vec::new();
            let message = snappy::decompress(&body, &mut buffer).expect("a block");
            let response = v1::ReadResponse::decode(message).expect("a message");
            let all = response.results.into_iter().flat_map(|result| result.timeseries);
            all.map(|series| series.labels).collect()
        }
        ResponseType::StreamedXorChunks => streamed(&body),
    };
    let pairs = |labels: Vec<v1::Label>| -> Pairs {
        labels.into_iter().map(|label| (label.name, label.value)).collect()
    };
    let mut all: Vec<Pairs> = labels.into_iter().map(pairs).collect();
    all.sort();
    all
}

fn streamed(mut body: &[u8]) -> Vec<Vec<v1::Label>> {
    let mut all = Vec::new();
    while !body.is_empty() {
        let length = prost::encoding::decode_varint(&mut body).expect("a length") as usize;
        let (checksum, rest) = body.split_at(4);
        let (payload, rest) = rest.split_at(length);
        assert_eq!(checksum, crc32c::crc32c(payload).to_be_bytes());
        let frame = v1::ChunkedReadResponse::decode(payload).expect("a message");
        all.extend(frame.chunked_series.into_iter().map(|series| series.labels));
        body = rest;
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn remote_read_adds_them_and_finds_series_by_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut server, file) = configured(folder.path(), &Backend::Embedded, LABELS, &[]).await;
    let series = |labels: &[(&str, &str)]| {
        floats(&[&[("__name__", "m")][..], labels].concat(), &[(1_000, 1.0)])
    };
    // Stored series without an external label, with its value, and with another value.
    let stored =
        [&[("z", "1")][..], &[("cluster", "eu-1"), ("z", "2")], &[("cluster", "us"), ("z", "3")]];
    assert_eq!(send(&server.url(""), stored.map(series).into()).await, 204);
    let answered = |cluster: &str, z: &str| {
        owned(&[("__name__", "m"), ("cluster", cluster), ("replica", "a"), ("z", z)])
    };
    let [without, same, other] =
        [("eu-1", "1"), ("eu-1", "2"), ("us", "3")].map(|(c, z)| answered(c, z));
    for kind in [ResponseType::Samples, ResponseType::StreamedXorChunks] {
        let read = async |matchers: &[(&str, &str)]| {
            read(&server, kind, &[&[("__name__", "m")][..], matchers].concat()).await
        };
        let all = [without.clone(), same.clone(), other.clone()];
        assert_eq!(read(&[]).await, all, "{kind:?}");
        assert_eq!(read(&[("replica", "a")]).await, all, "{kind:?}");
        // Each series that is found has the label in the answer.
        let found = [without.clone(), same.clone()];
        assert_eq!(read(&[("cluster", "eu-1")]).await, found, "{kind:?}");
        assert_eq!(read(&[("cluster", "us")]).await, std::slice::from_ref(&other), "{kind:?}");
        assert_eq!(read(&[("cluster", "eu-2")]).await, [] as [Pairs; 0], "{kind:?}");
        assert_eq!(read(&[("replica", "b")]).await, [] as [Pairs; 0], "{kind:?}");
        assert_eq!(read(&[("cluster", "")]).await, std::slice::from_ref(&without), "{kind:?}");
    }
    // Queries and lists of labels return only the stored labels.
    let parameters =
        [("query", "count(m{cluster=\"eu-1\"}) + count(m{replica=\"\"})"), ("time", "1")];
    let (status, answer) = api::get(&server.url("/api/v1/query"), &parameters).await;
    assert_eq!((status, &answer["data"]["result"][0]["value"][1]), (200, &json!("4")));
    let (status, answer) = api::get(&server.url("/api/v1/labels"), &[]).await;
    assert_eq!((status, &answer["data"]), (200, &json!(["__name__", "cluster", "z"])));
    // Without the setting nothing is added.
    write_settings(&file, "");
    assert_eq!(reload(&server).await, (200, "changed: external-labels\n".to_owned()));
    for kind in [ResponseType::Samples, ResponseType::StreamedXorChunks] {
        let found = read(&server, kind, &[("__name__", "m"), ("cluster", "eu-1")]).await;
        assert_eq!(
            found,
            [owned(&[("__name__", "m"), ("cluster", "eu-1"), ("z", "2")])],
            "{kind:?}"
        );
    }
    assert!(server.process.terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn federation_adds_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = "[external_labels]\ncluster = \"eu-1\"\n\"a.b\" = \"c\\\"d\"\nzone = \"z\"\n";
    let (mut server, file) = configured(folder.path(), &Backend::Embedded, settings, &[]).await;
    let now = Clock::default().now_ms();
    let series = vec![
        floats(&[("__name__", "fed"), ("job", "j")], &[(now, 1.0)]),
        floats(&[("__name__", "fed"), ("cluster", "own"), ("instance", "i")], &[(now, 2.0)]),
    ];
    assert_eq!(send(&server.url(""), series).await, 204);
    let page = async |selector: &str| {
        let mut url = reqwest::Url::parse(&server.url("/federate")).expect("a URL");
        url.query_pairs_mut().append_pair("match[]", selector);
        let request = reqwest::Client::new().get(url);
        let request = request.header("Accept", "text/plain; escaping=allow-utf-8");
        let response = request.send().await.expect("an answer");
        assert_eq!(response.status().as_u16(), 200);
        response.text().await.expect("a body")
    };
    let escaped = r#""a.b"="c\"d""#;
    assert_eq!(
        page("fed").await,
        format!(
            "# TYPE fed untyped\n\
             fed{{cluster=\"own\",instance=\"i\",{escaped},zone=\"z\"}} 2 {now}\n\
             fed{{job=\"j\",{escaped},cluster=\"eu-1\",instance=\"\",zone=\"z\"}} 1 {now}\n"
        )
    );
    // Selectors match only the stored labels.
    assert_eq!(page("fed{cluster=\"eu-1\"}").await, "");
    write_settings(&file, "external_labels = { instance = \"here\" }\n");
    assert_eq!(reload(&server).await.0, 200);
    assert_eq!(
        page("fed{job=\"j\"}").await,
        format!("# TYPE fed untyped\nfed{{job=\"j\",instance=\"here\"}} 1 {now}\n")
    );
    assert!(server.process.terminate().success());
}

/// The value of the metric, if the page has it.
async fn lowest_time(server: &Promkairos) -> Option<f64> {
    let (status, page) = server.get("/metrics").await.expect("an answer");
    assert_eq!(status, 200);
    let name = "prometheus_tsdb_lowest_timestamp_seconds ";
    let line = page.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_least_time_of_the_samples_is_a_metric() {
    let data = tempfile::tempdir().expect("a folder");
    let mut server = Promkairos::ready(data.path(), &Backend::Embedded, &[]).await;
    let write = async |server: &Promkairos, time: i64| {
        let series = floats(&[("__name__", "m"), ("n", &time.to_string())], &[(time, 1.0)]);
        assert_eq!(send(&server.url(""), vec![series]).await, 204);
    };
    let becomes = async |server: &Promkairos, want: f64| {
        eventually("the metric follows", async || match lowest_time(server).await {
            Some(time) if time == want => Ok(()),
            other => Err(format!("{other:?}, not {want}")),
        })
        .await;
    };
    assert_eq!(lowest_time(&server).await, None, "there is no sample");
    write(&server, 1_700_000_000_500).await;
    becomes(&server, 1_700_000_000.5).await;
    // A late, older sample lowers the time; a newer sample does not change it.
    write(&server, 1_600_000_000_000).await;
    becomes(&server, 1_600_000_000.0).await;
    write(&server, 1_700_000_060_000).await;
    // From part files.
    assert!(server.process.terminate().success());
    let mut server = Promkairos::ready(data.path(), &Backend::Embedded, &[]).await;
    becomes(&server, 1_600_000_000.0).await;
    assert!(server.process.terminate().success());
}

/// The log before Cassandra has the newest samples only, so it says nothing of the lowest time.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_before_cassandra_reports_no_lowest_time() {
    let data = tempfile::tempdir().expect("a folder");
    let mut server = Promkairos::ready(data.path(), &Backend::cassandra_wal(), &[]).await;
    let series = floats(&[("__name__", "m")], &[(1_700_000_000_000, 1.0)]);
    assert_eq!(send(&server.url(""), vec![series]).await, 204);
    // Longer than the embedded store needs to report the metric.
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(lowest_time(&server).await, None);
    assert!(server.process.terminate().success());
}
