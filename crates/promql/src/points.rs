//! The points of one series at all steps of an evaluation.
//!
//! Floats are indexed by step. A step without a float holds the bits of the stale marker. No value has these bits:
//! selectors drop stale markers, and arithmetic quiets every NaN. A missing point therefore needs no second look-up,
//! and loops over floats stay simple. A step has a float or a histogram, never both.
//! Histograms are counted in the budget of the query before they are added; the count moves with the points.

use std::sync::Arc;

use super::budget::{Budget, Held};
use super::error::QueryError;
use super::histogram::FloatHistogram;
use promkairos_model::{STALE_NAN_BITS, is_stale};

/// What a step without a float holds.
pub(crate) const ABSENT: f64 = f64::from_bits(STALE_NAN_BITS);

/// A value at a step.
#[derive(Debug, Clone)]
pub enum Value {
    /// A float.
    Float(f64),
    /// A native histogram; shared, since histograms are large.
    Histogram(Arc<FloatHistogram>),
}

/// Equal bit for bit; hints of histograms do not count.
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Float(a), Self::Float(b)) => a.to_bits() == b.to_bits(),
            (Self::Histogram(a), Self::Histogram(b)) => a.same_data(b),
            _ => false,
        }
    }
}

impl Value {
    /// The float, if it is one.
    pub fn float(&self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(*value),
            Self::Histogram(_) => None,
        }
    }

    /// How many samples it counts for; a histogram counts for one sample per 16 bytes.
    pub fn samples(&self) -> usize {
        match self {
            Self::Float(_) => 1,
            Self::Histogram(histogram) => histogram.samples(),
        }
    }
}

/// A value at a step, borrowed.
#[derive(Debug, Clone, Copy)]
pub enum ValueRef<'a> {
    /// A float.
    Float(f64),
    /// A native histogram.
    Histogram(&'a Arc<FloatHistogram>),
}

impl ValueRef<'_> {
    /// The owned value; histograms are shared.
    pub fn to_owned(self) -> Value {
        match self {
            Self::Float(value) => Value::Float(value),
            Self::Histogram(histogram) => Value::Histogram(Arc::clone(histogram)),
        }
    }
}

/// The points of one series.
#[derive(Debug, Default)]
pub(crate) struct Points {
    floats: Vec<f64>,
    /// Empty, or one entry per step.
    histograms: Vec<Option<Arc<FloatHistogram>>>,
    /// The memory of `histograms`; `None` before the first one.
    counted: Option<Box<Counted>>,
}

/// The memory of the histograms of a series.
#[derive(Debug)]
struct Counted {
    held: Held,
    /// Bytes of the histograms. A histogram that several steps share is counted once if it was set at them one after
    /// the other.
    bytes: usize,
    /// The step that was set last.
    last: usize,
}

impl Counted {
    /// Stops counting a histogram that was removed.
    #[cold]
    fn forget(&mut self, histogram: &Arc<FloatHistogram>) {
        if Arc::strong_count(histogram) == 1 {
            self.bytes = self.bytes.saturating_sub(histogram.heap_bytes());
        }
    }
}

/// Points that are kept for later; all their memory is counted in the budget of the query.
#[derive(Debug)]
pub(crate) struct KeptPoints {
    points: Points,
    _held: Held,
}

/// Bytes of kept points beside their floats and histograms.
const KEPT_BYTES: usize = size_of::<KeptPoints>() + 64;

impl KeptPoints {
    /// Keeps `points`.
    pub(crate) fn new(points: Points, budget: &Arc<Budget>) -> Result<Self, QueryError> {
        let held = budget.hold(points.samples(), points.steps() * size_of::<f64>() + KEPT_BYTES)?;
        Ok(Self { points, _held: held })
    }

    /// Absent points at `steps` steps.
    pub(crate) fn absent(steps: usize, budget: &Arc<Budget>) -> Result<Self, QueryError> {
        let held =
            budget.hold(0, steps.saturating_mul(size_of::<f64>()).saturating_add(KEPT_BYTES))?;
        Ok(Self { points: Points::absent(steps), _held: held })
    }

