//! The value of a metadata row in `service_index`: the metadata of a metric family. Specified in
//! `docs/FORMAT.md`.
//!
//! ```text
//! "1" LF  type LF  unit LF  help        e.g. "1\ncounter\nseconds\nTime spent."
//! ```
//!
//! The type is the word of the Prometheus HTTP API. In the unit `\` is written `\\` and a line feed
//! `\n`; the help is verbatim to the end, including line feeds.

use super::DecodeError;
use promkairos_model::{Metadata, MetricType};

const VERSION: &str = "1";
const WHAT: &str = "metadata";
const TYPES: u64 = 8;

/// The text of `value`.
pub(super) fn encode(metadata: &Metadata) -> String {
    let unit = metadata.unit.replace('\\', "\\\\").replace('\n', "\\n");
    format!("{VERSION}\n{}\n{unit}\n{}", metadata.kind.as_str(), metadata.help)
}

/// Reads the text of `value`. An unknown type, as of a later Prometheus, is read as unknown.
pub(super) fn decode(text: &str) -> Result<Metadata, DecodeError> {
    let mut fields = text.splitn(4, '\n');
    let version = fields.next().unwrap_or_default();
    if version != VERSION {
        let version = version.parse().unwrap_or(0);
        return Err(DecodeError::Version { what: WHAT, version });
    }
    let mut field = || fields.next().ok_or(DecodeError::Truncated(WHAT));
    let (kind, unit, help) = (field()?, field()?, field()?);
    let kind = (0..TYPES).map(MetricType::from_number).find(|known| known.as_str() == kind);
    Ok(Metadata { kind: kind.unwrap_or_default(), help: help.into(), unit: unescape(unit) })
}

fn unescape(unit: &str) -> String {
    let mut out = String::with_capacity(unit.len());
    let mut chars = unit.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => match chars.next() {
                Some('n') => out.push('\n'),
                Some(other) => out.push(other),
                None => {}
            },
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_ways() {
        let check = |kind, help: &str, unit: &str, want: &str| {
            let metadata = Metadata { kind, help: help.into(), unit: unit.into() };
            assert_eq!(encode(&metadata), want);
            assert_eq!(decode(want), Ok(metadata));
        };
        check(MetricType::Counter, "Time spent.", "seconds", "1\ncounter\nseconds\nTime spent.");
        check(MetricType::Unknown, "", "", "1\nunknown\n\n");
        check(MetricType::GaugeHistogram, "a\nb\n", "\\\n", "1\ngaugehistogram\n\\\\\\n\na\nb\n");
    }

    #[test]
    fn what_is_refused_and_what_is_not_known() {
        assert_eq!(decode(""), Err(DecodeError::Version { what: WHAT, version: 0 }));
        assert_eq!(decode("2\nx"), Err(DecodeError::Version { what: WHAT, version: 2 }));
        assert_eq!(decode("1\ncounter\n"), Err(DecodeError::Truncated(WHAT)));
        assert_eq!(decode("1\nnovel\n\nhelp").map(|m| m.kind), Ok(MetricType::Unknown));
    }

    proptest! {
        #[test]
        fn round_trip(number in 0..TYPES, help in "[\\\\na\n]{0,8}", unit in "[\\\\na\n]{0,8}") {
            let metadata = Metadata { kind: MetricType::from_number(number), help, unit };
            prop_assert_eq!(decode(&encode(&metadata)), Ok(metadata));
        }
    }
}
