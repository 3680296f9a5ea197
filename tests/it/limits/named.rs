//! Every refusal at a limit names the setting to change, or says that no setting changes it. `heads` tests the limits
//! of heads. Limits that need a crowd or a load are tested beside the code that makes the load.

use std::collections::BTreeSet;
use std::iter::repeat_n;

use super::learned;
use crate::docs::help;
use crate::support::load::compress;
use crate::support::promkairos::{Backend, Message, Promkairos};
use crate::support::proto;
use crate::tidy::flags;

/// The text of a refusal whose limit is not a setting.
const NO_SETTING: &str = "no setting changes that";

/// Small limits, so that small requests exceed them.
const FLAGS: [&str; 20] = [
    "--max-request-body-size=3MiB",
    "--max-decoded-body-size=20MiB",
    "--max-series-per-request=5000",
    "--max-samples-per-request=5000",
    "--max-samples-per-second=1000000",
    "--max-labels-per-series=20",
    "--max-label-name-size=200",
    "--max-label-value-size=2000",
    "--max-labels-size=6000",
    "--max-sample-age=3650d",
    "--max-sample-lead=1d",
    "--max-metadata-size=100KiB",
    "--query-max-series=2",
    "--query-max-samples=1000",
    "--query-max-samples-read=1000",
    "--query-max-memory=1MiB",
    "--query-max-depth=20",
    "--max-active-series=2000",
    "--max-active-series-per-metric=1000",
    "--enable-admin-api",
];

fn message() -> proto::Message {
    proto::Message::default()
}

fn labels(pairs: &[(&str, &str)]) -> Vec<proto::Message> {
    pairs.iter().map(|(name, value)| message().bytes(1, name).bytes(2, value)).collect()
}

/// A series with these labels and its name, and `one` in this field.
fn series(pairs: &[(&str, &str)], field: u32, one: proto::Message) -> proto::Message {
    let pairs = [&[("__name__", "m")][..], pairs].concat();
    message().messages(1, labels(&pairs)).messages(field, [one])
}

fn float(at: u64) -> proto::Message {
    message().double(1, 1.0).varint(2, at)
}

fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
    since.expect("after 1970").as_millis() as u64
}

/// Remote writes of version 1 that exceed a limit, with the name of the limit.
fn writes() -> Vec<(&'static str, proto::Message)> {
    let now = now();
    let write = |one: proto::Message| message().messages(1, [one]);
    let long = |bytes: usize| "v".repeat(bytes);
    let many_labels: Vec<(String, String)> =
        (0..30).map(|number| (format!("l{number:02}"), "v".to_owned())).collect();
    let many_labels: Vec<(&str, &str)> =
        many_labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let (name, value, trace, too_long) = (long(300), long(1_900), long(200), long(2_001));
    let wide = ["a", "b", "c", "d"].map(|name| (name, value.as_str()));
    let buckets = message()
        .varint(1, 5_000)
        .double(3, 1.0)
        .bytes(11, message().varint(2, 5_000).0)
        .packed_zigzag(12, &[[1].as_slice(), &[0; 4_999]].concat())
        .varint(15, now);
    let exemplar =
        message().messages(1, labels(&[("trace", trace.as_str())])).double(2, 1.0).varint(3, now);
    let metadata = |help: &str| message().varint(1, 1).bytes(2, "m").bytes(4, help);
    let families = (0..2_000).map(|number| message().varint(1, 1).bytes(2, format!("m{number}")));
    vec![
        ("histograms", message().bytes(1, [0x22, 0].repeat((1 << 17) + 1))),
        ("exemplars", message().bytes(1, [0x1a, 0].repeat((1 << 17) + 1))),
        ("metadata", message().messages(3, repeat_n(message(), (1 << 17) + 1))),
        ("samples", write(message().messages(2, repeat_n(float(now), 5_001)))),
        ("labels of a series", write(series(&many_labels, 2, float(now)))),
        ("a name", write(series(&[(name.as_str(), "v")], 2, float(now)))),
        ("a value", write(series(&[("a", too_long.as_str())], 2, float(now)))),
        ("all labels", write(series(&wide, 2, float(now)))),
        ("buckets", write(series(&[], 4, buckets))),
        ("an exemplar", write(series(&[], 3, exemplar).messages(2, [float(now)]))),
        ("a help", message().messages(3, [metadata(&long(17_000))])),
        ("all metadata", message().messages(3, families)),
        ("the past", write(series(&[], 2, float(1)))),
        ("the future", write(series(&[], 2, float(now + (48 << 20) * 2)))),
        ("the year 10000", write(series(&[], 2, float(253_402_300_800_000)))),
        ("decoded bytes", message().bytes(9, vec![0; 21 << 20])),
    ]
}

