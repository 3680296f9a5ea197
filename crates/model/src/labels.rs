//! Label sets: sorted by name in byte order, names unique, values non-empty, UTF-8.
//!
//! A label set is stored in one *canonical encoding*, which equals the bytes of
//! `repeated Label labels = 1` of `prometheus.TimeSeries` (minimal varints, pairs sorted by name):
//!
//! ```text
//! ┌──────┬────────┬──────┬──────┬──────┬──────┬──────┬───────┐
//! │ 0x0A │ length │ 0x0A │ len  │ name │ 0x12 │ len  │ value │  for each label
//! └──────┴────────┴──────┴──────┴──────┴──────┴──────┴───────┘
//! ```
//!
//! So the labels of a well-behaved sender are compared, hashed and returned as received, and only
//! new series are decoded label by label. This module knows no other part of protobuf.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use super::shown::{ShownLabel, ShownText};
use super::varint;

/// The label that holds the metric's name.
pub const METRIC_NAME: &str = "__name__";
/// The label that holds the metric's type, if any.
pub const METRIC_TYPE: &str = "__type__";
/// The label that holds the metric's unit, if any.
pub const METRIC_UNIT: &str = "__unit__";

/// Why a label set is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    /// Not the bytes of a label set.
    #[error("labels are malformed")]
    Malformed,
    /// A name or value that is not UTF-8.
    #[error("label {0:?} is not valid UTF-8")]
    InvalidUtf8(String),
    /// A label with an empty name.
    #[error("label with an empty name")]
    EmptyName,
    /// The same name more than once.
    #[error("label {0:?} occurs twice")]
    Duplicate(String),
    /// No `__name__`, or an empty one.
    #[error("no metric name")]
    NoMetricName,
    /// More labels than allowed.
    #[error("{count} labels, the limit is {limit}")]
    TooMany {
        /// The number of labels.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// A name longer than allowed.
    #[error("label name of {bytes} bytes, the limit is {limit}")]
    NameTooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// A value longer than allowed.
    #[error("value of label {name:?} has {bytes} bytes, the limit is {limit}")]
    ValueTooLong {
        /// The label.
        name: String,
        /// Length of its value.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// More bytes in total than allowed.
    #[error("labels of {bytes} bytes in all, the limit is {limit}")]
    TooLong {
        /// Sum of the lengths of names and values.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
}

/// The limits of a label set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LabelLimits {
    /// Labels in a set, `__name__` included.
    pub labels: usize,
    /// Bytes of one name.
    pub name_bytes: usize,
    /// Bytes of one value.
    pub value_bytes: usize,
    /// Bytes of all names and values.
    pub total_bytes: usize,
}

/// A label set. Equality and hash use the canonical encoding; the order is Prometheus'
/// `labels.Compare`: pair by pair, name then value, bytewise, and a prefix before the longer set. A
/// clone shares the bytes.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Labels(Arc<[u8]>);

impl Labels {
    /// Sorts `pairs` into a label set. Labels with an empty value are dropped.
    pub fn from_pairs<N, V>(pairs: impl IntoIterator<Item = (N, V)>) -> Result<Self, LabelError>
    where
        N: AsRef<str>,
        V: AsRef<str>,
    {
        let pairs: Vec<(N, V)> = pairs.into_iter().collect();
        let mut refs: Vec<(&[u8], &[u8])> =
            pairs.iter().map(|(n, v)| (n.as_ref().as_bytes(), v.as_ref().as_bytes())).collect();
        canonical_pairs(&mut refs)?;
        Ok(Self(encode_pairs(&refs).into()))
    }

    /// A label set from the bytes of [`Labels::as_bytes`], which are checked.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, LabelError> {
        match RawLabels(bytes).canonical()? {
            Cow::Borrowed(same) => Ok(Self(same.into())),
            Cow::Owned(_) => Err(LabelError::Malformed),
        }
    }

    /// A borrowed view.
    pub fn as_ref(&self) -> LabelsRef<'_> {
        LabelsRef(&self.0)
    }

    /// The canonical encoding.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The value of `name`; a missing label is the empty string.
    pub fn get(&self, name: &str) -> &str {
        self.as_ref().get(name)
    }

    /// Names and values in order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.as_ref().iter()
    }

    /// The labels whose name passes. Names are passed as bytes, so that UTF-8 is not checked again.
    pub fn filtered(&self, wanted: impl FnMut(&[u8]) -> bool) -> Self {
        let mut kept = Vec::with_capacity(self.0.len());
        self.as_ref().filtered_in(wanted, &mut kept).to_owned()
    }
}

