//! A row of an index, whichever index it came from: a series and the type of its cells.
//!
//! Within its row time it names one partition of `data_points`. Rows that are no series to
//! Prometheus (a tag without a name, one called `__name__`) are none here either.

use crate::kairos::{DataType, EncodeError, RowKey, RowTime, Tags};
use crate::model::{Labels, METRIC_NAME};

/// A row of an index.
#[derive(Debug, Clone)]
pub(super) struct IndexRow {
    pub(super) labels: Labels,
    pub(super) data_type: DataType,
    /// All tags, where the labels are fewer: a tag with an empty value is no label.
    tags: Option<Box<Tags>>,
}

impl IndexRow {
    /// The row of a series of ours.
    pub(super) fn of_series(labels: Labels, data_type: DataType) -> Self {
        Self { labels, data_type, tags: None }
    }

    /// The row of a metric with these tags.
    pub(super) fn of_tags(
        metric: &str,
        data_type: DataType,
        tags: &[(&str, &str)],
    ) -> Option<Self> {
        let pairs = tags.iter().copied();
        let labels = Labels::from_pairs(pairs.clone().chain([(METRIC_NAME, metric)])).ok()?;
        let tags = if tags.iter().any(|(_, value)| value.is_empty()) {
            Some(Box::new(Tags::from_pairs(pairs).ok()?))
        } else {
            None
        };
        Some(Self { labels, data_type, tags })
    }

    /// The partition of `data_points` in a row time.
    pub(super) fn key(&self, row_time: RowTime) -> Result<Vec<u8>, EncodeError> {
        let tags = match &self.tags {
            Some(tags) => (**tags).clone(),
            None => Tags::from_labels(self.labels.as_ref()),
        };
        let metric = self.labels.get(METRIC_NAME).into();
        RowKey { metric, row_time, data_type: self.data_type.clone(), tags }.encode()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_tags_are_no_labels_but_part_of_the_key() {
        let row_time = RowTime::from_stored(0);
        let of = |tags: &[(&str, &str)]| IndexRow::of_tags("m", DataType::Long, tags);
        let (bare, empty) = (of(&[]).expect("a series"), of(&[("a", "")]).expect("a series"));
        assert_eq!(bare.labels, empty.labels);
        let key = |row: &IndexRow| row.key(row_time).expect("a key");
        assert!(key(&empty).ends_with(b"kairos_longa=:") && key(&bare).ends_with(b"kairos_long"));
        let ours = IndexRow::of_series(bare.labels.clone(), DataType::Long);
        assert_eq!(key(&ours), key(&bare));
        assert!(of(&[("", "x")]).is_none() && of(&[("__name__", "x")]).is_none());
    }
}
