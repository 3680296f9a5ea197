//! KairosDB's API beside a real KairosDB on one keyspace, and on both stores: status and body of the answers to the
//! same requests are the same. [`DIFFERENT`] and [`REFUSED`] have the exceptions, each with its reason. What differs in
//! other ways is left out of the requests, with the reason at the place.
//!
//! Random queries follow from the seed, which is printed. They have absolute times, as each server has its own clock.
//! Headers are not compared.

mod grafana;
mod requests;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use promkairos::model::METRIC_NAME;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use regex::{Captures, Regex};
use serde_json::{Value as Json, json};

use self::requests::{
    Asked, BOTH, BURST, DAY, END, METRICS, ODD, QUERY, START, UNKNOWN, bad, beginning, fixed, get,
    hostile, metric, query, random_query, whole,
};
use super::points::{of_promkairos, send};
use crate::cassandra::keyspace::TestKeyspace;
use crate::support::java_client;
use crate::support::kairosdb::{KairosDb, KairosSeries, TagMap};
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::{self, DEADLINE, eventually, long, seed};

/// Who writes the points of a series.
#[derive(Debug, Clone, Copy)]
enum Writer {
    /// A remote write to promkairos.
    Ours,
    /// KairosDB, in this type.
    Theirs(&'static str),
}

/// The metric, who writes, how many milliseconds its points come after those of others, and the tags.
type Row = (&'static str, Writer, i64, &'static [(&'static str, &'static str)]);

/// KairosDB shows two points of a series that have one time and two types, and promkairos one: there are none.
const SERIES: &[Row] = &[
    ("sent", Writer::Ours, 0, &[("dc", "x"), ("host", "a")]),
    ("sent", Writer::Ours, 0, &[("dc", "x"), ("host", "b")]),
    ("sent", Writer::Ours, 7, &[("dc", "y"), ("host", "c")]),
    ("sent", Writer::Ours, 90_000, &[("host", "a")]),
    ("sent", Writer::Ours, 3_600_000, &[("dc", "y")]),
    (ODD, Writer::Ours, 0, &[("a b", "\u{2028}"), ("host", "é\"\\</b>\u{1f600}")]),
    (ODD, Writer::Ours, 3, &[("host", "a")]),
    ("put", Writer::Theirs("long"), 0, &[("host", "a")]),
    ("put", Writer::Theirs("long"), 0, &[("dc", "x"), ("host", "b")]),
    ("put", Writer::Theirs("double"), 11, &[("host", "c")]),
    (BOTH, Writer::Ours, 0, &[("host", "a")]),
    (BOTH, Writer::Theirs("long"), 5, &[("host", "a")]),
    (BOTH, Writer::Theirs("double"), 9, &[("host", "b")]),
];

const DOUBLES: [f64; 15] =
    [0.0, -0.0, 1.0, 2.5, -3.75, 1e16, 1e-7, 0.1, 1e7, -12_345_678.9, 0.001, 7.0, 7.0, 1e-4, 3e22];
const LONGS: [i64; 10] =
    [0, -1, 7, 1_000, -250, 10_000_000, 42, 7, (1 << 53) + 1, -9_007_199_254_740_995];

/// Members of a metric, why KairosDB answers otherwise, its status, and our status and text.
const REFUSED: [(&str, &str, u16, u16, &str); 9] = [
    (
        r#","name":null"#,
        "it does not expect null",
        500,
        400,
        "query.metric[0].name may not be null",
    ),
    (
        r#","aggregators":[{"name":"avg","sampling":{"value":0,"unit":"days"}}]"#,
        "its text is `/ by zero`",
        500,
        400,
        "query.metric[0].aggregators[0].sampling.value must be greater than 0",
    ),
    (
        r#","aggregators":[{"name":"avg","align_sampling":null}]"#,
        "it does not expect null",
        500,
        400,
        "query.metric[0].aggregators[0].align_sampling may not be null",
    ),
    (
        r#","aggregators":[{"name":"dev","return_type":"nope"}]"#,
        "it takes an unknown name as null",
        500,
        400,
        "query.metric[0].aggregators[0].return_type must be one of pos_sd, neg_sd, value",
    ),
    (
        r#","aggregators":[{"name":"filter","threshold":1}]"#,
        "it does not check this property",
        500,
        400,
        "query.metric[0].aggregators[0].filter_op may not be null",
    ),
    (
        r#","aggregators":[{"name":"sma"}]"#,
        "it does not check this property",
        500,
        400,
        "query.metric[0].aggregators[0].size must be greater than or equal to 1",
    ),
    (
        r#","aggregators":[{"name":"percentile","percentile":1.5}]"#,
        "it checks when it evaluates",
        500,
        400,
        "query.metric[0].aggregators[0].percentile 1.5 is not in [0..1]",
    ),
    (
        r#","group_by":[{"name":"bin"}]"#,
        "it does not check this property",
        500,
        400,
        "query.metric[0].group_by[0].bins may not be null",
    ),
    (
        r#","aggregators":[{"name":"save_as","metric_name":"saved"}]"#,
        "promkairos saves nothing yet",
        200,
        501,
        "the aggregator save_as is not supported yet",
    ),
];

/// Status and body.
type Answer = (u16, String);
/// Why answers differ, and whether this explains two answers.
type Difference = (&'static str, fn(theirs: &Answer, ours: &Answer) -> bool);

const DIFFERENT: &[Difference] = &[
    // NaN in an answer, a rate of points at one time, a value of a gap, a list in the place of an object.
    ("the client is at fault, so 500 of KairosDB is 400", |theirs, ours| {
        (theirs.0, ours.0) == (500, 400) && theirs.1 == ours.1
    }),
    ("a Java before 19 writes some doubles with one digit too many", |theirs, ours| {
        theirs.0 == ours.0 && retold(&theirs.1) == retold(&ours.1)
    }),
];

#[tokio::test]
async fn answers_are_those_of_a_real_kairosdb() {
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let (keyspace, data) = (TestKeyspace::new().await, tempfile::tempdir().expect("a folder"));
    let kairosdb = KairosDb::over(&keyspace.name, "").await;
    let (address, name) = (support::cassandra(), keyspace.name.clone());
    let backend = Backend::CassandraStore { address, keyspace: name };
    let flags = ["--cassandra-request-timeout=100s", "--cassandra-read-cache-size=0"];
    let server = Promkairos::ready(data.path(), &backend, &flags).await;
    fill(&server, Some(&kairosdb)).await;
    wait(&server, &kairosdb).await;
    let (theirs, ours) = (Api::at(kairosdb.url("")), Api::at(server.url("/api/v1")));
    for api in [&theirs, &ours] {
        let (status, text) = api.ask(&get("/version")).await;
        assert_eq!(status, 200, "{text}");
        assert!(text.starts_with("{\"version\": \"KairosDB 1.3.0"), "{text}");
    }
    names_are_the_same(&theirs, &ours).await;
    let mut comparison = Comparison::new(&theirs, &ours, DIFFERENT);
    let plugins = grafana::requests(&["sent", "put"]);
    for asked in fixed(&METRICS).into_iter().chain(bad()).chain(plugins) {
        comparison.ask(&asked).await;
    }
    for _ in 0..if long() { 10_000 } else { 700 } {
        comparison.ask(&random_query(&mut random, &METRICS)).await;
    }
    comparison.end(seed);
    refusals_are_ours(&theirs, &ours).await;
    the_java_client_reads_the_same([&theirs, &ours]).await;
    drop((server, kairosdb));
    keyspace.drop().await;
}

#[tokio::test]
async fn both_stores_answer_alike() {
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let embedded = Promkairos::ready(folders[0].path(), &Backend::Embedded, &[]).await;
    let (backend, flags) = (Backend::cassandra_store(), ["--cassandra-request-timeout=100s"]);
    let cassandra = Promkairos::ready(folders[1].path(), &backend, &flags).await;
    for server in [&embedded, &cassandra] {
        fill(server, None).await;
    }
    let [theirs, ours] = [&cassandra, &embedded].map(|server| Api::at(server.url("/api/v1")));
    let mut comparison = Comparison::new(&theirs, &ours, &[]);
    let sent = ["sent", ODD, BOTH, UNKNOWN];
    let names = ["/metricnames", "/metricnames?prefix=sent"].map(get);
    for asked in fixed(&sent).into_iter().chain(bad()).chain(names) {
        comparison.ask(&asked).await;
    }
    for _ in 0..if long() { 10_000 } else { 700 } {
        comparison.ask(&random_query(&mut random, &sent)).await;
    }
    comparison.end(seed);
}

#[tokio::test]
async fn hostile_queries_are_refused_and_the_next_is_answered() {
    let data = tempfile::tempdir().expect("a folder");
    let mut server = Promkairos::ready(data.path(), &Backend::Embedded, &[]).await;
    fill(&server, None).await;
    let api = Api::at(server.url("/api/v1"));
    let usual = whole("sent", "");
    let want = api.ask(&usual).await;
    assert!(want.0 == 200 && has_points(&want), "{want:?}");
    for asked in hostile() {
        let answer = api.ask(&asked).await;
        assert!(is_refused(&answer), "{}: {} {}", asked.text(), answer.0, beginning(&answer.1));
        assert_eq!(api.ask(&usual).await, want, "after {}", asked.text());
    }
    // These are long, but not wrong.
    let regexes: Vec<String> = (0..4_000).map(|at| format!(r#""t{at}":"regex:a""#)).collect();
    for tags in [format!(r#""host":"{}""#, "a".repeat(1 << 16)), regexes.join(",")] {
        let answer = api.ask(&whole("sent", &format!(r#","tags":{{{tags}}}"#))).await;
        let text = beginning(&answer.1);
        assert!(answer.0 == 200 || is_refused(&answer), "{}: {text}", answer.0);
        assert_eq!(api.ask(&usual).await, want);
    }
    let nothing = r#"{"errors":["query json must not be null or empty"]}"#;
    assert_eq!(api.ask(&get(QUERY)).await, (400, nothing.to_owned()));
    assert!(server.process.ended().is_none());
}

/// Whether an answer says what was wrong, as KairosDB does.
fn is_refused((status, text): &Answer) -> bool {
    let answer: Json = serde_json::from_str(text).unwrap_or_default();
    let errors = answer["errors"]
        .as_array()
        .is_some_and(|errors| !errors.is_empty() && errors.iter().all(Json::is_string));
    (400..500).contains(status) && errors
}

fn has_points(answer: &Answer) -> bool {
    answer.1.contains(r#""values":[["#)
}

/// Times of a series that comes after others by some milliseconds.
fn times(later: i64) -> impl Iterator<Item = i64> {
    let days = (0..40).map(|day| START + day * (DAY - 1_000));
    let burst = (0..20).map(|quarter| BURST + quarter * 15_000);
    days.chain(burst).map(move |time| time + later)
}

/// Writes the series, without those of a KairosDB if there is none.
async fn fill(server: &Promkairos, kairosdb: Option<&KairosDb>) {
    for (place, &(metric, writer, later, tags)) in SERIES.iter().enumerate() {
        let double = |n: usize| DOUBLES[(n + place) % DOUBLES.len()];
        let mut labels: TagMap =
            tags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        match (writer, kairosdb) {
            (Writer::Ours, _) => {
                labels.insert(METRIC_NAME.to_owned(), metric.to_owned());
                let points: Vec<(i64, f64)> =
                    times(later).enumerate().map(|(n, time)| (time, double(n))).collect();
                send(server, &labels, &points).await;
            }
            (Writer::Theirs(data_type), Some(kairosdb)) => {
                let value = |n: usize| match data_type {
                    "long" => json!(LONGS[(n + place) % LONGS.len()]),
                    _ => json!(double(n)),
                };
                let points: Vec<(i64, Json)> =
                    times(later).enumerate().map(|(n, time)| (time, value(n))).collect();
                kairosdb.ingest(metric, &labels, data_type, &points).await;
            }
            (Writer::Theirs(_), None) => {}
        }
    }
}

/// Waits until both servers have all points.
async fn wait(server: &Promkairos, kairosdb: &KairosDb) {
    for metric in METRICS {
        let want = SERIES.iter().filter(|row| row.0 == metric).count() * times(0).count();
        let has_all = |series: &[KairosSeries]| {
            series.iter().map(|series| series.values.len()).sum::<usize>() == want
        };
        kairosdb.query_until(metric, &["a b", "dc", "host"], has_all).await;
        eventually(&format!("promkairos has all points of {metric}"), async || {
            let all = of_promkairos(server, metric).await?;
            let found: usize = all.values().map(BTreeMap::len).sum();
            if found == want { Ok(()) } else { Err(format!("{found} of {want}")) }
        })
        .await;
    }
}

/// KairosDB lists names in the order of a hash table, and may add some about itself.
async fn names_are_the_same(theirs: &Api, ours: &Api) {
    for path in ["", "?prefix=sent", "?prefix=sent.", "?prefix=unknown"] {
        let path = format!("/metricnames{path}");
        eventually(&path, async || {
            let (theirs, ours) = tokio::join!(theirs.names(&path), ours.names(&path));
            let sorted: BTreeSet<&String> = theirs.iter().collect();
            match ours.iter().eq(sorted) {
                true => Ok(()),
                false => Err(format!("theirs {theirs:?}, ours {ours:?}")),
            }
        })
        .await;
    }
}

async fn the_java_client_reads_the_same(servers: [&Api; 2]) {
    let [theirs, ours] = servers.map(|api| {
        let url = api.url.strip_suffix("/api/v1").expect("the client adds it").to_owned();
        tokio::task::spawn_blocking(move || java_client::read(&url, "sent", START, END))
    });
    let (theirs, ours) = tokio::join!(theirs, ours);
    let (theirs, ours) = (theirs.expect("it ends"), ours.expect("it ends"));
    assert!(ours.contains("by bin: 300 points\n") && ours.contains("tags sent {"), "{ours}");
    assert_eq!(retold(&theirs), retold(&ours));
}

async fn refusals_are_ours(theirs: &Api, ours: &Api) {
    for (members, reason, status_of_theirs, status, text) in REFUSED {
        let asked = whole("sent", members);
        let (theirs, ours) = tokio::join!(theirs.ask(&asked), ours.ask(&asked));
        assert_eq!(theirs.0, status_of_theirs, "{reason}: {theirs:?}");
        assert_eq!(ours, (status, json!({"errors": [text]}).to_string()), "{reason}");
    }
    // Each has its own list of zones.
    let asked = query(START, END, "Bogus/X", &metric("sent", ""));
    for api in [theirs, ours] {
        let (status, text) = api.ask(&asked).await;
        let begins =
            "{\"errors\":[\"query.Bogus/X is not a valid time zone, must be one of [Africa/";
        assert!(status == 400 && text.starts_with(begins), "{status} {}", beginning(&text));
    }
}

/// A server, by the URL of its API.
struct Api {
    url: String,
    http: reqwest::Client,
}

impl Api {
    fn at(url: String) -> Self {
        Self { url, http: reqwest::Client::new() }
    }

    async fn ask(&self, asked: &Asked) -> Answer {
        let url = format!("{}{}", self.url, asked.path);
        let request = match &asked.body {
            None => self.http.get(url),
            Some(body) => {
                let json = ("Content-Type", "application/json");
                self.http.post(url).header(json.0, json.1).body(body.clone())
            }
        };
        let response = request.timeout(DEADLINE).send().await;
        let response = response.unwrap_or_else(|error| panic!("{}: {error}", asked.text()));
        let status = response.status().as_u16();
        let body = response.text().await;
        (status, body.unwrap_or_else(|error| panic!("{}: {error}", asked.text())))
    }

    /// The names in an answer.
    async fn names(&self, path: &str) -> Vec<String> {
        let (status, text) = self.ask(&get(path)).await;
        assert_eq!(status, 200, "{path}: {text}");
        let answer: Json = serde_json::from_str(&text).expect("JSON");
        let names = answer["results"].as_array().expect("a list").iter();
        names.map(|name| name.as_str().expect("a name").to_owned()).collect()
    }
}

/// The answers of two servers to the same requests.
struct Comparison<'a> {
    theirs: &'a Api,
    ours: &'a Api,
    different: &'static [Difference],
    asked: usize,
    with_points: usize,
    /// How often each difference was the reason.
    known: Vec<usize>,
    wrong: Vec<String>,
}

impl<'a> Comparison<'a> {
    fn new(theirs: &'a Api, ours: &'a Api, different: &'static [Difference]) -> Self {
        let (known, wrong) = (vec![0; different.len()], Vec::new());
        Self { theirs, ours, different, asked: 0, with_points: 0, known, wrong }
    }

    async fn ask(&mut self, asked: &Asked) {
        let (mut theirs, ours) = tokio::join!(self.theirs.ask(asked), self.ours.ask(asked));
        if (theirs.0, ours.0) == (500, 200) {
            // Cassandra may have been too slow for it.
            theirs = self.theirs.ask(asked).await;
        }
        self.asked += 1;
        self.with_points += usize::from(has_points(&ours));
        if theirs == ours {
            return;
        }
        match self.different.iter().position(|(_, explains)| explains(&theirs, &ours)) {
            Some(place) => self.known[place] += 1,
            None => self.wrong.push(described(asked, &theirs, &ours)),
        }
    }

    fn end(self, seed: u64) {
        let Self { different, asked, with_points, known, wrong, .. } = self;
        println!("{asked} requests, {with_points} answers with points");
        let unused: Vec<bool> = known.iter().map(|answers| *answers == 0).collect();
        for ((reason, _), answers) in different.iter().zip(known) {
            println!("{answers} answers differ: {reason}");
        }
        let never = different.iter().zip(&unused).filter(|(_, unused)| **unused);
        let never: Vec<&str> = never.map(|((reason, _), _)| *reason).collect();
        assert!(never.is_empty(), "no answer differs for these reasons: {never:?}");
        let first = wrong[..wrong.len().min(10)].join("\n");
        let count = wrong.len();
        assert!(count == 0, "PROMKAIROS_TEST_SEED={seed}: {count} of {asked} differ\n{first}");
        assert!(with_points > asked / 4, "only {with_points} of {asked} answers have points");
    }
}

/// A request, and its answers from a little before where they differ.
fn described(asked: &Asked, theirs: &Answer, ours: &Answer) -> String {
    let same = theirs.1.chars().zip(ours.1.chars()).take_while(|(a, b)| a == b).count();
    let part = |answer: &Answer| {
        let text = answer.1.chars().skip(same.saturating_sub(500)).take(2_000);
        format!("{} {}", answer.0, text.collect::<String>())
    };
    let (theirs, ours) = (part(theirs), part(ours));
    format!("{}\n  from {same}: theirs {theirs}\n  ours {ours}", asked.text())
}

/// The text with the shortest form of each double.
pub(super) fn retold(text: &str) -> Cow<'_, str> {
    static TOKEN: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#""(?:[^"\\]|\\.)*"|-?[0-9]+(?:\.[0-9]+)?(?:E-?[0-9]+)?"#).expect("valid")
    });
    TOKEN.replace_all(text, |token: &Captures<'_>| {
        let token = &token[0];
        match token.starts_with('"') || !token.contains(['.', 'E']) {
            true => token.to_owned(),
            false => format!("{:?}", token.parse::<f64>().expect("a number")),
        }
    })
}