impl PartialOrd for Labels {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Labels {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_ref().cmp(&other.as_ref())
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A borrowed label set: bytes in the canonical encoding, by construction. Equality and hash agree with [`Labels`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LabelsRef<'a>(pub(super) &'a [u8]);

impl<'a> LabelsRef<'a> {
    /// The canonical encoding.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// An owned copy.
    pub fn to_owned(self) -> Labels {
        Labels(self.0.into())
    }

    /// Names and values in order of the names.
    pub fn iter(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.pairs().map(|(name, value)| (text(name), text(value)))
    }

    /// The pairs as bytes, which can be compared without a check of UTF-8.
    pub(super) fn pairs(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        Pairs(self.0).map(|pair| pair.expect("labels are well-formed by construction"))
    }

    /// The value of `name`; a missing label is the empty string.
    pub fn get(self, name: &str) -> &'a str {
        for (n, v) in self.pairs() {
            match n.cmp(name.as_bytes()) {
                Ordering::Less => {}
                Ordering::Equal => return text(v),
                Ordering::Greater => break,
            }
        }
        ""
    }

    /// The metric's name; empty when the set has none.
    pub fn metric_name(self) -> &'a str {
        self.get(METRIC_NAME)
    }
}

pub(super) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("labels are UTF-8 by construction")
}

impl fmt::Display for LabelsRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (i, (name, value)) in self.iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            write!(f, "{comma}{}={}", ShownLabel(name), ShownText(value))?;
        }
        f.write_str("}")
    }
}

impl fmt::Debug for LabelsRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Labels from a sender: the concatenated `labels` fields of one series, not checked yet. Equal
/// bytes are equal label sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RawLabels<'a>(pub &'a [u8]);

impl<'a> RawLabels<'a> {
    /// The bytes.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Names and values as received. Yields `None` once, and stops, if the bytes are not a sequence
    /// of label fields.
    pub fn pairs(self) -> impl Iterator<Item = Option<(&'a [u8], &'a [u8])>> {
        Pairs(self.0)
    }

    /// Checks the labels and sorts them if needed: borrowed if the bytes are canonical already.
    pub fn canonical(self) -> Result<Cow<'a, [u8]>, LabelError> {
        if is_canonical_and_short(self.0) {
            return Ok(Cow::Borrowed(self.0));
        }
        let mut pairs = Vec::with_capacity(16);
        for pair in Pairs(self.0) {
            pairs.push(pair.ok_or(LabelError::Malformed)?);
        }
        canonical_pairs(&mut pairs)?;
        let encoded = encode_pairs(&pairs);
        if encoded == self.0 { Ok(Cow::Borrowed(self.0)) } else { Ok(Cow::Owned(encoded)) }
    }

    /// The label set, checked and sorted.
    pub fn to_labels(self) -> Result<Labels, LabelError> {
        Ok(Labels(self.canonical()?.into_owned().into()))
    }

    /// The label set of a series: within `limits`, with a metric name.
    pub fn to_series(self, limits: &LabelLimits) -> Result<Labels, LabelError> {
        let labels = self.to_labels()?;
        let (mut count, mut bytes) = (0, 0);
        for (name, value) in labels.iter() {
            count += 1;
            bytes += name.len() + value.len();
            if name.len() > limits.name_bytes {
                return Err(LabelError::NameTooLong {
                    bytes: name.len(),
                    limit: limits.name_bytes,
                });
            }
            if value.len() > limits.value_bytes {
                let (name, bytes, limit) = (name.into(), value.len(), limits.value_bytes);
                return Err(LabelError::ValueTooLong { name, bytes, limit });
            }
        }
        if count > limits.labels {
            return Err(LabelError::TooMany { count, limit: limits.labels });
        }
        if bytes > limits.total_bytes {
            return Err(LabelError::TooLong { bytes, limit: limits.total_bytes });
        }
        if labels.get(METRIC_NAME).is_empty() {
            return Err(LabelError::NoMetricName);
        }
        Ok(labels)
    }

    /// The labels as text for an error message, shortened; never fails.
    pub fn describe(self) -> String {
        const LIMIT: usize = 256;
        let mut out = String::from("{");
        for (i, pair) in Pairs(self.0).enumerate() {
            let Some((name, value)) = pair else { break };
            if i > 0 {
                out.push_str(", ");
            }
            let (name, value) = (String::from_utf8_lossy(name), String::from_utf8_lossy(value));
            out.push_str(&format!("{}={}", ShownLabel(&name), ShownText(&value)));
            if out.len() > LIMIT {
                let cut = (0..=LIMIT).rev().find(|at| out.is_char_boundary(*at)).unwrap_or(0);
                out.truncate(cut);
                out.push('…');
                break;
            }
        }
        out.push('}');
        out
    }
}

