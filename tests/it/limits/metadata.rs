//! The limit of the metadata of metric families.

use super::{logged, metric, series, stored};
use crate::support::load::compress;
use crate::support::promkairos::{Answer, Backend, Message, Promkairos};
use crate::support::proto;

/// Sends version 1 metadata entries (family and help) together with series.
async fn send(server: &Promkairos, families: &[(&str, &str)], series: &[proto::Message]) -> Answer {
    let entry = |(family, help): &(&str, &str)| {
        proto::Message::default().varint(1, 2).bytes(2, *family).bytes(4, *help)
    };
    let request = proto::Message::default().messages(1, series.to_vec());
    let request = request.messages(3, families.iter().map(entry));
    server.write(Message::V1, compress(&request)).await.expect("an answer")
}

/// Sends version 2 series with one point each. Each series carries the help text of its metric.
async fn send_v2(server: &Promkairos, sent: &[(&str, &str, &str)]) -> Answer {
    let mut symbols = vec!["", "__name__", "host"];
    let mut symbol = |text| match symbols.iter().position(|known| *known == text) {
        Some(at) => at as u64,
        None => {
            symbols.push(text);
            symbols.len() as u64 - 1
        }
    };
    let mut series = Vec::new();
    for (metric, host, help) in sent {
        let refs = [1, symbol(metric), 2, symbol(host)];
        let point = proto::Message::default().double(1, 1.0).varint(2, 1_700_000_000_000);
        let metadata = proto::Message::default().varint(1, 2).varint(3, symbol(help));
        let all = refs.into_iter().fold(proto::Message::default(), |all, at| all.varint(1, at));
        series.push(all.messages(2, [point]).messages(5, [metadata]));
    }
    let request = symbols.iter().fold(proto::Message::default(), |all, text| all.bytes(4, text));
    server.write(Message::V2, compress(&request.messages(5, series))).await.expect("an answer")
}

/// The stored families and their help texts.
async fn known(server: &Promkairos, query: &str) -> Vec<(String, String)> {
    let (status, text) = server.get(&format!("/api/v1/metadata{query}")).await.expect("an answer");
    assert_eq!(status, 200, "{text}");
    let answer: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let families = answer["data"].as_object().expect("families").iter();
    let help = |said: &serde_json::Value| said[0]["help"].as_str().expect("a help").to_owned();
    families.map(|(family, said)| (family.clone(), help(said))).collect()
}

fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(family, help)| ((*family).to_owned(), (*help).to_owned())).collect()
}

async fn new_families_are_refused_and_the_rest_is_stored(backend: Backend) {
    let data = tempfile::tempdir().expect("a folder");
    let flags = ["--max-metadata-size=250B"];
    let mut server = Promkairos::ready(data.path(), &backend, &flags).await;
    let two = [("aa", "1234"), ("bb", "1234")];
    assert_eq!(send(&server, &two, &[]).await.status, 204);
    assert_eq!(metric(&server, "metadata_bytes").await, Some(212.0));
    let answer = send(&server, &[two[0], ("cc", "1234"), two[1]], &[series("cc", "x", 1)]).await;
    let why = "no metadata of cc: 2 metric families have 212 bytes of it, and the setting \
               max-metadata-size is 250 bytes\n";
    assert_eq!((answer.status, &*answer.body), (400, why));
    logged(&server, "metadata entries are refused: no metadata of cc").await;
    // In version 2 a series that is not the first of its family can carry the metadata.
    let sent = [("dd", "x", "1"), ("aa", "x", "12"), ("dd", "y", "12"), ("aa", "y", "123")];
    let answer = send_v2(&server, &sent).await;
    assert_eq!(answer.status, 400, "{}", answer.body);
    assert!(answer.body.starts_with("no metadata of dd: "), "{}", answer.body);
    let longer = "1".repeat(60);
    assert_eq!(send(&server, &[("bb", &longer)], &[]).await.status, 400);
    let reached = "limits_reached_total{limit=\"max-metadata-size\"}";
    assert_eq!(metric(&server, reached).await, Some(3.0));
    let check = async |server: &Promkairos| {
        assert_eq!(known(server, "").await, pairs(&[("aa", "123"), ("bb", "1234")]));
        assert_eq!(stored(server, "cc").await, ["x"]);
        assert_eq!(stored(server, "dd").await, ["x", "y"]);
    };
    check(&server).await;
    assert_eq!(known(&server, "?limit=1").await, pairs(&[("aa", "123")]));
    assert_eq!(known(&server, "?metric=bb&limit=1").await, pairs(&[("bb", "1234")]));
    // The refused metadata does not return when the log is replayed.
    server.process.kill();
    let flags = ["--max-metadata-size=250B", "--series-limit-answer=429"];
    let server = Promkairos::ready(data.path(), &backend, &flags).await;
    check(&server).await;
    // A retry would not help, because nothing removes the stored metadata.
    let many = ["cc", "dd", "ee"].map(|family| (family, "1234"));
    assert_eq!(send(&server, &many, &[]).await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn new_families_are_refused_embedded() {
    new_families_are_refused_and_the_rest_is_stored(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_families_are_refused_over_cassandra() {
    new_families_are_refused_and_the_rest_is_stored(Backend::cassandra_store()).await;
    new_families_are_refused_and_the_rest_is_stored(Backend::cassandra_wal()).await;
}

/// The limit may be set below the size that is already stored.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_beyond_the_limit_stays_and_nothing_new_is_taken() {
    let data = tempfile::tempdir().expect("a folder");
    let three = [("a", "1"), ("b", "2"), ("c", "3")];
    let mut server = Promkairos::ready(data.path(), &Backend::Embedded, &[]).await;
    assert_eq!(send(&server, &three, &[]).await.status, 204);
    // Once from the log and once from the file of the store.
    for ends_well in [false, true] {
        if ends_well {
            assert!(server.process.terminate().success());
        } else {
            server.process.kill();
        }
        let flags = ["--max-metadata-size=150B"];
        server = Promkairos::ready(data.path(), &Backend::Embedded, &flags).await;
        assert_eq!(metric(&server, "metadata_bytes").await, Some(306.0));
        assert_eq!(send(&server, &three, &[]).await.status, 204);
        assert_eq!(send(&server, &[("d", "")], &[]).await.status, 400);
        assert_eq!(known(&server, "").await, pairs(&three));
    }
}
