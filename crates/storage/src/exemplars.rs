//! Merges exemplars of several sources, within a number of bytes.
//!
//! An exemplar is identified by series, time and labels; if several are the same, the one added
//! last wins. Bytes are counted before an exemplar is kept in memory, so that a query for too many
//! is an error, not a process out of memory. This is the only place that merges exemplars.

use std::collections::BTreeMap;

use super::error::StoreError;
use promkairos_model::{Exemplar, Labels, ShownSize, TimeRange};

/// Series with their exemplars, sorted: series by labels, exemplars by time and then by labels.
pub type ExemplarList = Vec<(Labels, Vec<Exemplar>)>;

/// Approximate bytes of memory of an exemplar without its labels: the struct, its place in the map
/// and the overhead of the map.
const EXEMPLAR_BYTES: usize = 128;
/// Approximate bytes of memory of a series without its labels.
const SERIES_BYTES: usize = 256;

fn bytes_of_exemplar(labels: &Labels) -> usize {
    EXEMPLAR_BYTES + labels.as_bytes().len()
}

fn bytes_of_series(labels: &Labels) -> usize {
    SERIES_BYTES + labels.as_bytes().len()
}

/// Approximate bytes of memory of a list.
pub fn bytes_of(list: &ExemplarList) -> usize {
    let own = |(labels, exemplars): &(Labels, Vec<Exemplar>)| {
        let exemplars = exemplars.iter().map(|exemplar| bytes_of_exemplar(&exemplar.labels));
        bytes_of_series(labels) + exemplars.sum::<usize>()
    };
    list.iter().map(own).sum()
}

/// The number of bytes that may still be read.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    most: usize,
    left: usize,
}

impl Budget {
    /// A budget of `most` bytes.
    pub fn new(most: usize) -> Self {
        Self { most, left: most }
    }

    /// Counts an exemplar.
    pub fn exemplar(&mut self, labels: &Labels) -> Result<(), StoreError> {
        self.take(bytes_of_exemplar(labels))
    }

    /// Counts a series.
    pub fn series(&mut self, labels: &Labels) -> Result<(), StoreError> {
        self.take(bytes_of_series(labels))
    }

    fn take(&mut self, bytes: usize) -> Result<(), StoreError> {
        let left = self.left.checked_sub(bytes);
        self.left = left.ok_or_else(|| {
            StoreError::Limit(format!("exemplars of more than {}", ShownSize::of(self.most)))
        })?;
        Ok(())
    }
}

/// Exemplars that are being merged.
#[derive(Debug)]
pub struct Gathered {
    budget: Budget,
    /// Values by time and then by labels.
    series: BTreeMap<Labels, BTreeMap<(i64, Labels), f64>>,
}

impl Gathered {
    /// An empty collection of at most `most` bytes.
    pub fn new(most: usize) -> Self {
        Self { budget: Budget::new(most), series: BTreeMap::new() }
    }

    /// Adds exemplars of a series, in any order; they replace equal ones. A series without exemplars is not added.
    pub fn add(
        &mut self,
        labels: &Labels,
        exemplars: impl IntoIterator<Item = Exemplar>,
    ) -> Result<(), StoreError> {
        let mut exemplars = exemplars.into_iter().peekable();
        if exemplars.peek().is_none() {
            return Ok(());
        }
        if !self.series.contains_key(labels) {
            self.budget.series(labels)?;
            self.series.insert(labels.clone(), BTreeMap::new());
        }
        let Some(own) = self.series.get_mut(labels) else { return Ok(()) };
        for Exemplar { labels, value, timestamp } in exemplars {
            let key = (timestamp, labels);
            match own.get_mut(&key) {
                Some(old) => *old = value,
                None => {
                    self.budget.exemplar(&key.1)?;
                    own.insert(key, value);
                }
            }
        }
        Ok(())
    }

    /// Adds the exemplars of a list; they replace equal ones.
    pub fn add_all(&mut self, list: ExemplarList) -> Result<(), StoreError> {
        list.into_iter().try_for_each(|(labels, exemplars)| self.add(&labels, exemplars))
    }

