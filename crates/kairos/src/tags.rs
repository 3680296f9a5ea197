//! Tags of a row: a map in the order of Java strings, and the tag string of row keys.
//!
//! ```text
//! ┌──────┬─────┬───────┬─────┐
//! │ name │ '=' │ value │ ':' │  for each tag, rising by UTF-16 code units of the name
//! └──────┴─────┴───────┴─────┘
//! in names  ':' and '=' are preceded by ':'
//! in values ':' and '=' are preceded by '='
//! ```
//!
//! Invariant: names strictly rise. A decoded tag string encodes to the same bytes: a tag string
//! that KairosDB would write differently is refused.

use std::cmp::Ordering;

use super::{DecodeError, EncodeError};
use promkairos_model::{LabelError, Labels, LabelsRef, METRIC_NAME};

/// Tags, without the metric's name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Tags(Vec<(Box<str>, Box<str>)>);

impl Tags {
    /// Sorts pairs of name and value, as in `frozen<map<text, text>>`.
    pub fn from_pairs<N, V>(pairs: impl IntoIterator<Item = (N, V)>) -> Result<Self, EncodeError>
    where
        N: Into<Box<str>>,
        V: Into<Box<str>>,
    {
        let mut pairs: Vec<(Box<str>, Box<str>)> =
            pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        if !pairs.is_sorted_by(|a, b| utf16_order(&a.0, &b.0) == Ordering::Less) {
            pairs.sort_by(|a, b| utf16_order(&a.0, &b.0));
        }
        if let Some(twice) = pairs.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(EncodeError::DuplicateTag(twice[0].0.to_string()));
        }
        Ok(Self(pairs))
    }

    /// The tags of a series: all labels except `__name__`.
    pub fn from_labels(labels: LabelsRef<'_>) -> Self {
        let pairs = labels.iter().filter(|(name, _)| *name != METRIC_NAME);
        Self::from_pairs(pairs).expect("names of labels are unique")
    }

    /// The labels of a series with these tags and this metric. Tags with an empty value are
    /// dropped, as in Prometheus. Fails if a tag has an empty name or is called `__name__`.
    pub fn to_labels(&self, metric: &str) -> Result<Labels, LabelError> {
        Labels::from_pairs(self.iter().chain([(METRIC_NAME, metric)]))
    }

    /// Names and values in the order of Java strings.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Appends the tag string.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        for (name, value) in self.iter() {
            escape(out, name, b':');
            out.push(b'=');
            escape(out, value, b'=');
            out.push(b':');
        }
    }

    /// Reads a complete tag string.
    pub(super) fn decode(text: &str) -> Result<Self, DecodeError> {
        let mut pairs: Vec<(Box<str>, Box<str>)> = Vec::new();
        let mut at = 0;
        while at < text.len() {
            let name = unescape(text, &mut at, b':', b'=')?;
            let value = unescape(text, &mut at, b'=', b':')?;
            if pairs.last().is_some_and(|last| utf16_order(&last.0, &name) != Ordering::Less) {
                return Err(DecodeError::TagOrder(name));
            }
            pairs.push((name.into(), value.into()));
        }
        Ok(Self(pairs))
    }
}

/// The order of Java's `String`: by UTF-16 code units. It differs from the order of bytes only
/// between a character above U+FFFF and one from U+E000 to U+FFFF.
pub(super) fn utf16_order(a: &str, b: &str) -> Ordering {
    a.encode_utf16().cmp(b.encode_utf16())
}

fn escape(out: &mut Vec<u8>, text: &str, mark: u8) {
    for byte in text.bytes() {
        if byte == b':' || byte == b'=' {
            out.push(mark);
        }
        out.push(byte);
    }
}

