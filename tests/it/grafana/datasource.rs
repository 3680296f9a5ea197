//! The requests of Grafana's Prometheus datasource, in its order: a check of the connection, the
//! editor, panels, template variables, the list of rules. It sends what it can as a form by POST,
//! and as a GET only after a 405 or 400.

use promkairos::api::proto::v1;
use promkairos::api::proto::v1::metric_metadata::MetricType;
use reqwest::Method;
use serde_json::{Value as Json, json};

use crate::support::api::{self, send};
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::series::{floats, labels, send_request};

/// The first sample, in seconds; a multiple of the step.
const START: i64 = 1_700_000_010;
const STEP: i64 = 15;
const SAMPLES: i64 = 21;
const END: i64 = START + (SAMPLES - 1) * STEP;

#[tokio::test(flavor = "multi_thread")]
async fn over_embedded() {
    session(&Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn over_cassandra() {
    session(&Backend::cassandra_store()).await;
}

struct Grafana(Promkairos);

impl Grafana {
    /// A form by POST, and after a 405 or 400 by GET; returns the accepted method and the answer.
    async fn ask(&self, path: &str, form: &[(&str, &str)]) -> (Method, String) {
        let url = self.0.url(path);
        let (status, text) = send(Method::POST, &url, &[], Some(form)).await;
        if [400, 405].contains(&status) {
            return (Method::GET, self.get(path, form).await);
        }
        assert_eq!(status, 200, "POST {path} {form:?}: {text}");
        (Method::POST, text)
    }

    async fn get(&self, path: &str, parameters: &[(&str, &str)]) -> String {
        let (status, text) = send(Method::GET, &self.0.url(path), parameters, None).await;
        assert_eq!(status, 200, "GET {path} {parameters:?}: {text}");
        text
    }

    /// The data of an answer to a POST.
    async fn post(&self, path: &str, form: &[(&str, &str)]) -> Json {
        let (method, text) = self.ask(path, form).await;
        assert_eq!(method, Method::POST, "{path}");
        data(&text)
    }
}

fn data(text: &str) -> Json {
    // Grafana's parser needs the keys in this order.
    assert!(text.starts_with("{\"status\":\"success\",\"data\":"), "{text}");
    let answer: Json = serde_json::from_str(text).expect("JSON");
    for kind in ["warnings", "infos"] {
        assert!(answer[kind].is_null(), "{answer}");
    }
    answer["data"].clone()
}

async fn session(backend: &Backend) {
    let folder = tempfile::tempdir().expect("a folder");
    let grafana = Grafana(Promkairos::ready(folder.path(), backend, &[]).await);
    assert_eq!(send_request(&grafana.0.url(""), &written()).await, 204);
    connection(&grafana).await;
    editor(&grafana).await;
    panels(&grafana).await;
    errors(&grafana).await;
    variables(&grafana).await;
    rules(&grafana).await;
}

/// A counter of two instances with an exemplar, a native histogram, and metadata.
fn written() -> v1::WriteRequest {
    let counter = |instance| {
        let points: Vec<(i64, f64)> =
            (0..SAMPLES).map(|at| ((START + at * STEP) * 1000, (at * STEP) as f64)).collect();
        floats(&[("__name__", "requests_total"), ("instance", instance), ("job", "api")], &points)
    };
    let mut first = counter("a");
    first.exemplars.push(v1::Exemplar {
        labels: labels(&[("trace_id", "t1")]),
        value: 0.5,
        timestamp: END * 1000,
    });
    let histogram = v1::Histogram {
        count: Some(v1::histogram::Count::CountInt(3)),
        sum: 4.5,
        zero_threshold: 0.001,
        zero_count: Some(v1::histogram::ZeroCount::ZeroCountInt(1)),
        positive_spans: vec![v1::BucketSpan { offset: 1, length: 1 }],
        positive_deltas: vec![2],
        timestamp: END * 1000,
        ..v1::Histogram::default()
    };
    let latency = v1::TimeSeries {
        labels: labels(&[("__name__", "latency_seconds"), ("job", "api")]),
        histograms: vec![histogram],
        ..v1::TimeSeries::default()
    };
    let metadata = v1::MetricMetadata {
        r#type: MetricType::Counter.into(),
        metric_family_name: "requests_total".into(),
        help: "Requests.".into(),
        unit: String::new(),
    };
    v1::WriteRequest { timeseries: vec![first, counter("b"), latency], metadata: vec![metadata] }
}

/// "Save & test".
async fn connection(grafana: &Grafana) {
    let health = grafana.post("/api/v1/query", &[("query", "1+1"), ("time", "4")]).await;
    assert_eq!(health, json!({ "resultType": "scalar", "result": [4, "2"] }));
    // Grafana's library also POSTs to paths that only take GET.
    let (method, text) = grafana.ask("/api/v1/status/buildinfo", &[]).await;
    assert_eq!(method, Method::GET);
    let build = data(&text);
    assert!(build["version"].as_str().is_some_and(|version| version.starts_with("3.")), "{build}");
    assert!(build["features"].is_null(), "it would take this for a Mimir: {build}");
    assert!(build.as_object().expect("an object").values().all(Json::is_string), "{build}");
}

/// The requests when a dashboard or the editor is opened.
async fn editor(grafana: &Grafana) {
    assert_eq!(data(&grafana.ask("/api/v1/rules", &[]).await.1), json!({ "groups": [] }));
    let metadata = data(&grafana.get("/api/v1/metadata", &[("limit", "40000")]).await);
    let requests = json!([{ "type": "counter", "help": "Requests.", "unit": "" }]);
    assert_eq!(metadata, json!({ "requests_total": requests }));
    let (start, end) = (START.to_string(), END.to_string());
    let range = [("start", &*start), ("end", &*end), ("limit", "40000")];
    let with = |pairs: &[(&'static str, &'static str)]| [pairs, &range].concat();
    let names = grafana.post("/api/v1/labels", &with(&[])).await;
    assert_eq!(names, json!(["__name__", "instance", "job"]));
    let selector = "{__name__=\"latency_seconds\"}";
    let names = grafana.post("/api/v1/labels", &with(&[("match[]", selector)])).await;
    assert_eq!(names, json!(["__name__", "job"]));
    let path = "/api/v1/label/__name__/values";
    let metrics = data(&grafana.get(path, &range).await);
    assert_eq!(metrics, json!(["latency_seconds", "requests_total"]));
    let chosen = with(&[("match[]", "{instance=\"a\"}"), ("match[]", "{instance=\"b\"}")]);
    assert_eq!(data(&grafana.get(path, &chosen).await), json!(["requests_total"]));
    let all = with(&[("match[]", "{__name__!=\"\"}")]);
    let series = grafana.post("/api/v1/series", &all).await;
    let requests =
        |instance| json!({ "__name__": "requests_total", "instance": instance, "job": "api" });
    let latency = json!({ "__name__": "latency_seconds", "job": "api" });
    assert_eq!(series, json!([latency, requests("a"), requests("b")]));
    // Asks whether there are exemplars at all, with milliseconds in the place of seconds.
    let (start, end) = ((START * 1000).to_string(), (END * 1000).to_string());
    let probe = [("query", "test"), ("start", &*start), ("end", &*end)];
    assert_eq!(grafana.post("/api/v1/query_exemplars", &probe).await, json!([]));
}

async fn panels(grafana: &Grafana) {
    let (start, end) = ((END - STEP).to_string(), END.to_string());
    // Ranges are durations as Go prints them, steps are numbers.
    let form = [
        ("query", "sum by (job) (sum_over_time(requests_total[1m0s]))"),
        ("start", &*start),
        ("end", &*end),
        ("step", "15"),
        ("timeout", "60s"),
    ];
    let (_, text) = grafana.ask("/api/v1/query_range", &form).await;
    assert!(text.contains("{\"resultType\":\"matrix\",\"result\":["), "{text}");
    let values = json!([[END - STEP, "2100"], [END, "2220"]]);
    assert_eq!(data(&text)["result"], json!([{ "metric": { "job": "api" }, "values": values }]));
    let fine = [form[0], form[1], form[2], ("step", "0.5")];
    let answer = grafana.post("/api/v1/query_range", &fine).await;
    assert_eq!(answer["result"][0]["values"].as_array().map(Vec::len), Some(31));
    // A time as JavaScript prints it.
    let time = format!("{END}.123000145");
    let instant = [("query", "latency_seconds"), ("time", &*time)];
    let answer = grafana.post("/api/v1/query", &instant).await;
    let buckets = json!([[3, "-0.001", "0.001", "1"], [0, "1", "2", "2"]]);
    let histogram = json!({ "count": "3", "sum": "4.5", "buckets": buckets });
    assert_eq!(answer["result"][0]["histogram"][1], histogram, "{answer}");
    let form = [("query", "rate(requests_total[1m0s])"), ("start", &*start), ("end", &*end)];
    let (_, text) = grafana.ask("/api/v1/query_exemplars", &form).await;
    assert!(text.contains("[{\"seriesLabels\":{"), "{text}");
    let exemplar = json!({ "labels": { "trace_id": "t1" }, "value": "0.5", "timestamp": END });
    assert_eq!(data(&text)[0]["exemplars"], json!([exemplar]));
}

/// A panel displays the error in the body, whatever the status is.
async fn errors(grafana: &Grafana) {
    for (query, status, kind) in
        [("sum(", 400, "bad_data"), ("requests_total + on(job) requests_total", 422, "execution")]
    {
        let time = END.to_string();
        let form = [("query", query), ("time", &*time)];
        let (found, answer) = api::post(&grafana.0.url("/api/v1/query"), &form).await;
        assert_eq!((found, &answer["errorType"]), (status, &json!(kind)), "{answer}");
        assert!(answer["error"].as_str().is_some_and(|text| !text.is_empty()), "{answer}");
    }
}

async fn variables(grafana: &Grafana) {
    let (start, end) = (START.to_string(), END.to_string());
    let range = [("start", &*start), ("end", &*end)];
    // label_values(job), label_values(requests_total, instance)
    assert_eq!(data(&grafana.get("/api/v1/label/job/values", &range).await), json!(["api"]));
    let chosen = [("match[]", "requests_total"), range[0], range[1]];
    let instances = data(&grafana.get("/api/v1/label/instance/values", &chosen).await);
    assert_eq!(instances, json!(["a", "b"]));
    // query_result(...)
    let form = [("query", "count(requests_total)"), ("time", &*end)];
    let answer = grafana.post("/api/v1/query", &form).await;
    assert_eq!(answer["result"][0]["value"], json!([END, "2"]));
    // requests_total{instance="a"}
    let form = [("match[]", "requests_total{instance=\"a\"}"), range[0], range[1]];
    let series = grafana.post("/api/v1/series", &form).await;
    assert_eq!(series.as_array().map(Vec::len), Some(1), "{series}");
}

/// The list of alert rules of the datasource.
async fn rules(grafana: &Grafana) {
    let filters = [
        ("type", "alert"),
        ("file[]", "a.yml"),
        ("rule_group[]", "g"),
        ("rule_name[]", "r"),
        ("match[]", "{severity=\"page\"}"),
        ("exclude_alerts", "true"),
        ("group_limit", "40"),
    ];
    let answer = data(&grafana.get("/api/v1/rules", &filters).await);
    assert_eq!(answer, json!({ "groups": [] }));
    assert_eq!(data(&grafana.get("/api/v1/alerts", &[]).await), json!({ "alerts": [] }));
}
