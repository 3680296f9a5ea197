//! Replays `/api/v1/metadata`. Prometheus has an entry for each target with a different text; we keep
//! the last write only, so one of several entries is left here.

use promkairos::api::proto::v1;
use promkairos::promql::{Features, Settings};
use serde_json::Value as Json;

use super::{ask, in_process, lines, text, write};

#[tokio::test(flavor = "multi_thread")]
async fn families_are_returned_as_they_were_written() {
    let url = in_process(Settings::default(), Features::Stable).await;
    let cases = lines("metadata");
    let all = one_entry_a_family(&cases[1]["json"]["data"]);
    let families = all.as_object().expect("families").iter();
    let metadata = families.map(|(family, entries)| v1::MetricMetadata {
        r#type: kind(text(&entries[0]["type"])) as i32,
        metric_family_name: family.clone(),
        help: text(&entries[0]["help"]).to_owned(),
        unit: text(&entries[0]["unit"]).to_owned(),
    });
    let metadata = metadata.collect();
    write(&url, &v1::WriteRequest { timeseries: Vec::new(), metadata }).await;

    let http = reqwest::Client::new();
    let mut wrong = Vec::new();
    for case in &cases[1..] {
        let got = ask(&http, &url, case).await;
        let json = got.json.unwrap_or_default();
        let equal = match text(&case["compare"]) {
            "count" => case["families"] == json["data"].as_object().map_or(0, serde_json::Map::len),
            "exact" => json == case["json"],
            _ => json["data"] == one_entry_a_family(&case["json"]["data"]),
        };
        if case["status"] != got.status || !equal {
            wrong.push(format!("{} {}: {json}", case["id"], case["params"]));
        }
    }
    println!("metadata: {} of {} differ", wrong.len(), cases.len() - 1);
    assert_eq!(cases.len(), 16);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn one_entry_a_family(data: &Json) -> Json {
    let mut data = data.clone();
    for entries in data.as_object_mut().expect("families").values_mut() {
        entries.as_array_mut().expect("entries").truncate(1);
    }
    data
}

fn kind(name: &str) -> v1::metric_metadata::MetricType {
    use v1::metric_metadata::MetricType as Type;
    match name {
        "counter" => Type::Counter,
        "gauge" => Type::Gauge,
        "histogram" => Type::Histogram,
        "gaugehistogram" => Type::Gaugehistogram,
        "summary" => Type::Summary,
        "info" => Type::Info,
        other => panic!("{other} was not recorded"),
    }
}
