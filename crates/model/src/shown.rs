//! Formats names and series for people as PromQL selectors, which can be pasted back.
//!
//! Invariant: the output selects what it names, has one line, and has no characters that a terminal
//! interprets or that change the direction of writing (see [`Printable`]).

use std::fmt::{self, Display, Formatter, Write as _};

use super::printable::Printable;

/// A text in double quotes, as in PromQL.
#[derive(Debug, Clone, Copy)]
pub struct ShownText<'a>(pub &'a str);

/// The name of a metric: plain, or in braces and quotes if PromQL needs them.
#[derive(Debug, Clone, Copy)]
pub struct ShownMetric<'a>(pub &'a str);

/// The name of a label: plain, or in quotes if PromQL needs them.
#[derive(Debug, Clone, Copy)]
pub struct ShownLabel<'a>(pub &'a str);

/// A series: the name of its metric, if known separately, and its labels.
#[derive(Debug, Clone)]
pub struct ShownSeries<'a, L> {
    /// `None` = the name is among the labels.
    pub metric: Option<&'a str>,
    /// Names and values.
    pub labels: L,
}

impl Display for ShownText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        let mut rest = self.0;
        while let Some(at) = rest.find(['"', '\\']) {
            write!(f, "{}\\{}", Printable(&rest[..at]), &rest[at..=at])?;
            rest = &rest[at + 1..];
        }
        write!(f, "{}\"", Printable(rest))
    }
}

impl Display for ShownMetric<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match is_plain_metric(self.0) {
            true => f.write_str(self.0),
            false => write!(f, "{{{}}}", ShownText(self.0)),
        }
    }
}

impl Display for ShownLabel<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match is_plain(self.0, '_') {
            true => f.write_str(self.0),
            false => ShownText(self.0).fmt(f),
        }
    }
}

impl<'a, L: IntoIterator<Item = (&'a str, &'a str)> + Clone> Display for ShownSeries<'_, L> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        let plain = self.metric.filter(|metric| is_plain_metric(metric));
        f.write_str(plain.unwrap_or_default())?;
        f.write_char('{')?;
        if let (Some(metric), None) = (self.metric, plain) {
            ShownText(metric).fmt(f)?;
            comma = ", ";
        }
        for (name, value) in self.labels.clone() {
            write!(f, "{comma}{}={}", ShownLabel(name), ShownText(value))?;
            comma = ", ";
        }
        f.write_char('}')
    }
}

/// Whether PromQL accepts a name without quotes; `also` is one more character that is allowed anywhere.
fn is_plain(name: &str, also: char) -> bool {
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_' || c == also;
    name.starts_with(is_first) && name.chars().all(|c| is_first(c) || c.is_ascii_digit())
}

/// Whether a selector may begin with a name: not with a keyword, whatever its case.
fn is_plain_metric(name: &str) -> bool {
    const WORDS: &str = "and or unless atan2 sum avg count min max group stddev stdvar topk bottomk count_values \
                         quantile limitk limit_ratio offset by without on ignoring group_left group_right bool inf nan";
    is_plain(name, ':') && !WORDS.split(' ').any(|word| name.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::is_unprintable;

    #[test]
    fn what_is_shown_is_a_selector_on_one_line() {
        let series = |metric, labels: &[(&str, &str)]| {
            ShownSeries { metric, labels: labels.iter().copied() }.to_string()
        };
        assert_eq!(series(Some("up"), &[("job", "a"), ("b", "")]), "up{job=\"a\", b=\"\"}");
        assert_eq!(series(Some("a:b"), &[]), "a:b{}");
        assert_eq!(series(Some("a b"), &[("c d", "e\"\\")]), r#"{"a b", "c d"="e\"\\"}"#);
        assert_eq!(series(None, &[("__name__", "up")]), "{__name__=\"up\"}");
        let nasty = "\u{1b}]0;x\u{7}\r\n\u{202e}";
        let shown = series(Some(nasty), &[(nasty, nasty)]);
        assert!(!shown.contains(is_unprintable), "{shown:?}");
        let quoted = r#""\u001b]0;x\u0007\r\n\u202e""#;
        assert_eq!(shown, format!("{{{quoted}, {quoted}={quoted}}}"));
        let metric = |name| ShownMetric(name).to_string();
        assert_eq!(
            ["up", "1up", "Sum", ""].map(metric),
            ["up", "{\"1up\"}", "{\"Sum\"}", "{\"\"}"]
        );
        let label = |name| ShownLabel(name).to_string();
        assert_eq!(["a_1", "by", "a:b"].map(label), ["a_1", "by", "\"a:b\""]);
    }
}