    /// The points, whose floats are no longer counted: the caller consumes them.
    pub(crate) fn into_points(self) -> Points {
        self.points
    }
}

impl std::ops::Deref for KeptPoints {
    type Target = Points;

    fn deref(&self) -> &Points {
        &self.points
    }
}

impl std::ops::DerefMut for KeptPoints {
    fn deref_mut(&mut self) -> &mut Points {
        &mut self.points
    }
}

impl Points {
    /// Absent points at `steps` steps.
    pub(crate) fn absent(steps: usize) -> Self {
        let mut points = Self::default();
        points.clear(steps);
        points
    }

    /// Removes all points and sets the number of steps.
    pub(crate) fn clear(&mut self, steps: usize) {
        self.floats.clear();
        self.floats.resize(steps, ABSENT);
        self.drop_histograms();
    }

    /// How many steps there are.
    pub(crate) fn steps(&self) -> usize {
        self.floats.len()
    }

    /// Floats by step; [`ABSENT`] where there is none.
    pub(crate) fn floats(&self) -> &[f64] {
        &self.floats
    }

    /// The floats, mutable. Histograms stay as they are.
    pub(crate) fn floats_mut(&mut self) -> &mut [f64] {
        &mut self.floats
    }

    /// Whether there may be histograms.
    pub(crate) fn has_histograms(&self) -> bool {
        !self.histograms.is_empty()
    }

