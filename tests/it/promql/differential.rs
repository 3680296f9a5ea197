//! Random queries to a real Prometheus 3 and to promkairos on each store, over the same series: values, errors,
//! warnings and infos are equal, except for changes in Prometheus itself since that version.
//!
//! The seed is printed. Queries that once differed without such a reason are kept in `tests/data/promql`. Prometheus
//! 3.5 reuses the histograms of a query's ranges for the next one. Sometimes they share their buckets then, and their
//! count differs from the sum of the buckets. So a new Prometheus that has answered no other query decides.

use std::collections::BTreeMap;

use promkairos::api::proto::v1::TimeSeries;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::Value as Json;

use crate::fuzz::targets::dataset::{self, SAMPLES, START, STEP};
use crate::fuzz::targets::expression::{Words, expression};
use crate::support::prometheus::Prometheus;
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::series::send;
use crate::support::{api, long, seed};

/// Whether a known difference explains why the answers to a query differ.
type Explains = fn(query: &str, why: &str) -> bool;

/// Known differences; most exist because the packaged Prometheus is 3.5 and we follow 3.16.
const DIFFERENT: &[(&str, Explains)] = &[
    ("rate and increase of native histograms are limited by their counts", |query, why| {
        let rate = [" ", "("].iter().any(|before| query.contains(&format!("{before}rate(")));
        let rate = rate || query.starts_with("rate(") || query.contains("increase(");
        rate && query.contains("native") && of_points(why)
    }),
    // 3.6: "Fix inconsistencies when using native histograms in subqueries".
    ("histograms of a subquery were stepped over", |query, why| {
        query.contains("native") && has_subquery(query) && of_points(why)
    }),
    ("`@` in the parameter of an aggregation moves with the steps, and start() is not read", {
        |query, _| has_pinned_parameter(query)
    }),
    (
        "a remainder, or the sine of a power, shows the last digits of what it is of",
        |query, why| {
            let power = query.contains(" ^ ") || query.contains("exp(");
            if power && ["sin(", "cos(", "tan("].iter().any(|call| query.contains(call)) {
                return of_points(why);
            }
            let note = why.contains("quantile value should be between 0 and 1, got");
            query.contains(" % ") && (note || of_points(why))
        },
    ),
    // Both sides of a `>` may be equal there.
    (
        "what topk picks is summed in any order, and a comparison sees the last digit",
        |query, why| compares_picked(query) && of_points(why),
    ),
    // 3.7: it reads histograms without buckets if any enclosing call asks for their totals.
    ("totals of histograms lost what their counter resets say", |query, why| {
        ["histogram_avg(", "histogram_count(", "histogram_sum("].iter().any(|c| query.contains(c))
            && query.contains("native")
            && why.contains("conflicting counter resets during histogram aggregation")
    }),
    ("several matches were looked for only among what a comparison keeps", |_, why| {
        why.contains("theirs Null\n    ours   String(\"multiple matches for labels")
    }),
    ("Go's own functions end in other digits, which become labels", |query, why| {
        why.starts_with("  series") && query.contains("count_values")
    }),
    ("it evaluates subqueries at other times too, where it adds notes", |query, why| {
        has_subquery(query)
            && ["  error", "  warnings", "  infos"].iter().any(|kind| why.starts_with(kind))
    }),
];