/// Remote writes of version 2.
fn writes_of_symbols() -> Vec<(&'static str, proto::Message)> {
    let long = "v".repeat(2_000);
    let texts = ["", "__name__", "m", long.as_str(), "a", "b", "c", "d", "e", "f", "g", "h"];
    let symbols = texts.into_iter().fold(message(), |all, text| all.bytes(4, text));
    // Each of the names has the long value.
    let refs: Vec<u8> = [1, 2].into_iter().chain((4..12).flat_map(|name| [name, 3])).collect();
    let wide = message().bytes(1, refs).messages(2, [float(now())]);
    vec![
        ("symbols", message().messages(4, repeat_n(message(), (1 << 20) + 1))),
        ("label bytes", symbols.messages(5, repeat_n(wide, 4_500))),
    ]
}

/// Queries that exceed a limit. Long queries are sent as a form, others with GET.
fn queries() -> Vec<(&'static str, String)> {
    let nested = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
    let text = "v".repeat(600_000);
    let first = format!("label_replace(vector(1),\"a\",\"{text}\",\"\",\"\")");
    vec![
        ("text", format!("\"{}\"", "v".repeat((1 << 20) + 1))),
        ("nesting of a text", nested(600)),
        ("nesting", format!("{}1{}", "abs(".repeat(30), ")".repeat(30)).replace('1', "m")),
        ("nesting of a pattern", format!("m{{a=~\"{}{}\"}}", "(a".repeat(300), ")*".repeat(300))),
        ("a label", format!("label_replace({first},\"b\",\"$1$1\",\"a\",\"(.*)\")")),
        ("series", "k".to_owned()),
        ("samples read", "sum_over_time(one[1h])".to_owned()),
        ("samples", "sum_over_time(vector(1)[1h:1s])[1h:1s]".to_owned()),
        ("memory", "count_over_time(vector(1)[12h:1s])".to_owned()),
    ]
}

/// Remote reads.
fn reads() -> Vec<(&'static str, proto::Message)> {
    let query = |matchers: Vec<proto::Message>| {
        message().messages(1, [message().varint(1, 0).varint(2, now()).messages(3, matchers)])
    };
    let matcher = |kind: u64, value: &str| message().varint(1, kind).bytes(2, "a").bytes(3, value);
    vec![
        ("queries", message().messages(1, repeat_n(message(), 257))),
        ("matchers", query(vec![matcher(0, "v"); 129])),
        ("fields", message().messages(1, repeat_n(message(), (1 << 16) + 1))),
        ("patterns", query(vec![matcher(2, &format!("{}.*", "v".repeat((1 << 20) + 1)))])),
        ("samples", query(vec![message().varint(1, 0).bytes(2, "__name__").bytes(3, "one")])),
        ("decoded bytes", message().bytes(9, vec![0; 21 << 20])),
    ]
}