    /// The point at a step.
    pub(crate) fn get(&self, step: usize) -> Option<ValueRef<'_>> {
        let value = self.floats[step];
        if !is_stale(value) {
            return Some(ValueRef::Float(value));
        }
        self.histograms.get(step)?.as_ref().map(ValueRef::Histogram)
    }

    /// The float at a step.
    pub(crate) fn float(&self, step: usize) -> Option<f64> {
        Some(self.floats[step]).filter(|value| !is_stale(*value))
    }

    /// The histogram at a step.
    pub(crate) fn histogram(&self, step: usize) -> Option<&Arc<FloatHistogram>> {
        self.histograms.get(step)?.as_ref()
    }

    /// Sets the point at a step. Fails if the budget has no room for it.
    pub(crate) fn set(
        &mut self,
        step: usize,
        value: Value,
        budget: &Arc<Budget>,
    ) -> Result<(), QueryError> {
        match value {
            Value::Float(value) => {
                self.set_float(step, value);
                Ok(())
            }
            Value::Histogram(histogram) => self.set_histogram(step, histogram, budget),
        }
    }

    /// Sets a float at a step.
    pub(crate) fn set_float(&mut self, step: usize, value: f64) {
        self.floats[step] = value;
        self.take_histogram(step);
    }

    /// Sets a histogram at a step. Fails if the budget has no room for it.
    pub(crate) fn set_histogram(
        &mut self,
        step: usize,
        histogram: Arc<FloatHistogram>,
        budget: &Arc<Budget>,
    ) -> Result<(), QueryError> {
        let counted = self
            .counted
            .get_or_insert_with(|| Box::new(Counted { held: budget.nothing(), bytes: 0, last: 0 }));
        if self.histograms.is_empty() {
            counted.bytes += self.floats.len() * size_of::<Option<Arc<FloatHistogram>>>();
            counted.held.cover(counted.bytes)?;
            self.histograms.resize(self.floats.len(), None);
        }
        let last = self.histograms[counted.last].as_ref();
        if !last.is_some_and(|last| Arc::ptr_eq(last, &histogram)) {
            counted.bytes += histogram.heap_bytes();
            counted.held.cover(counted.bytes)?;
        }
        counted.last = step;
        self.floats[step] = ABSENT;
        if let Some(before) = self.histograms[step].replace(histogram) {
            counted.forget(&before);
        }
        Ok(())
    }

    /// Removes the point at a step.
    pub(crate) fn remove(&mut self, step: usize) {
        self.floats[step] = ABSENT;
        self.take_histogram(step);
    }

    /// Sets the point of the first step at all steps.
    pub(crate) fn repeat_first(&mut self, budget: &Arc<Budget>) -> Result<(), QueryError> {
        if let Some(value) = self.float(0) {
            self.floats.fill(value);
        } else if let Some(histogram) = self.histogram(0).cloned() {
            for step in 1..self.steps() {
                self.set_histogram(step, Arc::clone(&histogram), budget)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn take_histogram(&mut self, step: usize) {
        let taken = self.histograms.get_mut(step).and_then(Option::take);
        if let (Some(taken), Some(counted)) = (taken, &mut self.counted) {
            counted.forget(&taken);
        }
    }

    /// Removes all histograms.
    pub(crate) fn drop_histograms(&mut self) {
        self.histograms.clear();
        if let Some(counted) = &mut self.counted {
            counted.held.release();
            (counted.bytes, counted.last) = (0, 0);
        }
    }

    /// The steps that have a point, with their points.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, ValueRef<'_>)> {
        (0..self.steps()).filter_map(|step| Some((step, self.get(step)?)))
    }

    /// The steps that have a histogram, with their histograms.
    pub(crate) fn histograms(&self) -> impl Iterator<Item = (usize, &Arc<FloatHistogram>)> {
        let histograms = self.histograms.iter().enumerate();
        histograms.filter_map(|(step, histogram)| Some((step, histogram.as_ref()?)))
    }

    /// How many samples the points count for.
    pub(crate) fn samples(&self) -> usize {
        let floats = self.floats.iter().filter(|value| !is_stale(**value)).count();
        let histograms = self.histograms.iter().flatten();
        floats + histograms.map(|histogram| histogram.samples()).sum::<usize>()
    }

    /// Adds the points of `other`. Fails if both have a point at the same step.
    pub(crate) fn merge(&mut self, other: &Self, budget: &Arc<Budget>) -> Result<(), QueryError> {
        for (step, value) in other.iter() {
            if self.get(step).is_some() {
                return Err(QueryError::same_labels());
            }
            self.set(step, value.to_owned(), budget)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;
    use crate::histogram::cases::positive;

    fn wide() -> Arc<FloatHistogram> {
        Arc::new(positive(0, 0, &[1.0; 1000], 1.0))
    }

    #[test]
    fn histograms_are_counted_until_they_are_gone() {
        let budget = Settings { max_bytes: 100_000, ..Settings::default() }.budget();
        let mut points = Points::absent(20);
        let shared = wide();
        let bytes = shared.heap_bytes();
        assert!((12_000..13_000).contains(&bytes));
        for step in 0..20 {
            points.set_histogram(step, Arc::clone(&shared), &budget).expect("it is one");
        }
        drop(shared);
        assert!((bytes..2 * bytes).contains(&budget.bytes()));
        for step in 0..4 {
            points.set_histogram(step, wide(), &budget).expect("there is room");
        }
        assert!((5 * bytes..6 * bytes).contains(&budget.bytes()));
        // These replace others.
        for step in (0..4).cycle().take(100) {
            points.set_histogram(step, wide(), &budget).expect("there is room");
        }
        let other = Points::default();
        let taken = std::mem::replace(&mut points, other);
        assert!(budget.bytes() > 4 * bytes, "they are counted wherever they go");
        points.clear(20);
        points.merge(&taken, &budget).expect_err("no room for all of them twice");
        drop((points, taken));
        assert_eq!(budget.bytes(), 0);
        let mut points = Points::absent(20);
        let refused = (0..20).find(|step| points.set_histogram(*step, wide(), &budget).is_err());
        assert!(refused.is_some_and(|step| step < 9));
        points.drop_histograms();
        assert_eq!(budget.bytes(), 0);
    }
}
