//! The answers of a real Prometheus 3.16 to queries: its parse errors and its format.
//!
//! `tests/data/prometheus-3.16/requests*.jsonl` hold one request and its answer a line. Only
//! results that depend on the text of the query alone are tested here.

use promkairos::model::PatternSet;
use promkairos::promql::{Features, Names, Syntax, parse, parse_selector_with};
use serde_json::Value;

/// A recorded request and its answer.
struct Recorded {
    request: Value,
    syntax: Syntax,
}

impl Recorded {
    fn all() -> Vec<Self> {
        let read = |name: &str, syntax| {
            let path =
                format!("{}/tests/data/prometheus-3.16/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(&path).expect(&path);
            let parsed = text.lines().map(|line| serde_json::from_str(line).expect(line));
            parsed.map(|request| Self { request, syntax }).collect::<Vec<_>>()
        };
        let mut all = read("requests", Features::Stable.into());
        all.extend(read("requests-experimental", Features::Experimental.into()));
        all.extend(read("requests-new", Features::Experimental.into()));
        let names = Names::Unicode;
        all.extend(read("requests-utf8", Syntax { features: Features::Stable, names }));
        all.retain(|recorded| {
            // The server did not read the form of the other requests.
            let readable = recorded.request["headers"]["Content-Type"].is_null();
            readable && ["GET", "POST"].contains(&recorded.text("method"))
        });
        all
    }

    fn text(&self, key: &str) -> &str {
        self.request[key].as_str().unwrap_or_default()
    }

    /// The values of a parameter: those in the body, then those in the URL.
    fn parameters(&self, name: &str) -> impl Iterator<Item = &str> {
        let parts = ["form", "params"].into_iter().flat_map(|part| self.request[part].as_array());
        let named = parts.flatten().filter(move |pair| pair[0] == name);
        named.filter_map(|pair| pair[1].as_str())
    }

    fn query(&self) -> Option<&str> {
        self.parameters("query").next()
    }

    /// The recorded parse error, from its position on.
    fn parse_error(&self) -> Option<&str> {
        let error = self.request["json"]["error"].as_str()?;
        let at_fault = error.strip_prefix("invalid parameter ");
        let error = at_fault.and_then(|rest| rest.split_once(": ")).map_or(error, |(_, rest)| rest);
        error.contains(": parse error: ").then_some(error)
    }

    fn endpoint(&self) -> &str {
        self.text("path").rsplit('/').next().unwrap_or_default()
    }

    fn takes_query(&self) -> bool {
        let endpoints = ["query", "query_range", "query_exemplars", "format_query", "parse_query"];
        endpoints.contains(&self.endpoint()) && self.query().is_some()
    }
}

/// Asserts that each case has the wanted result, and that their number is `wanted`.
fn all_equal(wanted: usize, cases: Vec<(String, String, String)>) {
    assert_eq!(cases.len(), wanted, "cases");
    let wrong: Vec<String> = cases
        .into_iter()
        .filter(|(_, got, want)| got != want)
        .map(|(query, got, want)| format!("{query:?}\n  got  {got}\n  want {want}"))
        .collect();
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn parse_errors_are_those_of_prometheus() {
    let cases = Recorded::all().into_iter().filter(Recorded::takes_query).filter_map(|recorded| {
        let want = recorded.parse_error()?.to_owned();
        let query = recorded.query()?;
        let got = match parse(query, recorded.syntax) {
            Err(error) => error.to_string(),
            Ok(expr) => format!("accepted as {expr}"),
        };
        Some((query.to_owned(), got, want))
    });
    all_equal(505, cases.collect());
}

#[test]
fn what_prometheus_evaluates_is_parsed() {
    let cases = Recorded::all().into_iter().filter(Recorded::takes_query).filter_map(|recorded| {
        // A refusal with another status was made after the query was parsed.
        if recorded.request["status"] == 400 {
            return None;
        }
        let query = recorded.query()?;
        let got = parse(query, recorded.syntax).map_or_else(|e| e.to_string(), |_| "parsed".into());
        Some((query.to_owned(), got, "parsed".to_owned()))
    });
    all_equal(2681, cases.collect());
}

#[test]
fn the_format_is_that_of_prometheus() {
    let formats = |recorded: &Recorded| recorded.endpoint() == "format_query";
    let cases = Recorded::all().into_iter().filter(formats).filter_map(|recorded| {
        let want = recorded.request["json"]["data"].as_str()?.to_owned();
        let query = recorded.query()?;
        let got = parse(query, recorded.syntax).map_or_else(|e| e.to_string(), |e| e.pretty());
        Some((query.to_owned(), got, want))
    });
    all_equal(337, cases.collect());
}

#[test]
fn errors_about_selectors_are_those_of_prometheus() {
    let endpoints = ["series", "labels", "values"];
    let selects = |recorded: &Recorded| endpoints.contains(&recorded.endpoint());
    let cases = Recorded::all().into_iter().filter(selects).filter_map(|recorded| {
        let want = recorded.parse_error()?.to_owned();
        let selectors: Vec<&str> = recorded.parameters("match[]").collect();
        let refused = selectors.iter().find_map(|selector| {
            let mut patterns = PatternSet::immediate();
            parse_selector_with(selector, 1, recorded.syntax, &mut patterns).err()
        });
        let got = refused.map_or_else(|| "accepted".into(), |error| error.to_string());
        (!selectors.is_empty()).then(|| (selectors.join(" "), got, want))
    });
    all_equal(36, cases.collect());
}
