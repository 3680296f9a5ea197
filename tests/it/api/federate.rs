//! `/federate` in protocol buffers, and native histograms in its text format. `recorded` compares floats and names in
//! text with recorded answers of Prometheus; in `prometheus` a real Prometheus reads and writes the same pages.

use std::time::{SystemTime, UNIX_EPOCH};

use promkairos::api::proto::v1;
use promkairos::model::STALE_NAN_BITS;
use promkairos::promql::{Features, Settings};

use super::recorded::in_process;
use crate::support::families;
use crate::support::native::{custom, float, gauge, histograms, integer, spans};
use crate::support::series::{floats, send};

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
const DELIMITED: &str = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; \
                         encoding=delimited";

/// Content type and body of a page of `/federate`.
async fn page(url: &str, selector: &str, accept: &str) -> (String, Vec<u8>) {
    let query =
        form_urlencoded::Serializer::new(String::new()).append_pair("match[]", selector).finish();
    let request =
        reqwest::Client::new().get(format!("{url}/federate?{query}")).header("Accept", accept);
    let response = request.send().await.expect("an answer");
    assert_eq!(response.status(), 200);
    assert!(response.headers().get_all("vary").iter().any(|value| value == "accept"));
    let kind = response.headers()["content-type"].to_str().expect("ascii").to_owned();
    (kind, response.bytes().await.expect("a body").to_vec())
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_millis()).expect("before long")
}