/// A request for a query: path and parameters.
type Asked = (&'static str, Vec<(&'static str, String)>);

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_those_of_a_real_prometheus() {
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let prometheus = Prometheus::start().await;
    let embedded = Promkairos::ready(folders[0].path(), &Backend::Embedded, &[]).await;
    let cassandra = Backend::cassandra_store();
    let cassandra = Promkairos::ready(folders[1].path(), &cassandra, &[]).await;
    let series = dataset::series(seed);
    for url in [prometheus.url(""), embedded.url(""), cassandra.url("")] {
        assert_eq!(send(&url, series.clone()).await, 204);
    }
    let total = if long() { 6_000 } else { 400 };
    let (mut answered, mut retold, mut wrong) = (0, 0, Vec::new());
    let mut known = [0; DIFFERENT.len()];
    for _ in 0..total {
        let query = expression(&mut |end| random.random_range(0..end), Words::Common);
        let (path, parameters) = asked(&query, &mut random);
        let form: Vec<(&str, &str)> =
            parameters.iter().map(|(name, value)| (*name, &**value)).collect();
        let urls = [&prometheus.url(path), &embedded.url(path), &cassandra.url(path)];
        let [theirs, embedded, cassandra] = urls.map(|url| api::post(url, &form));
        let (mut theirs, embedded, cassandra) = tokio::join!(theirs, embedded, cassandra);
        if query.contains("native") && differs(&query, &theirs, &embedded) {
            let first = std::mem::replace(&mut theirs, alone(&series, path, &form).await);
            retold += usize::from(compare(&query, &first, &theirs).is_err());
        }
        let result = theirs.1["data"]["result"].as_array();
        answered += usize::from(result.is_some_and(|result| !result.is_empty()));
        for (store, ours) in [("embedded", embedded), ("cassandra", cassandra)] {
            let Err(why) = compare(&query, &theirs, &ours) else { continue };
            match reason(&query, &why) {
                Some(reason) => known[reason] += 1,
                None => wrong.push(format!("{store}: {path} {form:?}\n{why}")),
            }
        }
    }
    println!(
        "{total} queries, {answered} with points; a new Prometheus said otherwise to {retold}"
    );
    for ((reason, _), answers) in DIFFERENT.iter().zip(known) {
        println!("{answers} answers differ: {reason}");
    }
    let known: usize = known.iter().sum();
    assert!(answered > total / 3, "only {answered} of {total} have an answer with points");
    assert!(known < total / 20, "{known} answers to {total} differ as listed");
    assert!(wrong.is_empty(), "{} answers to {total} differ\n{}", wrong.len(), wrong.join("\n"));
}

/// 3.5 counts the samples that its steps see, but not yet those that are read for them. It reads histograms without
/// their buckets also where `histogram_sum` or a similar call is outermost, and always for `absent` and `timestamp`.
#[tokio::test(flavor = "multi_thread")]
async fn steps_see_as_many_samples_as_in_a_real_prometheus() {
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let folder = tempfile::tempdir().expect("a folder");
    let prometheus = Prometheus::start().await;
    let flags = ["--promql-experimental"];
    let embedded = Promkairos::ready(folder.path(), &Backend::Embedded, &flags).await;
    let series = dataset::series(seed);
    for url in [prometheus.url(""), embedded.url("")] {
        assert_eq!(send(&url, series.clone()).await, 204);
    }
    let total = if long() { 6_000 } else { 400 };
    let (mut counted, mut wrong) = (0, Vec::new());
    for _ in 0..total {
        let query = expression(&mut |end| random.random_range(0..end), Words::Common);
        let totals =
            ["histogram_avg(", "histogram_count(", "histogram_sum(", "absent(", "timestamp("];
        let totals = query.contains("native") && totals.iter().any(|call| query.contains(call));
        // For a subquery 3.5 counts the results, and 3.16 the samples that they were computed from. With the flag,
        // names are dropped later than in 3.5 without it.
        if totals
            || has_subquery(&query)
            || compares_picked(&query)
            || query.contains("(__name__")
            || has_pinned_parameter(&query)
        {
            continue;
        }
        let (path, mut parameters) = asked(&query, &mut random);
        parameters.push(("stats", "all".to_owned()));
        let form: Vec<(&str, &str)> =
            parameters.iter().map(|(name, value)| (*name, &**value)).collect();
        let (theirs, ours) = (prometheus.url(path), embedded.url(path));
        let (theirs, ours) = tokio::join!(api::post(&theirs, &form), api::post(&ours, &form));
        if (theirs.0, ours.0) != (200, 200) {
            continue;
        }
        let seen = |answer: &Json| {
            answer["data"]["stats"]["samples"]["totalQueryableSamplesPerStep"].clone()
        };
        let (mut theirs, ours) = (seen(&theirs.1), seen(&ours.1));
        counted += usize::from(theirs.is_array());
        if theirs != ours && query.contains("native") {
            theirs = seen(&alone(&series, path, &form).await.1);
        }
        if theirs != ours {
            wrong.push(format!("{path} {form:?}\n    theirs {theirs}\n    ours   {ours}"));
        }
    }
    println!("{counted} of {total} queries were counted");
    assert!(counted > total / 3, "only {counted} of {total} queries were counted");
    assert!(wrong.is_empty(), "{} of {counted} differ\n{}", wrong.len(), wrong.join("\n"));
}

