//! Makes label sets from others: drops, keeps and sets labels.
//!
//! Results are label sets of the model: sorted and without empty values. Only the labels that
//! describe the metric have a meaning here.

use std::collections::BTreeMap;

use hashbrown::HashSet;

use super::error::QueryError;
use promkairos_model::{Labels, LabelsRef, METRIC_NAME, METRIC_TYPE, METRIC_UNIT};

/// The labels that name the metric, its type and its unit, sorted. A function that changes the
/// meaning of the values drops all of them.
pub(crate) const METADATA_LABELS: [&str; 3] = [METRIC_NAME, METRIC_TYPE, METRIC_UNIT];

/// `labels` without the labels that describe the metric.
pub(crate) fn without_metadata(labels: &Labels) -> Labels {
    if METADATA_LABELS.iter().any(|name| !labels.get(name).is_empty()) {
        labels.filtered(|name| !is_metadata(name))
    } else {
        labels.clone()
    }
}

/// The labels with one of these names.
pub(crate) fn keep(labels: &Labels, names: &[String]) -> Labels {
    labels.filtered(|name| names.iter().any(|kept| kept.as_bytes() == name))
}

/// A choice of labels by name.
#[derive(Debug)]
pub(crate) enum LabelChoice<'a> {
    /// The labels with one of these names, which are sorted.
    Only(Vec<&'a str>),
    /// All labels but those with one of these names.
    Without(Vec<&'a str>),
}

impl<'a> LabelChoice<'a> {
    /// Chooses the labels with one of these names.
    pub(crate) fn only(names: impl Iterator<Item = &'a str>) -> Self {
        let mut names: Vec<&str> = names.collect();
        names.sort_unstable();
        Self::Only(names)
    }

    /// Chooses all labels but those with one of these names and those that describe the metric.
    pub(crate) fn without_and_metadata(names: impl Iterator<Item = &'a str>) -> Self {
        Self::Without(names.chain(METADATA_LABELS).collect())
    }

    /// The chosen labels of `labels`, in `buffer`; allocates nothing else.
    pub(crate) fn of<'b>(&self, labels: &Labels, buffer: &'b mut Vec<u8>) -> LabelsRef<'b> {
        let labels = labels.as_ref();
        match self {
            Self::Only(names) => labels.only_in(names, buffer),
            Self::Without(names) => labels
                .filtered_in(|name| names.iter().all(|other| other.as_bytes() != name), buffer),
        }
    }
}

/// Whether the label with this name describes the metric.
pub(crate) fn is_metadata(name: &[u8]) -> bool {
    METADATA_LABELS.iter().any(|known| known.as_bytes() == name)
}

/// Whether all label sets differ without the labels that describe the metric. Compares hashes:
/// may return `false` for sets that all differ, but never `true` for sets of which two are equal.
pub(crate) fn differ_without_metadata<'a>(sets: impl ExactSizeIterator<Item = &'a Labels>) -> bool {
    let mut known = HashSet::with_capacity(sets.len());
    sets.map(|labels| labels.as_ref().hash_without(&METADATA_LABELS)).all(|hash| known.insert(hash))
}

/// `labels` with one label set, or removed if `value` is empty. Fails on an empty name.
pub(crate) fn with(labels: &Labels, name: &str, value: &str) -> Result<Labels, QueryError> {
    let mut pairs: BTreeMap<&str, &str> = labels.iter().collect();
    pairs.insert(name, value);
    Labels::from_pairs(pairs).map_err(|error| QueryError::execution(error.to_string()))
}
