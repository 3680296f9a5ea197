//! The requests of the comparison: a fixed list, wrong ones, hostile ones, and random ones. What KairosDB answers
//! otherwise on purpose is left out here, with the reason at the place.

use form_urlencoded::Serializer;
use rand::RngExt as _;
use rand::rngs::StdRng;

pub(super) const DAY: i64 = 86_400_000;
/// 2024-03-01T00:00:00Z.
pub(super) const START: i64 = 1_709_251_200_000;
/// Where the second of the two rows of KairosDB begins that the points of a series are in.
const SECOND_ROW: i64 = START + 20 * DAY;
/// After all points.
pub(super) const END: i64 = START + 41 * DAY;
/// From here a point comes every quarter of a minute, for five minutes.
pub(super) const BURST: i64 = START + 10 * DAY + DAY / 2;

/// KairosDB writes the tags of `query/tags` in the charset of its JVM: this metric is not asked for there.
pub(super) const ODD: &str = "sent.odd";
/// A series in two types is two series of KairosDB, with a limit for each: this metric gets no limit.
pub(super) const BOTH: &str = "both";
pub(super) const UNKNOWN: &str = "unknown";
pub(super) const METRICS: [&str; 5] = ["sent", ODD, "put", BOTH, UNKNOWN];
/// The metrics with all combinations of [`RANGES`], [`ALIGNMENTS`] and [`SAMPLINGS`].
const COMBINED: [&str; 2] = ["sent", "put"];

/// Between the first point and the last their clocks go forward, or do not change. Where they go back, a range may end
/// before its first point, and then an answer of KairosDB has no end.
const ZONES: [&str; 7] =
    ["UTC", "", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "+05:30", "-03:30"];
const UNITS: [&str; 8] =
    ["milliseconds", "seconds", "minutes", "hours", "days", "weeks", "months", "years"];