/// A series of every kind that `/federate` writes.
fn everything(now: i64) -> Vec<v1::TimeSeries> {
    let gone = f64::from_bits(STALE_NAN_BITS);
    let odd = [("__name__", "f"), ("instance", "a"), ("é", "b\n")];
    vec![
        floats(&odd, &[(now - 7, 1.0), (now - 5, 2.5)]),
        floats(&[("__name__", "f")], &[(now - 2, f64::NEG_INFINITY)]),
        floats(&[("__name__", "f_gone")], &[(now - 2, 1.0), (now - 1, gone)]),
        floats(&[("__name__", "f_nan")], &[(now - 2, f64::NAN)]),
        histograms(&[("__name__", "h"), ("k", "1")], vec![integer(now - 9), integer(now - 4)]),
        histograms(&[("__name__", "h"), ("k", "2")], vec![gauge(now - 3)]),
        floats(&[("__name__", "h"), ("k", "3")], &[(now - 3, 3.0)]),
        histograms(&[("__name__", "h"), ("k", "4")], vec![float(now - 6)]),
        histograms(&[("__name__", "h"), ("k", "5")], vec![custom(now - 6)]),
        histograms(
            &[("__name__", "h_gone")],
            vec![integer(now - 2), v1::Histogram { sum: gone, ..integer(now - 1) }],
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn floats_and_native_histograms_in_protocol_buffers() {
    let url = in_process(Settings::default(), Features::Stable).await;
    let now = now();
    assert_eq!(send(&url, everything(now)).await, 204);
    let accept = format!("{DELIMITED};escaping=allow-utf-8");
    let (kind, page) = page(&url, "{__name__=~\"f.*|h.*\"}", &accept).await;
    assert_eq!(kind, format!("{DELIMITED}; escaping=allow-utf-8"));
    let native = "sum:39.4 count:12 schema:1 zero<=0.001 zero:2 -span:-3x2 -span:1x2 -:1 -:2 -:1 -:1 \
                  +span:0x2 +span:1x2 +:1 +:2 +:1 +:1";
    let want = format!(
        r#"untyped f
{{instance=""}} -inf @-2
{{instance="a",é="b\n"}} 2.5 @-5
untyped f_nan
{{instance=""}} NaN @-2
untyped h
{{k="3",instance=""}} 3 @-3
histogram h
{{k="1",instance=""}} {native} @-4
{{k="4",instance=""}} sum:-0.25 count:2.5 schema:-2 zero<=0 zero:0 +span:7x2 +:0.5 +:2 @-6
{{k="5",instance=""}} sum:12.25 {CLASSIC} count:7 @-6
gauge_histogram h
{{k="2",instance=""}} {native} @-3"#
    );
    assert_eq!(families::lines(&page, now).join("\n"), want);
}

/// The buckets of [`custom`].
const CLASSIC: &str =
    "[le:0.1 count:3] [le:0.2 count:5] [le:0.5 count:5] [le:1 count:5] [le:2 count:6]";

#[tokio::test(flavor = "multi_thread")]
async fn text_has_of_native_histograms_those_with_custom_bounds() {
    let url = in_process(Settings::default(), Features::Stable).await;
    let now = now();
    let mut series = everything(now);
    series.push(histograms(&[("__name__", "h.q"), ("k", "6")], vec![custom(now - 1)]));
    assert_eq!(send(&url, series).await, 204);
    let accept = "text/plain;version=0.0.4;escaping=allow-utf-8";
    let (kind, page) = page(&url, "{__name__=~\"f.*|h.*\"}", accept).await;
    assert_eq!(kind, format!("{TEXT}; escaping=allow-utf-8"));
    let age = |age: i64| now - age;
    let buckets = |before: &str, time: i64| {
        let bucket =
            |(bound, count): (&str, u32)| format!("{before},le=\"{bound}\"}} {count} {time}\n");
        let counts = [("0.1", 3), ("0.2", 5), ("0.5", 5), ("1", 5), ("2", 6), ("+Inf", 7)];
        counts.map(bucket).concat()
    };
    let want = format!(
        r#"# TYPE f untyped
f{{instance=""}} -Inf {two}
f{{instance="a","é"="b\n"}} 2.5 {five}
# TYPE f_nan untyped
f_nan{{instance=""}} NaN {two}
# TYPE h untyped
h{{k="3",instance=""}} 3 {three}
# TYPE h histogram
{plain}h_sum{{k="5",instance=""}} 12.25 {six}
h_count{{k="5",instance=""}} 7 {six}
# TYPE "h.q" histogram
{quoted}{{"h.q_sum",k="6",instance=""}} 12.25 {one}
{{"h.q_count",k="6",instance=""}} 7 {one}
"#,
        one = age(1),
        two = age(2),
        three = age(3),
        five = age(5),
        six = age(6),
        plain = buckets("h_bucket{k=\"5\",instance=\"\"", age(6)),
        quoted = buckets("{\"h.q_bucket\",k=\"6\",instance=\"\"", age(1)),
    );
    assert_eq!(String::from_utf8(page).expect("UTF-8"), want);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_in_protocol_buffers_are_escaped_as_the_client_asks() {
    let url = in_process(Settings::default(), Features::Stable).await;
    let now = now();
    let odd = [("__name__", "http.server/requests_total"), ("l.x_y/z", "é.")];
    assert_eq!(send(&url, vec![floats(&odd, &[(now, 4.0)])]).await, 204);
    for (scheme, name, label) in [
        ("underscores", "http_server_requests_total", "l_x_y_z"),
        ("dots", "http_dot_server__requests__total", "l_dot_x__y__z"),
        ("values", "U__http_2e_server_2f_requests__total", "U__l_2e_x__y_2f_z"),
        ("allow-utf-8", "http.server/requests_total", "l.x_y/z"),
    ] {
        let accept = format!("{DELIMITED}; escaping={scheme}");
        let (kind, page) = page(&url, "{\"l.x_y/z\"!=\"\"}", &accept).await;
        assert_eq!(kind, accept);
        let want = [format!("untyped {name}"), format!("{{{label}=\"é.\",instance=\"\"}} 4 @0")];
        assert_eq!(families::lines(&page, now), want);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_chooses_the_format() {
    let url = in_process(Settings::default(), Features::Stable).await;
    assert_eq!(send(&url, vec![floats(&[("__name__", "f")], &[(now(), 1.0)])]).await, 204);
    let short = DELIMITED.replace(' ', "");
    let open = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5";
    for (accept, want) in [
        (format!("{short};escaping=allow-utf-8;q=0.6,{open},*/*;q=0.1"), DELIMITED),
        (format!("text/plain;version=0.0.4;q=0.4,{short};q=0.5"), DELIMITED),
        (format!("text/plain;version=0.0.4;q=0.5,{short};q=0.4"), TEXT),
        (open.to_owned(), TEXT),
        ("*/*".to_owned(), TEXT),
        (short.replace("delimited", "text"), TEXT),
    ] {
        let (kind, page) = page(&url, "f", &accept).await;
        assert!(kind.starts_with(want), "{accept}: {kind}");
        assert_eq!(page.starts_with(b"# TYPE f untyped\n"), want == TEXT, "{accept}");
    }
}

/// Wide histograms count towards the memory of a query; series that text leaves out do not.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_takes_too_much_memory_is_refused() {
    let settings = Settings { max_bytes: 1 << 20, ..Settings::default() };
    let url = in_process(settings, Features::Stable).await;
    let buckets = 4_000;
    let wide = v1::Histogram {
        count: Some(v1::histogram::Count::CountInt(buckets)),
        zero_count: Some(v1::histogram::ZeroCount::ZeroCountInt(0)),
        negative_spans: Vec::new(),
        negative_deltas: Vec::new(),
        positive_spans: spans(&[(0, buckets as u32)]),
        positive_deltas: (0..buckets).map(|bucket| i64::from(bucket == 0)).collect(),
        ..integer(now())
    };
    let series = (0..40)
        .map(|n| histograms(&[("__name__", "wide"), ("n", &n.to_string())], vec![wide.clone()]));
    assert_eq!(send(&url, series.collect()).await, 204);
    for (accept, want) in [(DELIMITED, 422), ("text/plain", 200)] {
        let request = reqwest::Client::new().get(format!("{url}/federate?match[]=wide"));
        let response = request.header("Accept", accept).send().await.expect("an answer");
        assert_eq!(response.status(), want, "{accept}: {:?}", response.text().await);
    }
    let (_, page) = page(&url, "wide{n=\"7\"}", DELIMITED).await;
    let lines = families::lines(&page, 0);
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[1].matches(" +:1").count(), 4_000);
}