/// Whether a text names a setting in the common wording, or says that there is none.
fn says_what_to_set(text: &str, settings: &BTreeSet<String>) -> bool {
    let named = |rest: &str| {
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let name: String = rest.chars().take_while(|c| is_name(*c)).collect();
        settings.contains(&format!("--{name}"))
    };
    text.contains(NO_SETTING) || text.split("setting ").skip(1).any(named)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_refusal_at_a_limit_says_what_to_set() {
    let settings = flags(&help(&[]));
    assert!(settings.contains("--wal-limit") && settings.len() > 50, "{settings:?}");
    let data = tempfile::tempdir().expect("a folder");
    let server = Promkairos::ready(data.path(), &Backend::Embedded, &FLAGS).await;
    learned(&server).await;
    let mut wrong = Vec::new();
    let mut judge = |what: String, status: u16, text: String| {
        let is_refused = [400, 413, 422, 429, 503].contains(&status);
        if !is_refused || !says_what_to_set(&text, &settings) {
            wrong.push(format!("{what}: {status} {}", text.chars().take(300).collect::<String>()));
        }
    };
    // A metric with more series than a query may have, and a series with more samples.
    let known: Vec<_> = ["a", "b", "c"]
        .map(|value| message().messages(1, labels(&[("__name__", "k"), ("l", value)])))
        .into_iter()
        .map(|one| one.messages(2, [float(now())]))
        .collect();
    let points = (0..3_000).map(|number| float(now() - number * 1_000));
    let one = message().messages(1, labels(&[("__name__", "one")])).messages(2, points);
    let body = compress(&message().messages(1, known).messages(1, [one]));
    let answer = server.write(Message::V1, body).await.expect("an answer");
    assert_eq!(answer.status, 204, "{}", answer.body);

    for (version, all) in [(Message::V1, writes()), (Message::V2, writes_of_symbols())] {
        for (what, body) in all {
            let answer = server.write(version, compress(&body)).await.expect("an answer");
            judge(format!("write, {what}"), answer.status, answer.body);
        }
    }
    for metric in ["m", "n", "o"] {
        let many = (0..1_500).map(|number| {
            let number = number.to_string();
            let pairs = [("__name__", metric), ("l", number.as_str())];
            message().messages(1, labels(&pairs)).messages(2, [float(now())])
        });
        let body = compress(&message().messages(1, many));
        let answer = server.write(Message::V1, body).await.expect("an answer");
        judge(format!("write, active series of {metric}"), answer.status, answer.body);
    }
    let client = reqwest::Client::new();
    let post = async |path: &str, kind: &str, body: Vec<u8>| {
        let request = client.post(server.url(path)).header("Content-Type", kind).body(body);
        let answer = request.send().await.expect("an answer");
        (answer.status().as_u16(), answer.text().await.expect("a text"))
    };
    let form = async |path: &str, pairs: &[(&str, &str)]| {
        post(path, "application/x-www-form-urlencoded", form_urlencoded(pairs)).await
    };
    for (what, query) in queries() {
        let (status, text) = form("/api/v1/query", &[("query", &query)]).await;
        judge(format!("query, {what}"), status, text);
    }
    let many: Vec<(&str, &str)> = vec![("match[]", "m"); 257];
    let long = format!("m{{a=\"{}\"}}", "v".repeat((1 << 20) + 1));
    for (what, pairs) in
        [("selectors", &many[..]), ("bytes of selectors", &[("match[]", long.as_str())][..])]
    {
        for path in ["/api/v1/series", "/api/v1/labels"] {
            let (status, text) = form(path, pairs).await;
            judge(format!("{path}, {what}"), status, text);
        }
    }
    for (what, body) in reads() {
        let (status, text) = post("/api/v1/read", "application/x-protobuf", compress(&body)).await;
        judge(format!("read, {what}"), status, text);
    }
    let large = || vec![b'a'; 4 << 20];
    for (path, kind) in [
        ("/api/v1/write", "application/x-protobuf"),
        ("/api/v1/read", "application/x-protobuf"),
        ("/api/v1/datapoints", "application/json"),
        ("/api/v1/query", "application/x-www-form-urlencoded"),
        ("/api/v1/admin/tsdb/delete_series", "application/x-www-form-urlencoded"),
    ] {
        let (status, text) = post(path, kind, large()).await;
        assert_eq!(status, 413, "{path}: {text}");
        judge(format!("{path}, body"), status, text);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Pairs encoded as a form; only the characters that need it are escaped.
fn form_urlencoded(pairs: &[(&str, &str)]) -> Vec<u8> {
    let encoded = |text: &str| {
        text.bytes().fold(String::with_capacity(text.len()), |mut all, byte| {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => all.push(char::from(byte)),
                byte => all.push_str(&format!("%{byte:02X}")),
            }
            all
        })
    };
    let pairs = pairs.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
    pairs.collect::<Vec<_>>().join("&").into_bytes()
}