/// The index of the listed reason that explains the difference.
fn reason(query: &str, why: &str) -> Option<usize> {
    DIFFERENT.iter().position(|(_, explains)| explains(query, why))
}

/// Whether two answers differ without a listed reason.
fn differs(query: &str, theirs: &(u16, Json), ours: &(u16, Json)) -> bool {
    compare(query, theirs, ours).is_err_and(|why| reason(query, &why).is_none())
}

/// The answer of a new Prometheus with these series to its first query.
async fn alone(series: &[TimeSeries], path: &str, form: &[(&str, &str)]) -> (u16, Json) {
    let prometheus = Prometheus::start().await;
    assert_eq!(send(&prometheus.url(""), series.to_vec()).await, 204);
    api::post(&prometheus.url(path), form).await
}

fn has_subquery(query: &str) -> bool {
    query.contains("m:") || query.contains("s:")
}

/// Whether there is an aggregation with a computed parameter, and an expression at a fixed time.
fn has_pinned_parameter(query: &str) -> bool {
    let computed = |aggregation: &str| {
        let uses = query.split(aggregation).skip(1);
        uses.into_iter().any(|rest| {
            let open = rest.split_once('(').map_or("", |(_, rest)| rest);
            let by =
                rest.trim_start().starts_with("by") || rest.trim_start().starts_with("without");
            let open = if by { open.split_once('(').map_or("", |(_, rest)| rest) } else { open };
            open.starts_with('(') || open.starts_with("scalar(")
        })
    };
    query.contains(" @ ") && ["quantile ", "topk ", "bottomk "].iter().any(|name| computed(name))
}

fn compares_picked(query: &str) -> bool {
    // Matchers have no spaces around their operators.
    let operators = [" == ", " != ", " > ", " < ", " >= ", " <= "];
    let compares = operators.iter().any(|operator| query.contains(operator));
    compares && ["topk", "bottomk"].iter().any(|call| query.contains(call))
}

/// Whether series or their points differ, and not only the notes about them.
fn of_points(why: &str) -> bool {
    ["  {", "  result", "  series"].iter().any(|kind| why.starts_with(kind))
}

/// A random time or range near the samples.
fn asked(query: &str, random: &mut StdRng) -> Asked {
    let end = START + SAMPLES * STEP;
    let mut time = || {
        let millis = random.random_range(START - 60_000..end + 400_000);
        // At the time of a sample, or at any time.
        if millis % 2 == 0 { START + (millis - START) / STEP * STEP } else { millis }
    };
    let (first, second) = (time(), time());
    let seconds = |millis: i64| format!("{}.{:03}", millis / 1000, millis % 1000);
    let mut parameters = vec![("query", query.to_owned())];
    if random.random_range(0..2) == 0 {
        parameters.push(("time", seconds(first)));
        return ("/api/v1/query", parameters);
    }
    let step = ["15", "60", "7", "31.5"][random.random_range(0..4)];
    parameters.push(("start", seconds(first.min(second))));
    parameters.push(("end", seconds(first.max(second))));
    parameters.push(("step", step.to_owned()));
    ("/api/v1/query_range", parameters)
}

/// Describes how status and body of two answers differ.
fn compare(query: &str, theirs: &(u16, Json), ours: &(u16, Json)) -> Result<(), String> {
    let diff = |what: &str, theirs: &dyn std::fmt::Debug, ours: &dyn std::fmt::Debug| {
        Err(format!("  {what}\n    theirs {theirs:?}\n    ours   {ours:?}"))
    };
    let error = |answer: &(u16, Json)| (answer.0, answer.1["errorType"].clone(), head(&answer.1));
    if error(theirs) != error(ours) {
        return diff("error", &theirs.1["error"], &ours.1["error"]);
    }
    for kind in ["warnings", "infos"] {
        let (theirs, ours) = (notes(&theirs.1[kind]), notes(&ours.1[kind]));
        let cut = |notes: &[Note]| notes.iter().any(|(text, _)| text.contains("omitted"));
        let same = theirs.len() == ours.len()
            && theirs.iter().zip(&ours).all(|(theirs, ours)| alike(query, theirs, ours));
        if !same && !cut(&theirs) && !cut(&ours) {
            return diff(kind, &theirs, &ours);
        }
    }
    let (theirs, ours) = (&theirs.1["data"], &ours.1["data"]);
    if theirs["resultType"] != ours["resultType"] {
        return diff("type", &theirs["resultType"], &ours["resultType"]);
    }
    if !theirs["result"][0]["metric"].is_object() {
        let same = near(&theirs["result"], &ours["result"]);
        return if same { Ok(()) } else { diff("result", &theirs["result"], &ours["result"]) };
    }
    let (theirs, ours) = (by_labels(&theirs["result"]), by_labels(&ours["result"]));
    if !theirs.keys().eq(ours.keys()) {
        return diff("series", &theirs.keys(), &ours.keys());
    }
    for (labels, points) in &theirs {
        if !near(points, &ours[labels]) {
            return diff(labels, points, &ours[labels]);
        }
    }
    Ok(())
}