impl RawLabels<'_> {
    /// Appends one label to `out` in the canonical encoding, in the order of the caller.
    pub fn push(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
        let short = 4 + name.len() + value.len();
        if short < 0x80 {
            // All lengths take one byte: a fast path for the most frequent labels.
            out.reserve(short + 2);
            out.extend_from_slice(&[0x0A, short as u8, 0x0A, name.len() as u8]);
            out.extend_from_slice(name);
            out.extend_from_slice(&[0x12, value.len() as u8]);
            out.extend_from_slice(value);
            return;
        }
        let inner = 2
            + varint::len(name.len() as u64)
            + name.len()
            + varint::len(value.len() as u64)
            + value.len();
        out.push(0x0A);
        varint::push(out, inner as u64);
        out.push(0x0A);
        varint::push(out, name.len() as u64);
        out.extend_from_slice(name);
        out.push(0x12);
        varint::push(out, value.len() as u64);
        out.extend_from_slice(value);
    }
}

/// A fast check whether the bytes are canonical with one-byte lengths, as nearly all are. May miss others.
fn is_canonical_and_short(bytes: &[u8]) -> bool {
    // Names and values lie between ASCII bytes, so they are UTF-8 if all bytes are.
    if std::str::from_utf8(bytes).is_err() {
        return false;
    }
    let (mut rest, mut before): (_, &[u8]) = (bytes, &[]);
    while let [0x0A, label_len, 0x0A, name_len, label @ ..] = rest {
        let Some((name, [0x12, value_len, label @ ..])) =
            label.split_at_checked(usize::from(*name_len))
        else {
            return false;
        };
        let Some((value, label)) = label.split_at_checked(usize::from(*value_len)) else {
            return false;
        };
        // So neither of the inner lengths has a second byte.
        let short = *label_len < 0x80 && usize::from(*label_len) == 4 + name.len() + value.len();
        // This also refuses the empty name, which is less than any other.
        if !short || value.is_empty() || name <= before {
            return false;
        }
        (rest, before) = (label, name);
    }
    rest.is_empty()
}

fn canonical_pairs(pairs: &mut Vec<(&[u8], &[u8])>) -> Result<(), LabelError> {
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    for (name, value) in pairs.iter() {
        if name.is_empty() {
            return Err(LabelError::EmptyName);
        }
        if std::str::from_utf8(name).is_err() || std::str::from_utf8(value).is_err() {
            return Err(LabelError::InvalidUtf8(lossy(name)));
        }
    }
    if !pairs.is_sorted_by(|a, b| a.0 < b.0) {
        pairs.sort();
    }
    if let Some(twice) = pairs.windows(2).find(|w| w[0].0 == w[1].0) {
        return Err(LabelError::Duplicate(lossy(twice[0].0)));
    }
    pairs.retain(|(_, value)| !value.is_empty());
    Ok(())
}

fn encode_pairs(pairs: &[(&[u8], &[u8])]) -> Vec<u8> {
    let bytes = pairs.iter().map(|(n, v)| n.len() + v.len() + 8).sum();
    let mut out = Vec::with_capacity(bytes);
    for (name, value) in pairs {
        RawLabels::push(&mut out, name, value);
    }
    out
}

/// Iterates over raw label bytes. Yields `None` once, and stops, if they are not a sequence of
/// label fields; unknown fields inside a label are skipped.
struct Pairs<'a>(&'a [u8]);

impl<'a> Iterator for Pairs<'a> {
    type Item = Option<(&'a [u8], &'a [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let pair = next_label(&mut self.0);
        if pair.is_none() {
            self.0 = &[];
        }
        Some(pair)
    }
}

pub(super) fn next_label<'a>(input: &mut &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    if read_varint(input)? != 0x0A {
        return None;
    }
    let mut label = read_bytes(input)?;
    let (mut name, mut value): (&[u8], &[u8]) = (&[], &[]);
    while !label.is_empty() {
        match read_varint(&mut label)? {
            0x0A => name = read_bytes(&mut label)?,
            0x12 => value = read_bytes(&mut label)?,
            tag => skip_field(&mut label, tag)?,
        }
    }
    Some((name, value))
}

fn skip_field(input: &mut &[u8], tag: u64) -> Option<()> {
    match tag & 7 {
        0 => read_varint(input).map(drop),
        1 => take(input, 8).map(drop),
        2 => read_bytes(input).map(drop),
        5 => take(input, 4).map(drop),
        _ => None,
    }
}

fn read_varint(input: &mut &[u8]) -> Option<u64> {
    let next = || {
        let (&byte, rest) = input.split_first().ok_or(())?;
        *input = rest;
        Ok(byte)
    };
    varint::read(next, ()).ok()
}

fn read_bytes<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(read_varint(input)?).ok()?;
    take(input, len)
}

