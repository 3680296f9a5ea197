//! The answers of `/federate` compared with those of a real Prometheus, and scraped by one.

use promkairos::api::proto::v1;

use super::now_ms;
use crate::support::prometheus::Prometheus;
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::remote_read::{self, Point, ReadHistogram, ReadSeries};
use crate::support::series::{floats, send};
use crate::support::{eventually, families, native};

const DELIMITED: &str = "application/vnd.google.protobuf;\
                         proto=io.prometheus.client.MetricFamily;encoding=delimited";

/// Floats and histograms.
fn series(now: i64) -> Vec<v1::TimeSeries> {
    let job = ("job", "fed");
    vec![
        floats(&[("__name__", "fed_float"), job], &[(now - 2_000, 1.0), (now, f64::NEG_INFINITY)]),
        floats(&[("__name__", "fed_zero"), ("instance", "i:1"), job], &[(now - 1_000, -0.0)]),
        native::histograms(&[("__name__", "fed_integer"), job], vec![native::integer(now)]),
        native::histograms(&[("__name__", "fed_gauge"), job], vec![native::gauge(now)]),
        native::histograms(&[("__name__", "fed_real"), job], vec![native::float(now)]),
        floats(&[("__name__", "fed_mixed"), ("a_kind", "float"), job], &[(now, 3.0)]),
        native::histograms(&[("__name__", "fed_mixed"), job], vec![native::integer(now)]),
    ]
}

/// A series with names that not every client supports.
fn odd(now: i64) -> v1::TimeSeries {
    let pairs = [("__name__", "fed.\"odd\""), ("job", "fed"), ("l.x_y", "\\é\n")];
    floats(&pairs, &[(now, 2.5)])
}

/// Content type, and the page as text.
async fn page(url: &str, accept: &str, since: i64) -> (String, String) {
    let request = reqwest::Client::new().get(url).header("Accept", accept);
    let response = request.send().await.expect("an answer");
    assert_eq!(response.status(), 200);
    let kind = response.headers()["content-type"].to_str().expect("ascii").to_owned();
    let page = response.bytes().await.expect("a body");
    let text = match kind.starts_with("application/vnd.google.protobuf") {
        true => families::lines(&page, since).join("\n"),
        false => String::from_utf8(page.to_vec()).expect("UTF-8"),
    };
    (kind, text)
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_those_of_prometheus() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Promkairos::ready(data.path(), &Backend::Embedded, &[]).await;
    let prometheus = Prometheus::start().await;
    let now = now_ms();
    // At most twelve series: Prometheus does not define the order of more.
    let mut all = series(now);
    // Earlier ones do not escape names in protocol buffers, and omit histograms with custom bounds.
    if prometheus.minor_version().await >= 7 {
        let labels = [("__name__", "fed.custom"), ("job", "fed")];
        all.extend([odd(now), native::histograms(&labels, vec![native::custom(now)])]);
    }
    for url in [server.url(""), prometheus.url("")] {
        assert_eq!(send(&url, all.clone()).await, 204);
    }
    let path = "/federate?match[]={__name__=~\"fed.*\"}";
    let weights = format!("text/plain;version=0.0.4;escaping=dots;q=0.2,{DELIMITED};q=0.1");
    for accept in [
        DELIMITED,
        &format!("{DELIMITED};escaping=underscores"),
        &format!("{DELIMITED};escaping=dots"),
        &format!("{DELIMITED};escaping=values"),
        &format!("{DELIMITED};escaping=allow-utf-8"),
        &format!("{DELIMITED};q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.9"),
        &format!("text/html;escaping=values,{DELIMITED};q=0.5"),
        &format!("text/plain,{DELIMITED}"),
        &weights,
        "text/plain;version=0.0.4;escaping=allow-utf-8",
        "application/openmetrics-text;version=1.0.0;escaping=values",
        "application/vnd.google.protobuf",
        "*/*",
        "",
    ] {
        let [have, want] = [server.url(path), prometheus.url(path)];
        let (have, want) = (page(&have, accept, now).await, page(&want, accept, now).await);
        assert_eq!(have.0, want.0, "{accept}");
        assert!(have.1 == want.1, "{accept}\nhave\n{}\nwant\n{}", have.1, want.1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn prometheus_scrapes_native_histograms() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Promkairos::ready(data.path(), &Backend::Embedded, &[]).await;
    let now = now_ms();
    assert_eq!(send(&server.url(""), series(now)).await, 204);
    let prometheus = Prometheus::start().await;
    // From 3.8 on this is a setting; before, there was only the feature flag.
    let native = match prometheus.minor_version().await {
        0..=7 => "",
        _ => "scrape_native_histograms: true,",
    };
    let config = format!(
        r#"
scrape_configs:
- {{job_name: promkairos, scrape_interval: 1s, scrape_timeout: 1s, honor_labels: true, {native}
   metrics_path: /federate, params: {{"match[]": ['{{job="fed"}}']}}, static_configs: [{{targets: ["{}"]}}]}}
"#,
        server.address
    );
    prometheus.configure(&config).await;
    let want = newest(read(&server.url("/api/v1/read"), now).await.expect("an answer"));
    assert_eq!(want.len(), 7);
    eventually("all is scraped", async || {
        let have = read(&prometheus.url("/api/v1/read"), now).await?;
        if have == want { Ok(()) } else { Err(format!("have {have:#?}\nwant {want:#?}")) }
    })
    .await;
}

async fn read(url: &str, now: i64) -> Result<Vec<ReadSeries>, String> {
    let range = now - 60_000..=now;
    remote_read::samples(&reqwest::Client::new(), url, "job", "fed", range).await
}

/// The result of a scrape of these series: the last point of each, with counts as floats.
fn newest(mut series: Vec<ReadSeries>) -> Vec<ReadSeries> {
    for one in &mut series {
        while one.points.len() > 1 {
            one.points.pop_first();
        }
        for point in one.points.values_mut() {
            if let Point::Histogram(histogram) = point
                && !histogram.is_float
            {
                *histogram = with_floats(histogram);
            }
        }
    }
    series
}

fn with_floats(histogram: &ReadHistogram) -> ReadHistogram {
    let bits = |count: u64| (count as f64).to_bits();
    let mut floats = histogram.clone();
    floats.is_float = true;
    (floats.count, floats.zero_count) = (bits(floats.count), bits(floats.zero_count));
    let counts = floats.positive.values_mut().chain(floats.negative.values_mut());
    counts.for_each(|count| *count = bits(*count));
    floats
}
