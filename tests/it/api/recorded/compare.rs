//! The rules by which a recorded answer and ours are compared; the recording names one rule a case.
//!
//! In every case: `peakSamples` is not compared, since another engine holds other samples. Bodies are compared
//! decompressed, so `Content-Encoding` and `Vary` may differ. A refused method is answered with `Allow` also in the
//! two places where Prometheus forgets it. Bytes that are not UTF-8 become the character U+FFFD, which Prometheus
//! escapes: every JSON reader gets the same text.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::{Arc, Mutex};

use regex::Regex;
use reqwest::header::HeaderMap;
use serde_json::{Value as Json, json};

/// The warning of Prometheus about an estimate that looked at no stored samples.
const GUESSED: &str = ",\"warnings\":[\"query cost estimate uses the configured scrape interval and float-sized \
                       points because bounded storage sampling is unavailable\"]";

/// An answer, decompressed, with what may differ masked.
pub(super) struct Answer {
    pub(super) status: u64,
    headers: HeaderMap,
    text: String,
    pub(super) json: Option<Json>,
}

impl Answer {
    pub(super) fn new(status: u64, headers: HeaderMap, body: &[u8], case: &Json) -> Self {
        let body = decompressed(&headers, body);
        let text = String::from_utf8_lossy(&body).into_owned();
        let text = masked(&text, case);
        let json = serde_json::from_str(&text).ok();
        Self { status, headers, text, json }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

fn decompressed(headers: &HeaderMap, body: &[u8]) -> Vec<u8> {
    let coding = headers.get("content-encoding").map(|value| value.as_bytes());
    let mut out = Vec::new();
    let read = match coding {
        Some(b"gzip") => flate2::read::GzDecoder::new(body).read_to_end(&mut out),
        Some(b"deflate") => flate2::read::ZlibDecoder::new(body).read_to_end(&mut out),
        Some(b"zstd") => zstd::Decoder::new(body).and_then(|mut body| body.read_to_end(&mut out)),
        Some(other) => panic!("{other:?} was not asked for"),
        None => return body.to_vec(),
    };
    read.expect("what the header says");
    out
}

/// A compiled pattern, which is compiled once: a few patterns mask thousands of answers.
fn pattern(text: &str) -> Arc<Regex> {
    static BUILT: Mutex<BTreeMap<String, Arc<Regex>>> = Mutex::new(BTreeMap::new());
    let mut built = BUILT.lock().expect("nobody panics");
    if let Some(pattern) = built.get(text) {
        return Arc::clone(pattern);
    }
    let pattern = Arc::new(Regex::new(text).expect("a pattern"));
    built.insert(text.to_owned(), Arc::clone(&pattern));
    pattern
}

/// A body without values that vary by chance, and without the memory figures of another engine.
pub(super) fn masked(text: &str, case: &Json) -> String {
    let mut text = text.to_owned();
    let hide = |text: &str, key: &str| {
        let value = format!(r#"("{}": ?)(?:-?[0-9.eE+-]+|"[^"]*")"#, regex::escape(key));
        pattern(&value).replace_all(text, r#"$1"<masked>""#).into_owned()
    };
    let masks = case["mask"].as_array().into_iter().flatten();
    for key in masks.map(|key| key.as_str().expect("a text")) {
        match key {
            "annotations" => {
                let starts = [r#""warnings":["#, r#""infos":["#].map(|start| text.find(start));
                let at = starts.into_iter().flatten().min().unwrap_or(text.len());
                let names = pattern(r"many_\d\d");
                text = text[..at].to_owned() + &names.replace_all(&text[at..], "many_NN");
            }
            "data" => {
                if let Ok(mut json) = serde_json::from_str::<Json>(&text) {
                    json["data"] = "<masked>".into();
                    text = json.to_string();
                }
            }
            // Upstream's estimate of samples, which is a guess by its own warning.
            "estimate" => {
                let samples = r#"("estimated?":\{"seriesTouched":\d+,"samplesRead":|"estimated?":\{"samplesRead":)\d+"#;
                text = pattern(samples).replace_all(&text, "${1}0").into_owned();
                text = text.replace(GUESSED, "");
            }
            key => text = hide(&text, key),
        }
    }
    // Prometheus escapes U+FFFD; a JSON reader gets the same text.
    hide(&text, "peakSamples").replace("\\ufffd", "\u{fffd}")
}

/// Compares an answer by the rule of the case; the error says what breaks the rule.
pub(super) fn compare(case: &Json, got: &Answer) -> Result<(), String> {
    let rule = case["compare"].as_str().expect("a rule");
    if rule == "failed" {
        return must(got.status >= 400, "status", &got.status, &"400 or more");
    }
    let kind = |json: Option<&Json>| json.map(|json| json["errorType"].clone());
    must(case["status"] == got.status, "status", &(got.status, &got.text), &case["status"])?;
    let want = wanted(case);
    if rule == "status" {
        let (a, b) = (kind(want.as_ref()), kind(got.json.as_ref()));
        return must(a.is_none() || b.is_none() || a == b, "error type", &b, &a);
    }
    check_headers(case, got)?;
    match (rule, &want, &got.json) {
        ("before [", Some(want), Some(json)) => {
            let head = |json: &Json| {
                let error = json["error"].as_str().unwrap_or_default();
                (json["errorType"].clone(), error.split('[').next().unwrap_or_default().to_owned())
            };
            must(head(want) == head(json), "error", &head(json), &head(want))
        }
        ("shape", Some(want), Some(json)) => {
            must(shape(want) == shape(json), "shape", &shape(json), &shape(want))
        }
        ("count", Some(want), Some(json)) => {
            let count = |json: &Json| (rows(json).map(Vec::len), ordered(json)["warnings"].clone());
            must(count(want) == count(json), "number of results", &count(json), &count(want))
        }
        _ => same_body(case, rule, want, got),
    }
}

fn same_body(case: &Json, rule: &str, want: Option<Json>, got: &Answer) -> Result<(), String> {
    let share = case["rel"].as_f64().unwrap_or(0.0);
    if let (true, Some(raw)) = (rule == "exact" && share == 0.0, case["raw"].as_str()) {
        // The mask of `data` changes the order of keys.
        let masks_data = case["mask"].as_array().is_some_and(|mask| mask.contains(&json!("data")));
        if !masks_data {
            let raw = masked(raw, case);
            return must(raw == got.text, "body", &got.text, &raw);
        }
    }
    let (want, got) = match (want, &got.json) {
        (Some(want), Some(json)) if rule == "unordered" => (ordered(&want), ordered(json)),
        (Some(want), Some(json)) => (want, json.clone()),
        _ => {
            let raw = case["raw"].as_str().unwrap_or_default();
            return must(raw == got.text, "body", &got.text, &raw);
        }
    };
    must(same(&want, &got, share), "body", &got.to_string(), &want.to_string())
}

/// The recorded answer as JSON, with our masks.
fn wanted(case: &Json) -> Option<Json> {
    let json = case.get("json")?;
    serde_json::from_str(&masked(&json.to_string(), case)).ok()
}

/// The headers that matter to clients.
fn check_headers(case: &Json, got: &Answer) -> Result<(), String> {
    // The type of an empty body does not matter.
    let kind = case["content_type"].as_str().filter(|kind| !kind.is_empty());
    if let Some(kind) = kind {
        must(got.header("content-type") == Some(kind), "type", &got.header("content-type"), &kind)?;
    }
    for name in [
        "Allow",
        "Access-Control-Allow-Origin",
        "Access-Control-Allow-Headers",
        "Access-Control-Allow-Methods",
        "Access-Control-Expose-Headers",
    ] {
        let want = case["response_headers"][name].as_str();
        // Our answers to refused methods always have `Allow`; Prometheus forgets it in two places.
        if name == "Allow" && want.is_none() {
            continue;
        }
        must(got.header(name) == want, name, &got.header(name), &want)?;
    }
    Ok(())
}

fn must<G, W>(equal: bool, what: &str, got: &G, want: &W) -> Result<(), String>
where
    G: std::fmt::Debug + ?Sized,
    W: std::fmt::Debug + ?Sized,
{
    if equal {
        return Ok(());
    }
    let (got, want) = (format!("{got:?}"), format!("{want:?}"));
    let alike = got.chars().zip(want.chars()).take_while(|(a, b)| a == b).count();
    let around =
        |text: &str| -> String { text.chars().skip(alike.saturating_sub(60)).take(240).collect() };
    Err(format!("  {what}\n    got  …{}…\n    want …{}…", around(&got), around(&want)))
}

/// The list of an answer whose order does not matter.
fn rows(json: &Json) -> Option<&Vec<Json>> {
    let data = &json["data"];
    if ["vector", "matrix"].iter().any(|kind| data["resultType"] == *kind) {
        return data["result"].as_array();
    }
    data.as_array()
}

/// The answer with every list sorted whose order does not matter.
fn ordered(json: &Json) -> Json {
    let mut json = json.clone();
    if let Some(mut rows) = rows(&json).cloned() {
        let key =
            |row: &Json| row.get("metric").or(row.get("seriesLabels")).unwrap_or(row).to_string();
        rows.sort_by_key(key);
        match json["data"].is_array() {
            true => json["data"] = rows.into(),
            false => json["data"]["result"] = rows.into(),
        }
    }
    for notes in ["warnings", "infos"] {
        if let Some(notes) = json.get_mut(notes).and_then(Json::as_array_mut) {
            notes.sort_by_key(Json::to_string);
        }
    }
    json
}

/// Keys and types of a JSON value, without its content.
fn shape(json: &Json) -> Json {
    match json {
        Json::Object(map) => map.iter().map(|(key, value)| (key.clone(), shape(value))).collect(),
        Json::Array(items) => items.iter().take(1).map(shape).collect(),
        Json::String(_) => "text".into(),
        Json::Number(_) => "number".into(),
        Json::Bool(_) => "truth".into(),
        Json::Null => Json::Null,
    }
}

/// Whether two values are equal, with a relative tolerance of `share` for each sample value.
fn same(a: &Json, b: &Json, share: f64) -> bool {
    match (a, b) {
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b, share))
        }
        (Json::Object(a), Json::Object(b)) => {
            let share = |key: &str| if key == "metric" { 0.0 } else { share };
            let inside =
                |(key, a): (&String, &Json)| b.get(key).is_some_and(|b| same(a, b, share(key)));
            a.len() == b.len() && a.iter().all(inside)
        }
        (Json::String(x), Json::String(y)) if share > 0.0 => {
            let close = |x: f64, y: f64| (x - y).abs() <= share * x.abs().max(y.abs());
            x == y || matches!((x.parse(), y.parse()), (Ok(x), Ok(y)) if close(x, y))
        }
        _ => a == b,
    }
}
