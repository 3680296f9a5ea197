//! Parses answers of Prometheus' HTTP API, in JSON.
//!
//! Pure bytes. Invariant: only an answer that reports success and has the expected form is used;
//! anything else is `None`, never an empty answer. A missing `data` is an empty list: some versions
//! of Prometheus write it so.

use std::collections::BTreeMap;

use serde::de::{Deserialize, Deserializer, Error as _};
use serde_json::Value as Json;

use crate::model::{Exemplar, Labels, Metadata, MetricType};

/// Whether a list has an item.
pub fn is_any_listed(answer: &[u8]) -> Option<bool> {
    match data(answer)? {
        Json::Null => Some(false),
        Json::Array(items) => Some(!items.is_empty()),
        _ => None,
    }
}

/// Exemplars by series. There may be very many: no part of the answer is in memory twice.
pub fn exemplars(answer: &[u8]) -> Option<Vec<(Labels, Vec<Exemplar>)>> {
    let answer: ShownExemplars = serde_json::from_slice(answer).ok()?;
    let series = (answer.status == "success").then(|| answer.data.unwrap_or_default())?;
    let series = series.into_iter().map(|ShownSeries { labels, exemplars }| {
        (labels, exemplars.into_iter().map(|ShownExemplar(exemplar)| exemplar).collect())
    });
    Some(series.collect())
}

#[derive(serde::Deserialize)]
struct ShownExemplars {
    status: String,
    data: Option<Vec<ShownSeries>>,
}

#[derive(serde::Deserialize)]
struct ShownSeries {
    #[serde(rename = "seriesLabels", deserialize_with = "labels")]
    labels: Labels,
    exemplars: Vec<ShownExemplar>,
}

struct ShownExemplar(Exemplar);

impl<'de> Deserialize<'de> for ShownExemplar {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        /// The value is a text, the time is in seconds.
        #[derive(serde::Deserialize)]
        struct Fields {
            #[serde(deserialize_with = "labels")]
            labels: Labels,
            value: String,
            timestamp: f64,
        }
        let Fields { labels, value, timestamp } = Fields::deserialize(from)?;
        let value = value.parse().map_err(D::Error::custom)?;
        let timestamp = (timestamp * 1000.0).round() as i64;
        Ok(Self(Exemplar { labels, value, timestamp }))
    }
}

fn labels<'de, D: Deserializer<'de>>(from: D) -> Result<Labels, D::Error> {
    Labels::from_pairs(BTreeMap::<String, String>::deserialize(from)?).map_err(D::Error::custom)
}

/// Metadata of families; of several entries of a family the first.
pub fn metadata(answer: &[u8]) -> Option<Vec<(String, Metadata)>> {
    let families = match data(answer)? {
        Json::Null => return Some(Vec::new()),
        Json::Object(families) => families,
        _ => return None,
    };
    let families = families.into_iter().map(|(family, all)| {
        let text = |name: &str| all[0][name].as_str().map(str::to_owned);
        let kind = text("type")?;
        let mut kinds = (0..8).map(MetricType::from_number);
        let kind = kinds.find(|known| known.as_str() == kind).unwrap_or_default();
        Some((family, Metadata { kind, help: text("help")?, unit: text("unit")? }))
    });
    families.collect()
}

/// Why a request failed, from its answer: in JSON, or in plain text.
pub fn why(answer: &str) -> String {
    let json: Option<Json> = serde_json::from_str(answer).ok();
    let why = json.as_ref().and_then(|json| json["error"].as_str());
    why.unwrap_or(answer.trim()).to_owned()
}

/// `data` of an answer that reports success; null if there is none.
fn data(answer: &[u8]) -> Option<Json> {
    let mut json: Json = serde_json::from_slice(answer).ok()?;
    let fields = json.as_object_mut()?;
    let is_success = fields.get("status").and_then(Json::as_str) == Some("success");
    is_success.then(|| fields.remove("data").unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn exemplars_of_the_http_api() {
        let exemplar = |exemplar: Json| {
            let series = json!([{ "seriesLabels": { "a": "b" }, "exemplars": [exemplar] }]);
            let answer = json!({ "status": "success", "data": series }).to_string();
            let (labels, mut exemplars) = exemplars(answer.as_bytes())?.pop()?;
            assert_eq!(labels.get("a"), "b");
            exemplars.pop()
        };
        let read = exemplar(json!({
            "labels": { "trace_id": "a" }, "value": "-Inf", "timestamp": 1_435_781_430.78,
        }));
        let read = read.expect("an exemplar");
        assert_eq!((read.value, read.timestamp), (f64::NEG_INFINITY, 1_435_781_430_780));
        assert_eq!(read.labels.get("trace_id"), "a");
        let nan = exemplar(json!({ "labels": {}, "value": "NaN", "timestamp": 1 }));
        assert!(nan.is_some_and(|nan| nan.value.is_nan() && nan.timestamp == 1_000));
        assert_eq!(exemplar(json!({ "labels": {}, "value": 1, "timestamp": 1 })), None);
        assert_eq!(exemplar(json!({ "labels": { "b": 1 }, "value": "1", "timestamp": 1 })), None);
        assert_eq!(exemplar(json!({ "value": "1", "timestamp": 1 })), None);
    }

    #[test]
    fn nothing_is_read_from_an_answer_that_is_no_success_or_has_another_form() {
        let empty = br#"{"status":"success","data":[]}"#;
        assert_eq!(is_any_listed(empty), Some(false));
        assert_eq!(exemplars(empty), Some(Vec::new()));
        assert_eq!(is_any_listed(br#"{"status":"success","data":["up"]}"#), Some(true));
        assert_eq!(metadata(br#"{"status":"success","data":{}}"#), Some(Vec::new()));
        let nothing = br#"{"status":"success","data":null}"#;
        assert_eq!(is_any_listed(nothing), Some(false));
        assert_eq!((exemplars(nothing), metadata(nothing)), (Some(Vec::new()), Some(Vec::new())));
        for wrong in [
            "",
            "null",
            "[]",
            "{}",
            r#"{"data":[]}"#,
            r#"{"status":"error","data":[]}"#,
            r#"{"status":"success","data":"up"}"#,
            r#"{"status":"success","data":7}"#,
        ] {
            let wrong = wrong.as_bytes();
            let read = (is_any_listed(wrong), exemplars(wrong), metadata(wrong));
            assert_eq!(read, (None, None, None), "{}", wrong.escape_ascii());
        }
    }

    #[test]
    fn why_a_request_failed() {
        assert_eq!(why(r#"{"status":"error","error":"too many"}"#), "too many");
        assert_eq!(why(" no such page\n"), "no such page");
        assert_eq!(why(r#"{"status":"error"}"#), r#"{"status":"error"}"#);
    }
}