/// The text of an error without the parts that depend on which of several problems, or of several
/// series, was met first.
fn head(answer: &Json) -> String {
    let text = answer["error"].as_str().unwrap_or_default();
    // 3.5 looks for the operator elsewhere when a call precedes it.
    if let Some((_, label)) = text.split_once("parse error: label ") {
        return label.to_owned();
    }
    let head = text.split(['{', '[']).next().unwrap_or_default();
    const OF_MATCHING: [&str; 3] = [
        "found duplicate series for the match group",
        "multiple matches for labels",
        "vector cannot contain metrics with the same labelset",
    ];
    match OF_MATCHING.iter().any(|problem| head.starts_with(problem)) {
        true => "matching".to_owned(),
        false => head.to_owned(),
    }
}

/// A text and its column.
type Note = (String, usize);

/// The notes, sorted, without texts that the versions word differently.
fn notes(list: &Json) -> Vec<Note> {
    let texts = list.as_array().into_iter().flatten().filter_map(Json::as_str);
    let texts = texts.filter(|text| !text.contains("sort is ineffective"));
    let mut notes: Vec<Note> = texts
        .map(|text| {
            let text = text.replace(" for metric name \"\"", "");
            for opening in [
                "PromQL warning: bucket label \"le\" is missing or has a malformed value of \"",
                "PromQL info: input to histogram_quantile needed to be fixed for monotonicity",
                "PromQL info: input to histogram_quantile has NaN observations, result is ",
            ] {
                if text.starts_with(opening) {
                    return (opening.to_owned(), 0);
                }
            }
            let (text, place) = text.rsplit_once(" (1:").unwrap_or((&text, ""));
            (rounded(text), place.trim_end_matches(')').parse().unwrap_or(0))
        })
        .collect();
    notes.sort();
    notes.dedup();
    notes
}

/// Rounds the number at the end of a text, whose last digits Go prints in its own way.
fn rounded(text: &str) -> String {
    let number = text.rsplit_once(" got ").and_then(|(_, number)| number.parse::<f64>().ok());
    match (text.rsplit_once(" got "), number) {
        (Some((before, _)), Some(number)) => format!("{before} got {number:.9e}"),
        _ => text.to_owned(),
    }
}

/// Only one of several places that give the same note is reported; either place is right.
fn alike(query: &str, theirs: &Note, ours: &Note) -> bool {
    let several = query.matches("quantile").count() > 1 && ours.0.contains(": quantile value");
    theirs.0 == ours.0 && (several || theirs.1 == ours.1)
}

fn by_labels(result: &Json) -> BTreeMap<String, Json> {
    let series = result.as_array().into_iter().flatten();
    let one = |series: &Json| {
        let mut points = series.clone();
        let labels = points["metric"].take();
        (labels.to_string(), points)
    };
    series.map(one).collect()
}

/// Whether two values are equal except for the last digits of numbers.
fn near(theirs: &Json, ours: &Json) -> bool {
    match (theirs, ours) {
        (Json::Array(theirs), Json::Array(ours)) => {
            theirs.len() == ours.len() && theirs.iter().zip(ours).all(|(a, b)| near(a, b))
        }
        (Json::Object(theirs), Json::Object(ours)) => {
            theirs.len() == ours.len()
                && theirs.iter().all(|(key, a)| ours.get(key).is_some_and(|b| near(a, b)))
        }
        (Json::String(a), Json::String(b)) if a != b => {
            let (Ok(a), Ok(b)) = (a.parse::<f64>(), b.parse::<f64>()) else { return false };
            (a - b).abs() <= 1e-9 * a.abs().max(b.abs()) + 1e-12
        }
        (a, b) => a == b,
    }
}
