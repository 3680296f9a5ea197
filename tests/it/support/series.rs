//! Series for remote write 1.0, and a client that sends them to any server.

use promkairos::api::proto::v1;
use promkairos::wire::snappy;
use prost::Message;

/// Labels of a message, sorted as senders must.
pub(crate) fn labels(pairs: &[(&str, &str)]) -> Vec<v1::Label> {
    let label =
        |&(name, value): &(&str, &str)| v1::Label { name: name.into(), value: value.into() };
    let mut labels: Vec<v1::Label> = pairs.iter().map(label).collect();
    labels.sort_by(|a, b| a.name.cmp(&b.name));
    labels
}

/// A series with floats at times in milliseconds.
pub(crate) fn floats(pairs: &[(&str, &str)], points: &[(i64, f64)]) -> v1::TimeSeries {
    let sample = |&(timestamp, value): &(i64, f64)| v1::Sample { value, timestamp };
    let samples = points.iter().map(sample).collect();
    v1::TimeSeries { labels: labels(pairs), samples, ..v1::TimeSeries::default() }
}

/// Sends series; returns the status of the answer.
pub(crate) async fn send(url: &str, timeseries: Vec<v1::TimeSeries>) -> u16 {
    send_request(url, &v1::WriteRequest { timeseries, ..v1::WriteRequest::default() }).await
}

/// The same for a whole request.
pub(crate) async fn send_request(url: &str, request: &v1::WriteRequest) -> u16 {
    let request = reqwest::Client::new()
        .post(format!("{url}/api/v1/write"))
        .header("Content-Encoding", "snappy")
        .header("Content-Type", "application/x-protobuf")
        .header("X-Prometheus-Remote-Write-Version", "0.1.0")
        .body(snappy::compress(&request.encode_to_vec()).expect("small"));
    request.send().await.expect("an answer").status().as_u16()
}
