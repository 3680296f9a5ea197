//! The largest entries, in bounded memory: lists of the first few, and counts of distinct values
//! from their smallest hashes (exact up to [`SKETCH`], within a few percent beyond). No I/O.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// The most entries of a list.
const MOST: usize = 20;
/// Hashes kept to count the distinct values of a tag.
const SKETCH: usize = 1_024;
/// The most tags of a window that are counted.
const MOST_TAGS: usize = 256;

/// The entries with the largest sizes. A repeated entry keeps its largest size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Largest<T>(Vec<Measured<T>>);

/// An entry and its size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured<T> {
    /// The size.
    pub size: u64,
    /// The entry.
    #[serde(flatten)]
    pub entry: T,
}

impl<T> Default for Largest<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// Identifies entries.
pub trait Entry {
    /// Whether both are the same entry.
    fn is_same(&self, other: &Self) -> bool;
}

impl<T: Entry> Largest<T> {
    pub(super) fn add(&mut self, size: u64, entry: T) {
        if let Some(at) = self.0.iter().position(|known| known.entry.is_same(&entry)) {
            if self.0[at].size >= size {
                return;
            }
            self.0.remove(at);
        }
        let at = self.0.partition_point(|known| known.size >= size);
        if at < MOST {
            self.0.insert(at, Measured { size, entry });
            self.0.truncate(MOST);
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        for Measured { size, entry } in other.0 {
            self.add(size, entry);
        }
    }

    /// The largest first.
    pub fn iter(&self) -> impl Iterator<Item = &Measured<T>> {
        self.0.iter()
    }
}

/// A metric in the window where it has the most series.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricCardinality {
    /// The name.
    pub metric: String,
    /// Start of the window, in milliseconds since 1970.
    pub row_time: i64,
    /// Distinct values of its tags there, the tag with most first.
    pub tags: Vec<(String, u64)>,
}

impl Entry for MetricCardinality {
    fn is_same(&self, other: &Self) -> bool {
        self.metric == other.metric
    }
}

/// Counts the series and the tag values of one window, whose rows come one after the other.
#[derive(Debug, Default)]
pub(super) struct WindowCount {
    /// Rows of the partition.
    pub(super) rows: u64,
    series: Sketch,
    tags: BTreeMap<String, Sketch>,
}

impl WindowCount {
    pub(super) fn add<'a>(&mut self, tags: impl Iterator<Item = (&'a str, &'a str)>) {
        self.rows += 1;
        let mut whole = Vec::new();
        for (name, value) in tags {
            for part in [name, value] {
                whole.extend_from_slice(&(part.len() as u64).to_le_bytes());
                whole.extend_from_slice(part.as_bytes());
            }
            if !self.tags.contains_key(name) {
                if self.tags.len() == MOST_TAGS {
                    continue;
                }
                self.tags.insert(name.to_owned(), Sketch::default());
            }
            if let Some(values) = self.tags.get_mut(name) {
                values.add(value.as_bytes());
            }
        }
        self.series.add(&whole);
    }

    /// The number of series, and the values of the tags.
    pub(super) fn finish(self, metric: &str, row_time: i64) -> (u64, MetricCardinality) {
        let mut tags: Vec<(String, u64)> =
            self.tags.into_iter().map(|(name, values)| (name, values.count())).collect();
        tags.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        tags.truncate(MOST);
        (self.series.count(), MetricCardinality { metric: metric.to_owned(), row_time, tags })
    }
}

/// The smallest hashes of the added values; their density tells the number of values.
#[derive(Debug, Default)]
struct Sketch(BTreeSet<u64>);

impl Sketch {
    fn add(&mut self, value: &[u8]) {
        let hash = xxhash_rust::xxh3::xxh3_64(value);
        if self.0.len() < SKETCH {
            self.0.insert(hash);
        } else if self.0.last().is_some_and(|last| hash < *last) && self.0.insert(hash) {
            self.0.pop_last();
        }
    }

    fn count(&self) -> u64 {
        match self.0.last() {
            Some(last) if self.0.len() == SKETCH => {
                let share = (*last as f64 + 1.0) / 2f64.powi(64);
                ((SKETCH - 1) as f64 / share).round() as u64
            }
            _ => self.0.len() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_are_counted_exactly_and_many_closely() {
        for many in [0u32, 1, 7, 1_000, 50_000] {
            let mut sketch = Sketch::default();
            for _ in 0..2 {
                (0..many).for_each(|n| sketch.add(&n.to_be_bytes()));
            }
            let error = (sketch.count() as f64 - f64::from(many)).abs();
            let allowed = if many < SKETCH as u32 { 0.0 } else { f64::from(many) * 0.1 };
            assert!(error <= allowed, "{many}: {}", sketch.count());
        }
    }

    #[test]
    fn the_largest_stay_and_none_is_listed_twice() {
        let entry = |n: u64| MetricCardinality {
            metric: format!("m{n}"),
            row_time: n.cast_signed(),
            tags: vec![],
        };
        let mut list = Largest::default();
        for size in [5, 9, 1] {
            for n in 0..100 {
                list.add(size * n, entry(n));
            }
        }
        let sizes: Vec<u64> = list.iter().map(|known| known.size).collect();
        let want: Vec<u64> = (80..100).rev().map(|n| 9 * n).collect();
        assert_eq!(sizes, want);
    }

    #[test]
    fn a_window_counts_series_once_for_all_their_types() {
        let mut window = WindowCount::default();
        for host in ["a", "b", "a"] {
            window.add([("host", host), ("dc", "x")].into_iter());
        }
        assert_eq!(window.rows, 3);
        let (series, counted) = window.finish("m", 0);
        assert_eq!(series, 2);
        assert_eq!(counted.tags, [("host".into(), 2), ("dc".into(), 1)]);
    }
}
