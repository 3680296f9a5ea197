//! `{{schema:0 count:3 sum:4 buckets:[1 2]}}`: histograms as scripts write and as stores take them.

use promkairos::model::{CUSTOM_BUCKETS_SCHEMA, Counts, Histogram, ResetHint, Span};
use promkairos::promql::histogram::{Buckets, FloatHistogram};

use super::scanner::Scanner;

/// A histogram read from a script.
#[derive(Debug)]
pub(super) struct Notation {
    pub(super) histogram: FloatHistogram,
    /// Whether its hint was given.
    pub(super) hint_given: bool,
}

/// Reads a histogram; every key is optional.
pub(super) fn histogram(scanner: &mut Scanner<'_>) -> Result<Notation, String> {
    scanner.expect("{{")?;
    let mut h = FloatHistogram::empty(0, None);
    let mut hint_given = false;
    let (mut positive, mut negative) = (Side::default(), Side::default());
    loop {
        scanner.blanks();
        if scanner.take("}}") {
            break;
        }
        let key = word(scanner);
        scanner.expect(":")?;
        match key {
            "schema" => h.schema = number(scanner)? as i32,
            "sum" => h.sum = number(scanner)?,
            "count" => h.count = number(scanner)?,
            "z_bucket" => h.zero_count = number(scanner)?,
            "z_bucket_w" => h.zero_threshold = number(scanner)?,
            "custom_values" => h.custom_values = Some(list(scanner)?.into()),
            "buckets" => positive.counts = list(scanner)?,
            "offset" => positive.offset = number(scanner)? as i32,
            "n_buckets" => negative.counts = list(scanner)?,
            "n_offset" => negative.offset = number(scanner)? as i32,
            "counter_reset_hint" => {
                h.reset_hint = hint(scanner)?;
                hint_given = true;
            }
            _ => return Err(format!("unknown key {key:?} in a histogram")),
        }
    }
    if h.schema == CUSTOM_BUCKETS_SCHEMA && h.custom_values.is_none() {
        h.custom_values = Some([].into());
    }
    (h.positive, h.negative) = (positive.buckets(), negative.buckets());
    Ok(Notation { histogram: h, hint_given })
}

#[derive(Default)]
struct Side {
    offset: i32,
    counts: Vec<f64>,
}

impl Side {
    fn buckets(self) -> Buckets {
        (self.offset..).zip(self.counts).collect()
    }
}

fn word<'a>(scanner: &mut Scanner<'a>) -> &'a str {
    scanner.while_fits(|c| c.is_ascii_lowercase() || c == '_')
}

fn number(scanner: &mut Scanner<'_>) -> Result<f64, String> {
    scanner.number()?.ok_or_else(|| format!("a number expected at {:?}", scanner.rest()))
}

fn list(scanner: &mut Scanner<'_>) -> Result<Vec<f64>, String> {
    scanner.expect("[")?;
    let mut values = Vec::new();
    loop {
        scanner.blanks();
        if scanner.take("]") {
            return Ok(values);
        }
        values.push(number(scanner)?);
    }
}

fn hint(scanner: &mut Scanner<'_>) -> Result<ResetHint, String> {
    match word(scanner) {
        "unknown" => Ok(ResetHint::Unknown),
        "reset" => Ok(ResetHint::Reset),
        "not_reset" => Ok(ResetHint::NotReset),
        "gauge" => Ok(ResetHint::Gauge),
        other => Err(format!("unknown counter_reset_hint {other:?}")),
    }
}

/// The histogram as it is stored.
pub(super) fn stored(h: &FloatHistogram) -> Histogram {
    let (positive_spans, positive) = spans(&h.positive);
    let (negative_spans, negative) = spans(&h.negative);
    Histogram {
        schema: h.schema,
        zero_threshold: h.zero_threshold,
        sum: h.sum,
        reset_hint: h.reset_hint,
        positive_spans,
        negative_spans,
        custom_values: h.custom_bounds().to_vec(),
        counts: Counts::Float { count: h.count, zero_count: h.zero_count, positive, negative },
    }
}

fn spans(buckets: &Buckets) -> (Vec<Span>, Vec<f64>) {
    let mut spans: Vec<Span> = Vec::new();
    let mut next = 0;
    for (index, _) in buckets.iter() {
        match spans.last_mut() {
            Some(span) if index == next => span.length += 1,
            _ => spans.push(Span { offset: index - next, length: 1 }),
        }
        next = index + 1;
    }
    (spans, buckets.iter().map(|(_, count)| count).collect())
}

#[test]
fn every_key_is_read() {
    let text = "{{schema:1 sum:-0.3 count:7.1 z_bucket:7.1 z_bucket_w:0.05 buckets:[5.1 10 7] \
                offset:-3 n_buckets:[4.1 5] n_offset:-5 counter_reset_hint:gauge}} rest";
    let mut scanner = Scanner::new(text);
    let Notation { histogram: h, hint_given } = histogram(&mut scanner).expect("valid");
    assert_eq!((h.schema, h.sum, h.count, h.zero_count), (1, -0.3, 7.1, 7.1));
    assert_eq!((h.zero_threshold, h.reset_hint, hint_given), (0.05, ResetHint::Gauge, true));
    assert_eq!(h.positive.iter().collect::<Vec<_>>(), [(-3, 5.1), (-2, 10.0), (-1, 7.0)]);
    assert_eq!(h.negative.iter().collect::<Vec<_>>(), [(-5, 4.1), (-4, 5.0)]);
    assert_eq!(scanner.rest(), " rest");
    assert_eq!(FloatHistogram::from(&stored(&h)), h);
}

#[test]
fn custom_and_empty_ones() {
    let read = |text: &str| histogram(&mut Scanner::new(text)).map(|notation| notation.histogram);
    let h = read("{{schema:-53 custom_values:[1 2.5] buckets:[0 3] }}").expect("valid");
    assert_eq!(h.custom_bounds(), [1.0, 2.5]);
    assert_eq!(FloatHistogram::from(&stored(&h)), h);
    assert!(read("{{}}").is_ok_and(|h| h.positive.is_empty()));
    assert!(
        read("{{what:1}}").is_err() && read("{{count:}}").is_err() && read("{{count:1").is_err()
    );
}