    /// All of them, sorted by series, time and labels.
    pub fn finish(self) -> ExemplarList {
        let exemplar = |((timestamp, labels), value)| Exemplar { labels, value, timestamp };
        let series = self.series.into_iter();
        series.map(|(labels, own)| (labels, own.into_iter().map(exemplar).collect())).collect()
    }
}

/// A time range in pieces, each so short that its content fits in memory.
#[derive(Debug)]
pub struct Pieces {
    /// Pieces that are left, the earliest last.
    open: Vec<TimeRange>,
}

impl Pieces {
    /// A whole range, not divided yet.
    pub fn of(range: TimeRange) -> Self {
        Self { open: (!range.is_empty()).then_some(range).into_iter().collect() }
    }

    /// Divides a piece that has too much content; `false` = it cannot be divided further.
    pub fn divide(&mut self, piece: TimeRange) -> bool {
        let Some([first, second]) = piece.halves() else { return false };
        self.open.extend([second, first]);
        true
    }
}

/// The pieces that are left, in order of time.
impl Iterator for Pieces {
    type Item = TimeRange;

    fn next(&mut self) -> Option<TimeRange> {
        self.open.pop()
    }
}

/// Merges lists into one of at most `most` bytes; each list obeys this limit too. A later list wins.
pub fn merged(
    lists: impl IntoIterator<Item = ExemplarList>,
    most: usize,
) -> Result<ExemplarList, StoreError> {
    let mut lists: Vec<ExemplarList> = lists.into_iter().filter(|list| !list.is_empty()).collect();
    if lists.len() < 2 {
        return Ok(lists.pop().unwrap_or_default());
    }
    let mut all = Gathered::new(most);
    lists.into_iter().try_for_each(|list| all.add_all(list))?;
    Ok(all.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(value: &str) -> Labels {
        Labels::from_pairs([("n", value)]).expect("valid")
    }

    fn exemplar(timestamp: i64, id: &str, value: f64) -> Exemplar {
        Exemplar { labels: labels(id), value, timestamp }
    }

    #[test]
    fn the_last_of_one_time_and_labels_wins_and_all_are_sorted() {
        let older = vec![(labels("b"), vec![exemplar(1, "z", 2.0), exemplar(2, "y", 1.0)])];
        let newer = vec![
            (labels("a"), vec![exemplar(7, "x", 5.0)]),
            (labels("b"), vec![exemplar(2, "x", 3.0), exemplar(2, "y", 4.0)]),
        ];
        let want = vec![
            (labels("a"), vec![exemplar(7, "x", 5.0)]),
            (
                labels("b"),
                vec![exemplar(1, "z", 2.0), exemplar(2, "x", 3.0), exemplar(2, "y", 4.0)],
            ),
        ];
        assert_eq!(merged([older, Vec::new(), newer], usize::MAX).expect("no limit"), want);
        assert_eq!(merged([want.clone(), Vec::new()], usize::MAX).expect("no limit"), want);
        // In any order within a list, and without series that have no exemplars.
        let mut all = Gathered::new(usize::MAX);
        for (of, exemplars) in want.iter().rev() {
            all.add(of, exemplars.iter().rev().cloned()).expect("no limit");
            all.add(&labels("c"), Vec::new()).expect("no limit");
        }
        assert_eq!(all.finish(), want);
    }

    #[test]
    fn what_is_there_already_takes_no_more_and_what_does_not_fit_is_an_error() {
        let bytes = labels("a").as_bytes().len();
        let one = || vec![(labels("a"), vec![exemplar(1, "x", 1.0)])];
        let two = || vec![(labels("a"), vec![exemplar(2, "x", 1.0)])];
        let most = SERIES_BYTES + EXEMPLAR_BYTES + 2 * bytes;
        assert_eq!(merged([one(), one()], most).expect("it fits"), one());
        for (lists, most) in [([one(), two()], most), ([one(), one()], most - 1)] {
            let error = merged(lists, most).expect_err("too much");
            assert!(matches!(&error, StoreError::Limit(_)), "{error:?}");
            assert_eq!(error.to_string(), format!("exemplars of more than {most} bytes"));
        }
    }
}
