//! Random bodies of longs and doubles, and the points that are stored after them: of several points of a series at one
//! time, the last one.
//!
//! A point keeps its type when it is written again, since KairosDB shows two points of two types at one time.

use std::collections::BTreeMap;

use rand::RngExt as _;
use rand::rngs::StdRng;
use serde_json::Value as Json;

use crate::support::kairosdb::KairosSeries;

const METRICS: usize = 4;
const HOSTS: usize = 5;
/// 2024-03-01T00:00:00Z.
const START: i64 = 1_709_251_200_000;
/// Three hours later.
const END: i64 = START + 3 * 3_600_000;

const LONGS: [i64; 6] = [0, -1, 10_000_000, (1 << 53) + 1, i64::MIN, i64::MAX];
/// The text of a double without a point is that of a long, unless the type is given.
const DOUBLES: [f64; 7] = [0.0, -0.0, 1.0, 1e7, 0.1, -1e300, 9_007_199_254_740_992.0];

#[derive(Debug, Clone, Copy)]
enum Number {
    Long(i64),
    Double(f64),
}

/// Points of a series by time, each with the round of its last write.
type Points = BTreeMap<i64, (usize, Number)>;

/// All that was written.
pub(super) struct Model {
    prefix: String,
    /// By the numbers of metric and host.
    series: BTreeMap<(usize, usize), Points>,
}

impl Model {
    /// Nothing yet, for metrics whose names begin so.
    pub(super) fn new(prefix: String) -> Self {
        Self { prefix, series: BTreeMap::new() }
    }

    /// A body with several metrics. A time that was written in this round is written again with the same value only.
    pub(super) fn body(&mut self, random: &mut StdRng, round: usize) -> String {
        let count = random.random_range(2..6);
        let metrics: Vec<String> = (0..count).map(|_| self.metric(random, round)).collect();
        format!("[{}]", metrics.join(","))
    }

    fn metric(&mut self, random: &mut StdRng, round: usize) -> String {
        let (metric, host) = (random.random_range(0..METRICS), random.random_range(0..HOSTS));
        let series = self.series.entry((metric, host)).or_default();
        let mut points = Vec::new();
        for _ in 0..random.random_range(1..12) {
            let time = random_time(random, series);
            let number = match series.get(&time) {
                Some((last, number)) if *last == round => *number,
                Some((_, Number::Long(_))) => random_long(random),
                Some((_, Number::Double(_))) => random_double(random),
                None if one_in(random, 2) => random_long(random),
                None => random_double(random),
            };
            series.insert(time, (round, number));
            points.push((time, number));
        }
        let name = self.name(metric);
        let head = format!(r#""name":"{name}","tags":{{"dc":"x","host":"h{host}"}}"#);
        if let [(time, number)] = points[..] {
            let value = match number {
                Number::Long(long) => format!(r#"{long},"type":"long""#),
                Number::Double(double) => format!(r#"{double:?},"type":"double""#),
            };
            return format!(r#"{{{head},"timestamp":{time},"value":{value}}}"#);
        }
        let points: Vec<String> = points
            .into_iter()
            .map(|(time, number)| format!("[{time},{}]", random_text(random, number)))
            .collect();
        format!(r#"{{"datapoints":[{}],{head}}}"#, points.join(","))
    }

    fn name(&self, metric: usize) -> String {
        format!("{}.{metric}", self.prefix)
    }

    /// The names of the metrics that have points.
    pub(super) fn metrics(&self) -> Vec<String> {
        let has_points = |metric: &usize| self.series.keys().any(|(known, _)| known == metric);
        (0..METRICS).filter(has_points).map(|metric| self.name(metric)).collect()
    }

    /// The number of points.
    pub(super) fn points(&self) -> usize {
        self.series.values().map(BTreeMap::len).sum()
    }

    /// Whether these are the series of a metric.
    pub(super) fn has(&self, metric: &str, found: &[KairosSeries]) -> bool {
        let mut count = 0;
        for (&(of, host), points) in &self.series {
            if self.name(of) != metric {
                continue;
            }
            count += 1;
            let host = format!("h{host}");
            let is_it = |series: &&KairosSeries| series.tags.get("host") == Some(&host);
            let Some(series) = found.iter().find(is_it) else { return false };
            let are_same = series
                .values
                .iter()
                .zip(points)
                .all(|((time, json), (at, (_, number)))| time == at && number.is(json));
            if series.values.len() != points.len() || !are_same {
                return false;
            }
        }
        found.len() == count
    }

    /// Queries for all points of a metric, and for some aggregates.
    pub(super) fn queries(&self, metric: &str) -> Vec<String> {
        let by_host = r#","group_by":[{"name":"tag","tags":["host"]}]"#;
        let minutes = |fold: &str| {
            let sampling = r#""sampling":{"value":1,"unit":"minutes"}"#;
            format!(r#","aggregators":[{{"name":"{fold}",{sampling}}}]"#)
        };
        let grouped = ["sum", "avg", "count", "max"].map(|fold| minutes(fold) + by_host);
        // They do not depend on the order of points that several series have at one time.
        let all = ["count", "max"].map(minutes);
        let members = grouped.into_iter().chain(all).chain([by_host.to_owned()]);
        let times = format!(r#""start_absolute":{START},"end_absolute":{END},"time_zone":"UTC""#);
        members
            .map(|members| format!(r#"{{{times},"metrics":[{{"name":"{metric}"{members}}}]}}"#))
            .collect()
    }
}

impl Number {
    /// Whether KairosDB writes it so.
    fn is(self, json: &Json) -> bool {
        match self {
            Self::Long(long) => json.as_i64() == Some(long),
            Self::Double(double) => json.as_f64() == Some(double),
        }
    }
}

fn one_in(random: &mut StdRng, times: u32) -> bool {
    random.random_range(0..times) == 0
}

/// A time, sometimes one that the series has a point at.
fn random_time(random: &mut StdRng, series: &Points) -> i64 {
    if !series.is_empty() && one_in(random, 5) {
        let place = random.random_range(0..series.len());
        if let Some(time) = series.keys().nth(place) {
            return *time;
        }
    }
    random.random_range(START..END)
}

fn random_long(random: &mut StdRng) -> Number {
    Number::Long(match one_in(random, 4) {
        true => LONGS[random.random_range(0..LONGS.len())],
        false => random.random_range(-1_000_000..1_000_000),
    })
}

fn random_double(random: &mut StdRng) -> Number {
    Number::Double(match one_in(random, 4) {
        true => DOUBLES[random.random_range(0..DOUBLES.len())],
        false => f64::from(random.random_range(-4_000_000..4_000_000_i32)) / 4.0,
    })
}

/// A form in which KairosDB reads the number: plain, as a text, or with its type.
fn random_text(random: &mut StdRng, number: Number) -> String {
    let form = random.random_range(0..3);
    let (text, kind, has_own_type) = match number {
        Number::Long(long) => (long.to_string(), "long", true),
        Number::Double(double) => {
            let text = format!("{double:?}");
            let has_own_type = text.contains('.');
            (text, "double", has_own_type)
        }
    };
    match form {
        0 if has_own_type => text,
        1 if has_own_type => format!("\"{text}\""),
        _ => format!("{text},\"{kind}\""),
    }
}