const GAPS: &str = r#""name":"gaps""#;
/// `percentile` of KairosDB takes 1,028 points at random: no metric has as many.
const RANGES: [&str; 13] = [
    r#""name":"avg""#,
    r#""name":"count""#,
    r#""name":"dev""#,
    r#""name":"dev","return_type":"pos_sd","dev_count":2"#,
    r#""name":"dev","return_type":"neg_sd""#,
    r#""name":"first""#,
    GAPS,
    r#""name":"last""#,
    r#""name":"least_squares""#,
    r#""name":"max""#,
    r#""name":"min""#,
    r#""name":"percentile","percentile":0.9"#,
    r#""name":"sum""#,
];
const ALIGNMENTS: [&str; 4] = [
    r#""align_sampling":false"#,
    r#""align_sampling":true"#,
    r#""align_start_time":true"#,
    r#""align_end_time":true"#,
];
/// A sampling, the zone of the query, its start and its end.
const SAMPLINGS: [(&str, &str, i64, i64); 3] = [
    (r#""value":1,"unit":"days""#, "Europe/Berlin", START - 1, END),
    (r#""value":7,"unit":"hours""#, "America/New_York", START - 1, END),
    (r#""value":20,"unit":"seconds""#, "UTC", BURST - 7_000, BURST + 400_000),
];
const OTHERS: [&str; 19] = [
    r#"{"name":"diff"}"#,
    r#"{"name":"div","divisor":4}"#,
    r#"{"name":"filter","filter_op":"lte","threshold":1}"#,
    r#"{"name":"filter","filter_op":"lt","threshold":-0.0}"#,
    r#"{"name":"filter","filter_op":"gte","threshold":7}"#,
    r#"{"name":"filter","filter_op":"gt","threshold":2.5}"#,
    r#"{"name":"filter","filter_op":"equal","threshold":7}"#,
    r#"{"name":"filter","filter_op":"ne","threshold":"7"}"#,
    r#"{"name":"rate","unit":"hours"}"#,
    r#"{"name":"rate","sampling":{"value":2,"unit":"months"}}"#,
    r#"{"name":"sampler","unit":"days"}"#,
    r#"{"name":"scale","factor":-0.1}"#,
    r#"{"name":"score","thresholds":[{"value":7,"boundary":"inferior"},{"value":0.1}]}"#,
    r#"{"name":"score","thresholds":[{"value":1}],"order":"descending"}"#,
    r#"{"name":"sma","size":1}"#,
    r#"{"name":"sma","size":4}"#,
    r#"{"name":"trim","trim":"first"}"#,
    r#"{"name":"trim","trim":"last"}"#,
    r#"{"name":"trim","trim":"both"}"#,
];
const TAG_GROUPS: [&str; 3] = [
    r#"{"name":"tag","tags":["host"]}"#,
    r#"{"name":"tag","tags":["dc","host"]}"#,
    r#"{"name":"tag","tags":["nope"]}"#,
];
/// KairosDB lists the tags of such groups in the order of a hash table: queries with them have `exclude_tags`.
const NUMBER_GROUPS: [&str; 7] = [
    r#"{"name":"time","range_size":{"value":1,"unit":"days"},"group_count":7}"#,
    r#"{"name":"time","range_size":{"value":5,"unit":"minutes"},"group_count":3}"#,
    r#"{"name":"time","range_size":{"value":1,"unit":"months"},"group_count":2}"#,
    r#"{"name":"value","range_size":1}"#,
    r#"{"name":"value","range_size":1000}"#,
    r#"{"name":"bin","bins":[0]}"#,
    r#"{"name":"bin","bins":[-1.5,0,7,1e7]}"#,
];
/// Of several expressions for a tag KairosDB keeps one: there is one.
const TAGS: [&str; 8] = [
    r#"{"host":"a"}"#,
    r#"{"host":["a","b","nobody"]}"#,
    r#"{"host":["b","regex:c|z"],"dc":["x","y"]}"#,
    r#"{"dc":"x","host":"a"}"#,
    r#"{"host":"regex:[ab]"}"#,
    r#"{"dc":"regex:.*"}"#,
    r#"{"host":"nobody"}"#,
    r#"{"nope":"regex:.*"}"#,
];
/// Other members of a metric.
const MEMBERS: [&str; 11] = [
    "",
    r#","exclude_tags":true"#,
    r#","order":"desc""#,
    r#","aggregators":[{"name":"count","sampling":{"value":1,"unit":"weeks"},"time_zone":"America/New_York"}]"#,
    r#","aggregators":[{"name":"sum","sampling":{"value":1,"unit":"months"},"align_start_time":true}]"#,
    r#","aggregators":[{"name":"sum","sampling":{"value":1,"unit":"years"},"align_end_time":true}]"#,
    r#","aggregators":[{"name":"max","sampling":{"value":9,"unit":"days"},"start_time":1709300000000}]"#,
    r#","aggregators":[{"name":"gaps","sampling":{"value":9,"unit":"hours"},"end_time":1709900000000}]"#,
    // KairosDB trims the first of several groups only.
    r#","aggregators":[{"name":"gaps","sampling":{"value":2,"unit":"hours"},"trim":true}]"#,
    r#","aggregators":[{"name":"sum","sampling":{"value":1,"unit":"hours"}},{"name":"rate","unit":"days"}]"#,
    r#","group_by":[{"name":"value","range_size":9},{"name":"tag","tags":["dc"]}],"exclude_tags":true"#,
];

/// Members of a metric that are wrong. Series with points at one time have no rate. KairosDB lists several errors of an
/// object in any order: there is one.
const BAD_METRICS: [&str; 37] = [
    r#","name":"""#,
    r#","tags":{"host":""}"#,
    r#","tags":{"host":["a",null]}"#,
    r#","tags":{"":"b"}"#,
    r#","tags":[]"#,
    r#","limit":"x""#,
    r#","order":"up""#,
    r#","plugins":[{"name":"x"}]"#,
    r#","group_by":[{}]"#,
    r#","group_by":[1]"#,
    r#","group_by":[{"name":"bogus"}]"#,
    r#","group_by":[{"name":"tag"}]"#,
    r#","group_by":[{"name":"tag","tags":[]}]"#,
    r#","group_by":[{"name":"tag","tag":["host"]}]"#,
    r#","group_by":[{"name":"value"}]"#,
    r#","group_by":[{"name":"time","group_count":1}]"#,
    r#","group_by":[{"name":"time","range_size":{"value":-1,"unit":"days"}}]"#,
    r#","aggregators":{}"#,
    r#","aggregators":[{}]"#,
    r#","aggregators":[{"name":"bogus"},{}]"#,
    r#","aggregators":[{"name":"avg","bogus":1}]"#,
    r#","aggregators":[{"name":"avg","align_sampling":[]}]"#,
    r#","aggregators":[{"name":"avg","sampling":{"value":-1,"unit":"days"}}]"#,
    r#","aggregators":[{"name":"avg","sampling":{"value":1,"unit":"fortnights"}}]"#,
    r#","aggregators":[{"name":"div"}]"#,
    r#","aggregators":[{"name":"div","divisor":0}]"#,
    r#","aggregators":[{"name":"div","divisor":"x"}]"#,
    r#","aggregators":[{"name":"percentile"}]"#,
    r#","aggregators":[{"name":"percentile","percentile":0}]"#,
    r#","aggregators":[{"name":"filter","filter_op":"bogus","threshold":1}]"#,
    r#","aggregators":[{"name":"trim","trim":"none"}]"#,
    r#","aggregators":[{"name":"score"}]"#,
    r#","aggregators":[{"name":"rate"}]"#,
    r#","aggregators":[{"name":"sampler"}]"#,
    r#","aggregators":[{"name":"gaps","sampling":{"value":1,"unit":"hours"}},{"name":"sum"}]"#,
    r#","aggregators":[{"name":"gaps","sampling":{"value":1,"unit":"hours"}},{"name":"avg"}]"#,
    r#","aggregators":[{"name":"sma","size":2},{"name":"js_function"}]"#,
];
const BAD_BODIES: [&str; 19] = [
    "",
    "[]",
    "{}",
    "nope",
    "{nope",
    r#"{"start_absolute":1"#,
    r#"{"start_absolute":1}"#,
    r#"{"start_absolute":1,"metrics":[]}"#,
    r#"{"start_absolute":1,"metrics":[{}]}"#,
    r#"{"start_absolute":1,"metrics":[5]}"#,
    r#"{"start_absolute":"x","metrics":[{"name":"sent"}]}"#,
    r#"{"metrics":[{"name":"sent"}]}"#,
    r#"{"start_absolute":2,"end_absolute":1,"metrics":[{"name":"sent"}]}"#,
    r#"{"start_absolute":1,"cache_time":-1,"metrics":[{"name":"sent"}]}"#,
    r#"{"start_relative":{"value":1,"unit":"fortnights"},"metrics":[{"name":"sent"}]}"#,
    r#"{"start_relative":{"value":-1,"unit":"days"},"metrics":[{"name":"sent"}]}"#,
    r#"{"start_relative":{"value":0,"unit":"days"},"end_absolute":1,"metrics":[{"name":"sent"}]}"#,
    r#"{"start_absolute":1,"plugins":[{"name":"x"}],"metrics":[{"name":"sent"}]}"#,
    r#"{"start_absolute":1,"plugins":[{}],"metrics":[{"name":"sent"}]}"#,
];

pub(super) const QUERY: &str = "/datapoints/query";
pub(super) const TAGS_QUERY: &str = "/datapoints/query/tags";

/// A request: POST if it has a body.
pub(super) struct Asked {
    pub(super) path: String,
    pub(super) body: Option<String>,
}

impl Asked {
    /// As a text that is not too long.
    pub(super) fn text(&self) -> String {
        let body = self.body.as_deref().unwrap_or_default();
        format!("{} {}", self.path, beginning(body))
    }
}

/// A GET.
pub(super) fn get(path: &str) -> Asked {
    Asked { path: path.to_owned(), body: None }
}

/// A POST.
pub(super) fn post(path: &str, body: impl Into<String>) -> Asked {
    Asked { path: path.to_owned(), body: Some(body.into()) }
}

/// The first 2,000 characters.
pub(super) fn beginning(text: &str) -> String {
    text.chars().take(2_000).collect()
}

/// A metric of a query. Other members begin with a comma.
pub(super) fn metric(name: &str, members: &str) -> String {
    format!(r#"{{"name":"{name}"{members}}}"#)
}

/// A query for metrics, which are members of a list.
pub(super) fn query(from: i64, to: i64, zone: &str, metrics: &str) -> Asked {
    let times = format!(r#""start_absolute":{from},"end_absolute":{to}"#);
    post(QUERY, format!(r#"{{{times},"time_zone":"{zone}","metrics":[{metrics}]}}"#))
}

/// A query over all points.
pub(super) fn whole(name: &str, members: &str) -> Asked {
    query(START - 1, END, "UTC", &metric(name, members))
}

/// Requests that a KairosDB refuses, most of them.
pub(super) fn bad() -> impl Iterator<Item = Asked> {
    let metrics = BAD_METRICS.into_iter().map(|members| whole("sent", members));
    let bodies =
        BAD_BODIES.into_iter().flat_map(|body| [QUERY, TAGS_QUERY].map(|path| post(path, body)));
    metrics.chain(bodies).chain([get(QUERY)])
}

/// All building blocks for each metric, and the other paths.
pub(super) fn fixed(metrics: &[&str]) -> Vec<Asked> {
    let mut all = vec![get("/health/check"), get("/health/status")];
    for name in metrics {
        if COMBINED.contains(name) {
            all.extend(combined(name));
        }
        for other in OTHERS {
            all.push(whole(name, &format!(r#","aggregators":[{other}]"#)));
            // One series, so that it has a rate.
            let members = format!(r#","tags":{{"host":"c"}},"aggregators":[{other}]"#);
            all.push(whole(name, &members));
        }
        all.extend(MEMBERS.map(|members| whole(name, members)));
        all.extend(TAGS.map(|tags| whole(name, &format!(r#","tags":{tags}"#))));
        all.extend(TAG_GROUPS.map(|group| whole(name, &format!(r#","group_by":[{group}]"#))));
        all.extend(
            NUMBER_GROUPS
                .map(|group| whole(name, &format!(r#","group_by":[{group}],"exclude_tags":true"#))),
        );
        for order in ["asc", "desc"] {
            let members = format!(r#","limit":3,"order":"{order}""#);
            if *name != BOTH {
                all.push(query(START, SECOND_ROW - 1, "UTC", &metric(name, &members)));
            }
        }
        // KairosDB lists the tags of whole rows, so no range is shorter.
        let tags = TAGS.map(|tags| metric(name, &format!(r#","tags":{tags}"#))).join(",");
        let one = metric(name, "");
        let body = format!(r#"{{"start_absolute":{START},"metrics":[{one},{tags}]}}"#);
        if *name != ODD {
            all.push(post(TAGS_QUERY, &*body));
        }
        all.push(post(QUERY, &*body));
        let encoded = Serializer::new(String::new()).append_pair("query", &body).finish();
        all.push(get(&format!("{QUERY}?{encoded}")));
    }
    all
}

/// Each range aggregator with each alignment and sampling.
fn combined(name: &str) -> impl Iterator<Item = Asked> {
    RANGES.into_iter().flat_map(move |fold| {
        ALIGNMENTS.into_iter().flat_map(move |alignment| {
            SAMPLINGS.map(|(sampling, zone, from, to)| {
                let range = format!(r#"{{{fold},{alignment},"sampling":{{{sampling}}}}}"#);
                query(from, to, zone, &metric(name, &format!(r#","aggregators":[{range}]"#)))
            })
        })
    })
}

fn one<T: Copy>(random: &mut StdRng, of: &[T]) -> T {
    of[random.random_range(0..of.len())]
}

fn one_in(random: &mut StdRng, times: u32) -> bool {
    random.random_range(0..times) == 0
}

/// A query of these blocks. Each text of it is valid, but some cannot be evaluated.
pub(super) fn random_query(random: &mut StdRng, metrics: &[&str]) -> Asked {
    let (from, mut to) = random_times(random);
    let mut limit = String::new();
    if one_in(random, 5) {
        limit = format!(r#","limit":{}"#, random.random_range(1..9));
        // KairosDB limits each of its rows, and counts all that it read: a range is within one.
        if from < SECOND_ROW {
            to = to.min(SECOND_ROW - 1);
        }
    }
    let count = if one_in(random, 6) { 2 } else { 1 };
    let metrics: Vec<String> = (0..count).map(|_| random_metric(random, metrics, &limit)).collect();
    query(from, to, one(random, &ZONES), &metrics.join(","))
}

fn random_times(random: &mut StdRng) -> (i64, i64) {
    let (first, last) = match random.random_range(0..3) {
        0 => return (START - 1, END),
        1 => (BURST - 60_000, BURST + 400_000),
        _ => (START - DAY, END),
    };
    let [a, b] = [(); 2].map(|()| random.random_range(first..last));
    (a.min(b), a.max(b))
}

fn random_metric(random: &mut StdRng, metrics: &[&str], limit: &str) -> String {
    let name = one(random, metrics);
    let mut members = String::new();
    if name != BOTH {
        members.push_str(limit);
    }
    if one_in(random, 4) {
        members.push_str(r#","order":"desc""#);
    }
    if one_in(random, 3) {
        members.push_str(&format!(r#","tags":{}"#, one(random, &TAGS)));
    }
    let groups = TAG_GROUPS.into_iter().chain(NUMBER_GROUPS);
    let groups: Vec<&str> = groups.filter(|_| one_in(random, 14)).collect();
    if one_in(random, 5) || groups.iter().any(|group| NUMBER_GROUPS.contains(group)) {
        members.push_str(r#","exclude_tags":true"#);
    }
    // KairosDB trims the first of several groups only.
    let trims = if groups.is_empty() { &["", r#","trim":true"#][..] } else { &[""][..] };
    let count = random.random_range(0..4);
    let aggregators: Vec<String> = (0..count).map(|_| random_aggregator(random, trims)).collect();
    let (groups, aggregators) = (groups.join(","), aggregators.join(","));
    metric(name, &format!(r#"{members},"group_by":[{groups}],"aggregators":[{aggregators}]"#))
}

fn random_aggregator(random: &mut StdRng, trims: &[&str]) -> String {
    if one_in(random, 3) {
        return one(random, &OTHERS).to_owned();
    }
    let fold = one(random, &RANGES);
    let mut range = format!("{{{fold}");
    if fold == GAPS || !one_in(random, 8) {
        // It marks too many ranges if they are shorter.
        let unit = one(random, if fold == GAPS { &UNITS[3..] } else { &UNITS[..] });
        let most = match unit {
            "years" => 1,
            "months" => 3,
            _ => 40,
        };
        let value = random.random_range(1..=most);
        range.push_str(&format!(r#","sampling":{{"value":{value},"unit":"{unit}"}}"#));
    }
    for property in ["align_sampling", "align_start_time", "align_end_time"] {
        if one_in(random, 2) {
            range.push_str(&format!(r#","{property}":{}"#, one_in(random, 2)));
        }
    }
    if fold == GAPS {
        range.push_str(one(random, trims));
    }
    range + "}"
}

/// Requests that must be refused, whatever they cost.
pub(super) fn hostile() -> [Asked; 9] {
    let lists = ["[", "]"].map(|bracket| bracket.repeat(100_000)).concat();
    let aggregators = |one: &str| {
        let many = vec![one; 100_000].join(",");
        whole("sent", &format!(r#","aggregators":[{many}]"#))
    };
    let gaps = r#"{"name":"gaps","sampling":{"value":1,"unit":"milliseconds"}}"#;
    let gaps = metric("sent", &format!(r#","aggregators":[{gaps}]"#));
    let start = r#""start_relative":{"value":1000000,"unit":"years"}"#;
    let expression = r"\\w{99}".repeat(9_000);
    [
        post(QUERY, format!(r#"{{"start_absolute":0,"metrics":{lists}}}"#)),
        aggregators(r#"{"name":"avg"}"#),
        // As many in a shorter body.
        aggregators("0"),
        post(QUERY, format!(r#"{{{start},"metrics":[{gaps}]}}"#)),
        query(START, END, "Bogus/X", &metric("sent", "")),
        whole("sent", &format!(r#","tags":{{"host":"regex:{expression}"}}"#)),
        post(QUERY, "hello"),
        post(QUERY, "{nope"),
        post(QUERY, ""),
    ]
}