fn take<'a>(input: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (head, rest) = input.split_at_checked(len)?;
    *input = rest;
    Some(head)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        Labels::from_pairs(pairs.iter().copied()).expect("valid labels")
    }

    #[test]
    fn canonical_bytes_are_the_wire_bytes_of_a_sorted_sender() {
        let set = labels(&[("job", "a"), ("__name__", "up")]);
        let wire = b"\x0a\x0e\x0a\x08__name__\x12\x02up\x0a\x08\x0a\x03job\x12\x01a";
        assert_eq!(set.as_bytes(), wire);
        assert!(matches!(RawLabels(wire).canonical(), Ok(Cow::Borrowed(_))));
        assert_eq!(set.to_string(), r#"{__name__="up", job="a"}"#);
        assert_eq!((set.get("job"), set.get("nope")), ("a", ""));
    }

    #[test]
    fn unsorted_and_empty_valued_labels_are_put_right() {
        let mut raw = Vec::new();
        RawLabels::push(&mut raw, b"job", b"a");
        RawLabels::push(&mut raw, b"gone", b"");
        RawLabels::push(&mut raw, b"__name__", b"up");
        let set = RawLabels(&raw).to_labels().expect("valid");
        assert_eq!(set, labels(&[("__name__", "up"), ("job", "a")]));
    }

    #[test]
    fn what_is_refused() {
        let check = |pairs: &[(&[u8], &[u8])], want: LabelError| {
            let mut raw = Vec::new();
            for (n, v) in pairs {
                RawLabels::push(&mut raw, n, v);
            }
            let limits = LabelLimits { labels: 3, name_bytes: 10, value_bytes: 5, total_bytes: 26 };
            assert_eq!(RawLabels(&raw).to_series(&limits), Err(want));
        };
        check(&[(b"a", b"1")], LabelError::NoMetricName);
        check(&[(b"__name__", b""), (b"a", b"1")], LabelError::NoMetricName);
        check(&[(b"a", b"1"), (b"b", b""), (b"a", b"2")], LabelError::Duplicate("a".into()));
        check(&[(b"", b"1")], LabelError::EmptyName);
        check(&[(b"a", b"\xff")], LabelError::InvalidUtf8("a".into()));
        check(
            &[(b"__name__", b"m"), (b"a", b"1"), (b"b", b"1"), (b"c", b"1")],
            LabelError::TooMany { count: 4, limit: 3 },
        );
        check(&[(b"abcdefghijk", b"1")], LabelError::NameTooLong { bytes: 11, limit: 10 });
        check(
            &[(b"a", b"123456")],
            LabelError::ValueTooLong { name: "a".into(), bytes: 6, limit: 5 },
        );
        check(
            &[(b"__name__", b"12345"), (b"abcdefgh", b"12345"), (b"i", b"1")],
            LabelError::TooLong { bytes: 28, limit: 26 },
        );
        assert_eq!(RawLabels(b"\x0a\x05ab").to_labels(), Err(LabelError::Malformed));
        assert_eq!(RawLabels(b"\x10\x01").to_labels(), Err(LabelError::Malformed));
    }

    #[test]
    fn labels_are_filtered_by_name() {
        let set = labels(&[("__name__", "up"), ("job", "a"), ("zone", &"b".repeat(300))]);
        let long = labels(&[("zone", &"b".repeat(300))]);
        assert_eq!(set.filtered(|name| name == b"zone"), long);
        assert_eq!(set.filtered(|_| true), set);
        assert_eq!(set.filtered(|_| false), Labels::default());
    }

    proptest! {
        /// For any bytes the fast check agrees with a check of each label.
        #[test]
        fn a_glance_is_no_other_look(
            labels in prop::collection::vec(("[a-c]{0,2}", prop_oneof!["[xé]{0,3}", "x{110,130}"]), 0..5),
            changed in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
        ) {
            let mut raw = Vec::new();
            for (name, value) in &labels {
                RawLabels::push(&mut raw, name.as_bytes(), value.as_bytes());
            }
            if let (Some((at, byte)), false) = (changed, raw.is_empty()) {
                let at = at.index(raw.len());
                raw[at] = byte;
            }
            if is_canonical_and_short(&raw) {
                let mut pairs = Vec::new();
                for pair in Pairs(&raw) {
                    pairs.push(pair.expect("well-formed"));
                }
                prop_assert_eq!(canonical_pairs(&mut pairs), Ok(()));
                prop_assert_eq!(encode_pairs(&pairs), raw);
            }
        }
    }

    #[test]
    fn bytes_of_another_order_are_not_canonical() {
        let mut raw = Vec::new();
        RawLabels::push(&mut raw, b"b", b"1");
        RawLabels::push(&mut raw, b"a", b"1");
        assert_eq!(Labels::from_bytes(&raw), Err(LabelError::Malformed));
        let set = RawLabels(&raw).to_labels().expect("valid");
        assert_eq!(Labels::from_bytes(set.as_bytes()), Ok(set));
    }
}
