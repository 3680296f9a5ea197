//! The possible content of a store: for each point, exemplar and metric family the values that may be found.
//!
//! An acknowledged change leaves one value; a refused change adds a value to the possible ones. After a
//! comparison only the found values are possible.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;

use promkairos::model::TimeRange;

/// A value of a point: the bits of a float, or the count of a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// A float.
    Float(u64),
    /// An integer.
    Long(i64),
    /// A histogram with this count; counts are not used twice.
    Histogram(u64),
}

/// A point by series and time.
pub type PointKey = (String, i64);
/// An exemplar by series, time and its label.
pub type ExemplarKey = (String, i64, String);

/// The content found in a store.
#[derive(Debug, Default)]
pub struct Found {
    /// Points.
    pub points: BTreeMap<PointKey, Content>,
    /// Values of exemplars, as bits.
    pub exemplars: BTreeMap<ExemplarKey, u64>,
    /// Helps of metric families.
    pub metadata: BTreeMap<String, String>,
}

/// What may be found; "absent" is one of the possible values.
#[derive(Debug, Default, Clone)]
pub struct Model {
    points: Possible<PointKey, Content>,
    exemplars: Possible<ExemplarKey, u64>,
    metadata: Possible<String, String>,
}

/// Possible values by key.
#[derive(Debug, Clone)]
struct Possible<K, V>(BTreeMap<K, Vec<Option<V>>>);

impl<K, V> Default for Possible<K, V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

/// Whether a change was acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The change was made.
    Acknowledged,
    /// The change may have been made.
    Refused,
}

impl<K: Ord + Clone + Debug, V: PartialEq + Clone + Debug> Possible<K, V> {
    fn change(&mut self, key: K, value: Option<V>, outcome: Outcome) {
        let possible = self.0.entry(key).or_insert_with(|| vec![None]);
        if outcome == Outcome::Acknowledged {
            possible.clear();
        }
        possible.push(value);
    }

    fn take_away(&mut self, hit: impl Fn(&K) -> bool, outcome: Outcome) {
        let keys: Vec<K> = self.0.keys().filter(|key| hit(key)).cloned().collect();
        keys.into_iter().for_each(|key| self.change(key, None, outcome));
    }

    /// Fails if something is found that may not be, or missing that must be found.
    fn compare(&self, found: &BTreeMap<K, V>) -> Result<(), String> {
        for (key, possible) in &self.0 {
            let value = found.get(key);
            if !possible.iter().any(|one| one.as_ref() == value) {
                return Err(format!("{key:?}: {value:?} is found, {possible:?} may be"));
            }
        }
        match found.iter().find(|(key, _)| !self.0.contains_key(key)) {
            Some((key, value)) => Err(format!("{key:?}: {value:?} is found, and nobody wrote it")),
            None => Ok(()),
        }
    }

    fn settle(&mut self, found: &BTreeMap<K, V>) {
        for (key, possible) in &mut self.0 {
            *possible = vec![found.get(key).cloned()];
        }
    }
}

impl Model {
    /// A point was written.
    pub fn point(&mut self, key: PointKey, value: Content, outcome: Outcome) {
        self.points.change(key, Some(value), outcome);
    }

    /// An exemplar was written.
    pub fn exemplar(&mut self, key: ExemplarKey, value: u64, outcome: Outcome) {
        self.exemplars.change(key, Some(value), outcome);
    }

    /// Metadata was written.
    pub fn metadata(&mut self, family: String, help: String, outcome: Outcome) {
        self.metadata.change(family, Some(help), outcome);
    }

    /// Points and exemplars of a series were deleted.
    pub fn delete(&mut self, series: &str, range: TimeRange, outcome: Outcome) {
        self.points.take_away(|(of, time)| of == series && range.contains(*time), outcome);
        self.exemplars.take_away(|(of, time, _)| of == series && range.contains(*time), outcome);
    }

    /// Compares everything with what was found; an error says what is wrong.
    pub fn compare(&self, found: &Found) -> Result<(), String> {
        self.points.compare(&found.points)?;
        self.exemplars.compare(&found.exemplars)?;
        self.metadata.compare(&found.metadata)
    }

    /// Makes what was found the only possible content.
    pub fn settle(&mut self, found: &Found) {
        self.points.settle(&found.points);
        self.exemplars.settle(&found.exemplars);
        self.metadata.settle(&found.metadata);
    }
}

/// Milliseconds of a day.
pub const DAY: i64 = 86_400_000;
/// Days of all points and exemplars.
pub const DAYS: Range<i64> = 19_000..19_004;
/// The time at which histories begin.
pub const NOW: i64 = DAYS.end * DAY;
