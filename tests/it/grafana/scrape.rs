//! A scrape of `/metrics`: series with all their labels, and the names of metrics.

use std::collections::BTreeSet;

use promkairos::api::proto::v1;
use promkairos::model::{METRIC_NAME, Matcher};
use promkairos::promql::parse_selector;

use crate::support::series::floats;

/// Labels that a scraping Prometheus adds.
const TARGET: [(&str, &str); 2] = [("instance", "127.0.0.1:9201"), ("job", "promkairos")];

/// The series of a scrape.
#[derive(Default)]
pub(super) struct Scrape {
    series: Vec<(Vec<(String, String)>, f64)>,
}

impl Scrape {
    /// Reads the text format.
    pub(super) fn new(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Self { series: lines.map(series).collect() }
    }

    /// The metrics that it has.
    pub(super) fn names(&self) -> BTreeSet<&str> {
        self.series.iter().map(|(labels, _)| value(labels, METRIC_NAME)).collect()
    }

    /// Whether a series matches.
    pub(super) fn has(&self, matchers: &[Matcher]) -> bool {
        self.series.iter().any(|(labels, _)| {
            matchers.iter().all(|matcher| matcher.matches(value(labels, matcher.name())))
        })
    }

    /// Whether the metric of these matchers has this label.
    pub(super) fn has_label(&self, matchers: &[Matcher], label: &str) -> bool {
        let name = matchers.iter().filter(|matcher| matcher.name() == METRIC_NAME);
        let name: Vec<Matcher> = name.cloned().collect();
        assert!(!name.is_empty(), "a selector without a metric");
        let of_metric = |labels: &[(String, String)]| {
            name.iter().all(|matcher| matcher.matches(value(labels, METRIC_NAME)))
        };
        self.series.iter().any(|(labels, _)| of_metric(labels) && !value(labels, label).is_empty())
    }

    /// The series as a Prometheus would send them.
    pub(super) fn sent_at(&self, time: i64) -> Vec<v1::TimeSeries> {
        let one = |(labels, value): &(Vec<(String, String)>, f64)| {
            let pairs: Vec<(&str, &str)> =
                labels.iter().map(|(name, value)| (&**name, &**value)).collect();
            floats(&pairs, &[(time, *value)])
        };
        self.series.iter().map(one).collect()
    }
}

/// `name{label="value"} 1`
fn series(line: &str) -> (Vec<(String, String)>, f64) {
    let (selector, number) = line.rsplit_once(' ').expect(line);
    let matchers = parse_selector(selector).unwrap_or_else(|error| panic!("{line}: {error}"));
    let given = matchers.iter().map(|matcher| (matcher.name(), matcher.value()));
    let labels = given.chain(TARGET).map(|(name, value)| (name.to_owned(), value.to_owned()));
    (labels.collect(), number.parse().expect(line))
}

fn value<'a>(labels: &'a [(String, String)], name: &str) -> &'a str {
    labels.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
}
