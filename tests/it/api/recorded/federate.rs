//! Replays `/federate`: samples are written with times shortly before now and requested as scrapers do.

use std::time::{SystemTime, UNIX_EPOCH};

use promkairos::api::proto::v1;
use promkairos::model::STALE_NAN_BITS;
use promkairos::promql::{Features, Settings};
use regex::{Captures, Regex};
use serde_json::{Value as Json, json};

use super::write;
use super::{in_process, lines, pairs, text};
use crate::support::series::{floats, send};

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_samples_are_given_as_text() {
    let url = in_process(Settings::default(), Features::Stable).await;
    let cases = lines("federate");
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let now = i64::try_from(since.as_millis()).expect("before long");
    write(&url, &written(&cases[0], now)).await;
    let mut wrong = Vec::new();
    for case in &cases[1..] {
        let got = ask(&url, case, now).await;
        let want = [text(&case["content_type"]), text(&case["raw"])];
        let sorted = |page: &str| {
            let mut lines: Vec<String> = page.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        if got[0] != want[0] || sorted(&got[1]) != sorted(want[1]) {
            wrong.push(format!("{}\n  got  {got:?}\n  want {want:?}", case["id"]));
        }
    }
    println!("federate: {} of {} differ", wrong.len(), cases.len() - 1);
    assert_eq!(cases.len(), 20);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// How names are escaped for each `Accept` header, as Prometheus 3.16 answered.
#[tokio::test(flavor = "multi_thread")]
async fn names_are_escaped_as_the_client_asks() {
    let url = in_process(Settings::default(), Features::Stable).await;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let now = i64::try_from(since.as_millis()).expect("before long");
    let odd = [("__name__", "http.server/requests_total"), ("l.x_y/z", "é"), ("plain_label", "1")];
    let plain = [("__name__", "fed_plain_total"), ("plain_label", "1")];
    let series = vec![floats(&odd, &[(now, 4.0)]), floats(&plain, &[(now, 5.0)])];
    assert_eq!(send(&url, series).await, 204);
    let openmetrics = "application/openmetrics-text;version=1.0.0;escaping=dots;q=0.6,text/plain;\
                       version=1.0.0;escaping=values;q=0.5";
    for (accept, scheme) in [
        ("text/plain; version=1.0.0; escaping=underscores", "underscores"),
        ("text/plain; version=1.0.0; escaping=dots", "dots"),
        ("text/plain; version=1.0.0; escaping=values", "values"),
        ("text/plain; version=1.0.0; escaping=allow-utf-8", "allow-utf-8"),
        ("text/plain;version=0.0.4;escaping=underscores", "underscores"),
        ("text/plain;version=0.0.4;escaping=dots", "dots"),
        ("text/plain;version=0.0.4;escaping=values", "values"),
        ("text/plain;version=0.0.4;escaping=allow-utf-8", "allow-utf-8"),
        ("text/plain; version=1.0.0; escaping=nonsense", "underscores"),
        ("text/plain", "underscores"),
        ("*/*;escaping=values;q=0.1,text/plain;version=0.0.4;escaping=dots", "dots"),
        (openmetrics, "values"),
        ("text/html;escaping=values", "values"),
    ] {
        let params = json!([["match[]", "{plain_label=\"1\"}"]]);
        let case = json!({ "params": params, "headers": { "Accept": accept }, "status": 200 });
        let [kind, page] = ask(&url, &case, now).await;
        let (head, label) = match scheme {
            "underscores" => ("http_server_requests_total", "l_x_y_z"),
            "dots" => ("http_dot_server__requests__total", "l_dot_x__y__z"),
            "values" => ("U__http_2e_server_2f_requests__total", "U__l_2e_x__y_2f_z"),
            _ => ("\"http.server/requests_total\"", "\"l.x_y/z\""),
        };
        let quoted = head.starts_with('"');
        let sample = if quoted { format!("{{{head},") } else { format!("{head}{{") };
        let want = format!(
            "# TYPE fed_plain_total untyped\n\
             fed_plain_total{{plain_label=\"1\",instance=\"\"}} 5 <now-0>\n\
             # TYPE {head} untyped\n\
             {sample}{label}=\"é\",plain_label=\"1\",instance=\"\"}} 4 <now-0>\n"
        );
        assert_eq!(page, want, "{accept}");
        let want = format!("text/plain; version=0.0.4; charset=utf-8; escaping={scheme}");
        assert_eq!(kind, want, "{accept}");
    }
}

/// The write request of a case; its samples are given by age.
fn written(case: &Json, now: i64) -> v1::WriteRequest {
    let series = case["series"].as_array().expect("series").iter().map(|series| {
        let labels = pairs(&series["labels"]).into_iter();
        // Prometheus leaves out empty labels; a sender does so itself.
        let labels = labels.filter(|(_, value)| !value.is_empty());
        let label =
            |(name, value): (&str, &str)| v1::Label { name: name.into(), value: value.into() };
        let mut labels: Vec<v1::Label> = labels.map(label).collect();
        labels.sort_by(|a, b| a.name.cmp(&b.name));
        let timestamp = now - series["age_s"].as_i64().expect("seconds") * 1000;
        let sample = |value, timestamp| v1::Sample { value, timestamp };
        let samples = match text(&series["value"]) {
            "stale" => vec![
                sample(9.0, timestamp - 60_000),
                sample(f64::from_bits(STALE_NAN_BITS), timestamp),
            ],
            value => vec![sample(value.parse().expect("a number"), timestamp)],
        };
        v1::TimeSeries { labels, samples, ..Default::default() }
    });
    v1::WriteRequest { timeseries: series.collect(), metadata: Vec::new() }
}

/// Content type and body, with times as `<now-N>`.
async fn ask(url: &str, case: &Json, now: i64) -> [String; 2] {
    let query = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(pairs(&case["params"]))
        .finish();
    let mut request = reqwest::Client::new().get(format!("{url}/federate?{query}"));
    for (name, value) in case["headers"].as_object().expect("headers") {
        request = request.header(name, text(value));
    }
    let response = request.send().await.expect("an answer");
    assert_eq!(u64::from(response.status().as_u16()), case["status"], "{}", case["id"]);
    let kind = response.headers()["content-type"].to_str().expect("ascii").to_owned();
    let body = response.text().await.expect("a body");
    let time = Regex::new(r"(?m)\d{13}$").expect("a pattern");
    let age =
        |found: &Captures<'_>| format!("<now-{}>", now - found[0].parse::<i64>().expect("digits"));
    [kind, time.replace_all(&body, age).into_owned()]
}
