//! Rows as the report prints them, with label sets cut. No I/O.

use std::fmt;

use crate::cut::Cut;
use promkairos_kairos::RowKey;
use promkairos_model::{Printable, ShownSeries, ShownTime};

/// A row of data as text for people.
pub(super) struct Shown<'a>(pub(super) &'a RowKey);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RowKey { metric, row_time, data_type, tags } = self.0;
        let labels: Vec<(&str, &str)> = tags.iter().collect();
        let series = ShownSeries { metric: Some(metric), labels }.to_string();
        let data_type = data_type.to_string();
        write!(f, "{} {}, {}", Cut(&series), Printable(&data_type), ShownTime(row_time.millis()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use promkairos_kairos::{DataType, RowTime, Tags};

    #[test]
    fn what_is_long_is_cut_and_says_how_long_it_is() {
        let shown = |value: &str| {
            let tags = Tags::from_pairs([("host", value)]).expect("one");
            let (row_time, data_type) = (RowTime::from_stored(0), DataType::Long);
            Shown(&RowKey { metric: "m".into(), row_time, data_type, tags }).to_string()
        };
        assert_eq!(shown("a\n"), "m{host=\"a\\n\"} kairos_long, 1970-01-01T00:00:00Z");
        let long = shown(&"ä".repeat(20_000));
        let want = format!("m{{host=\"{}… (40010 bytes) kairos_long, 1970-01", "ä".repeat(146));
        assert!(long.starts_with(&want), "{long}");
    }
}
