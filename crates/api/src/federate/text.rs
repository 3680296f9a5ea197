//! The page in the text format of Prometheus, version 0.0.4.
//!
//! Floats are untyped. Histograms are classic ones. A name that the format allows only in quotes is written inside
//! the braces, among the labels.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::classic::Classic;
use super::newest::{Kind, Newest};
use crate::escaping::{Escaping, is_plain};
use promkairos_model::Value;
use promkairos_promql::format::general;

/// The page of these families. Each family has a name and at least one sample.
pub(super) fn page<'a>(families: impl Iterator<Item = &'a [Newest]>, escaping: Escaping) -> String {
    let mut out = String::new();
    for family in families {
        let (metric, kind) = family[0].family();
        let name = escaping.escaped(metric);
        let kind = if kind == Kind::Float { "untyped" } else { "histogram" };
        let _ = writeln!(out, "# TYPE {} {kind}", shown(&name));
        for sample in family {
            let pairs = sample.pairs(escaping);
            let pairs = pairs.map(|(name, value)| format!("{}={}", shown(&name), quote(value)));
            let labels = pairs.collect::<Vec<String>>().join(",");
            let lines = Lines { name: &name, labels, time: sample.time };
            match &sample.value {
                Value::Float(value) => lines.push(&mut out, "", None, *value),
                Value::Histogram(histogram) => {
                    lines.push_classic(&mut out, &Classic::from(&**histogram));
                }
            }
        }
    }
    out
}

/// The parts that all lines of a sample share.
struct Lines<'a> {
    /// Unquoted.
    name: &'a str,
    /// Not empty.
    labels: String,
    time: i64,
}

impl Lines<'_> {
    /// Appends a line; for the bucket up to `bound`, if there is one.
    fn push(&self, out: &mut String, suffix: &str, bound: Option<f64>, value: f64) {
        let (name, labels) = (self.name, &self.labels);
        let _ = match is_plain(name) {
            true => write!(out, "{name}{suffix}{{{labels}"),
            false => write!(out, "{{{},{labels}", quote(&format!("{name}{suffix}"))),
        };
        if let Some(bound) = bound {
            let _ = write!(out, ",le=\"{}\"", number(bound));
        }
        let _ = writeln!(out, "}} {} {}", number(value), self.time);
    }

    fn push_classic(&self, out: &mut String, histogram: &Classic) {
        for (bound, count) in &histogram.buckets {
            self.push(out, "_bucket", Some(*bound), *count);
        }
        self.push(out, "_bucket", Some(f64::INFINITY), histogram.count);
        self.push(out, "_sum", None, histogram.sum);
        self.push(out, "_count", None, histogram.count);
    }
}

fn number(value: f64) -> String {
    if value == 0.0 { "0".to_owned() } else { general(value) }
}

/// A name, quoted if the format needs quotes.
fn shown(name: &str) -> Cow<'_, str> {
    if is_plain(name) { Cow::Borrowed(name) } else { Cow::Owned(quote(name)) }
}

fn quote(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{escaped}\"")
}