/// Reads up to the first unescaped `end`, and skips it. `end` is ':' or '='; `mark` is the other
/// one, which escapes both.
fn unescape(text: &str, at: &mut usize, mark: u8, end: u8) -> Result<String, DecodeError> {
    let bytes = text.as_bytes();
    let (mut out, mut start) = (String::new(), *at);
    while let Some(&byte) = bytes.get(*at) {
        if byte == end {
            out.push_str(&text[start..*at]);
            *at += 1;
            return Ok(out);
        }
        if byte == mark {
            out.push_str(&text[start..*at]);
            start = *at + 1;
            if !matches!(bytes.get(start), Some(b':' | b'=')) {
                return Err(DecodeError::TagString(*at));
            }
            *at += 1;
        }
        *at += 1;
    }
    Err(DecodeError::TagString(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tags(pairs: &[(&str, &str)]) -> Tags {
        Tags::from_pairs(pairs.iter().copied()).expect("unique names")
    }

    fn encoded(tags: &Tags) -> String {
        let mut out = Vec::new();
        tags.encode(&mut out);
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn tag_strings_both_ways() {
        let check = |pairs: &[(&str, &str)], want: &str| {
            assert_eq!(encoded(&tags(pairs)), want);
            assert_eq!(Tags::decode(want), Ok(tags(pairs)));
        };
        check(&[], "");
        check(&[("", "")], "=:");
        check(&[("host", "a")], "host=a:");
        check(&[("a:b", "c:d"), ("a=b", "c=d")], "a::b=c=:d:a:=b=c==d:");
        check(&[("::", "=="), ("=:", ":=")], "::::=====::=::==:==:");
        // U+10000 is D800 DC00 in UTF-16, below U+E000, but its bytes are above.
        check(&[("z", "1"), ("\u{10000}", "2"), ("\u{e000}", "3")], "z=1:\u{10000}=2:\u{e000}=3:");
    }

    #[test]
    fn malformed_tag_strings() {
        let check = |text: &str, want: DecodeError| assert_eq!(Tags::decode(text), Err(want));
        check("host", DecodeError::TagString(4));
        check("host=a", DecodeError::TagString(6));
        check("ho:st=a:", DecodeError::TagString(2));
        check("host=a=", DecodeError::TagString(6));
        check("host:", DecodeError::TagString(4));
        check("b=1:a=1:", DecodeError::TagOrder("a".into()));
        check("a=1:a=1:", DecodeError::TagOrder("a".into()));
    }

    #[test]
    fn labels_both_ways() {
        let labels = Labels::from_pairs([("__name__", "up"), ("job", "a"), ("Z", "b")])
            .expect("valid labels");
        let read = Tags::from_labels(labels.as_ref());
        assert_eq!(read, tags(&[("Z", "b"), ("job", "a")]));
        assert_eq!(read.to_labels("up"), Ok(labels));
        let bare = Labels::from_pairs([("__name__", "up")]).expect("valid labels");
        assert_eq!(tags(&[("empty", "")]).to_labels("up"), Ok(bare));
        let twice = LabelError::Duplicate("__name__".into());
        assert_eq!(tags(&[("__name__", "x")]).to_labels("up"), Err(twice));
        assert_eq!(tags(&[("", "x")]).to_labels("up"), Err(LabelError::EmptyName));
        let duplicate = Tags::from_pairs([("a", "1"), ("b", "2"), ("a", "2")]);
        assert_eq!(duplicate, Err(EncodeError::DuplicateTag("a".into())));
    }

    proptest! {
        #[test]
        fn round_trip(
            pairs in prop::collection::hash_map(
                "[:=a\0é\u{e000}😀𐀀]{0,4}",
                "[:=b\0€\u{ffff}😀]{0,4}",
                0..6,
            ),
        ) {
            let tags = Tags::from_pairs(pairs).expect("unique names");
            prop_assert_eq!(Tags::decode(&encoded(&tags)), Ok(tags));
        }

        #[test]
        fn what_decodes_encodes_to_the_same(text in "[:=ab]{0,12}") {
            if let Ok(tags) = Tags::decode(&text) {
                prop_assert_eq!(encoded(&tags), text);
            }
        }
    }
}
