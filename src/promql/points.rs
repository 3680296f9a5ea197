//! The points of one series at all steps of an evaluation.
//!
//! Floats lie by step. A step without a float holds the bits of the stale marker: no value has
//! them, since selectors leave out stale markers and arithmetic quiets every NaN. So a
//! missing point costs no second look-up and loops over floats stay plain.
//! At a step there is a float or a histogram, never both.

use std::sync::Arc;

use super::histogram::FloatHistogram;
use crate::model::{STALE_NAN_BITS, is_stale};

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

    /// How many samples it counts for: a histogram as many floats as it has of 16 bytes.
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
    /// An owned one; histograms are shared.
    pub fn to_owned(self) -> Value {
        match self {
            Self::Float(value) => Value::Float(value),
            Self::Histogram(histogram) => Value::Histogram(Arc::clone(histogram)),
        }
    }
}

/// The points of one series.
#[derive(Debug, Clone, Default)]
pub(crate) struct Points {
    floats: Vec<f64>,
    /// Empty, or one entry a step.
    histograms: Vec<Option<Arc<FloatHistogram>>>,
}

impl Points {
    /// No point at any of so many steps.
    pub(crate) fn absent(steps: usize) -> Self {
        let mut points = Self::default();
        points.clear(steps);
        points
    }

    /// Forgets everything and makes room for so many steps.
    pub(crate) fn clear(&mut self, steps: usize) {
        self.floats.clear();
        self.floats.resize(steps, ABSENT);
        self.histograms.clear();
    }

    /// How many steps there are.
    pub(crate) fn steps(&self) -> usize {
        self.floats.len()
    }

    /// Floats by step; [`ABSENT`] where there is none.
    pub(crate) fn floats(&self) -> &[f64] {
        &self.floats
    }

    /// The same, to be changed in place. Histograms stay as they are.
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

    /// Puts a point at a step.
    pub(crate) fn set(&mut self, step: usize, value: Value) {
        match value {
            Value::Float(value) => self.set_float(step, value),
            Value::Histogram(histogram) => self.set_histogram(step, histogram),
        }
    }

    /// Puts a float at a step.
    pub(crate) fn set_float(&mut self, step: usize, value: f64) {
        self.floats[step] = value;
        if let Some(histogram) = self.histograms.get_mut(step) {
            *histogram = None;
        }
    }

    /// Puts a histogram at a step.
    pub(crate) fn set_histogram(&mut self, step: usize, histogram: Arc<FloatHistogram>) {
        if self.histograms.is_empty() {
            self.histograms.resize(self.floats.len(), None);
        }
        self.floats[step] = ABSENT;
        self.histograms[step] = Some(histogram);
    }

    /// Takes the point away from a step.
    pub(crate) fn remove(&mut self, step: usize) {
        self.floats[step] = ABSENT;
        if let Some(histogram) = self.histograms.get_mut(step) {
            *histogram = None;
        }
    }

    /// Leaves only floats.
    pub(crate) fn drop_histograms(&mut self) {
        self.histograms.clear();
    }

    /// Steps and points, where there are points.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, ValueRef<'_>)> {
        (0..self.steps()).filter_map(|step| Some((step, self.get(step)?)))
    }

    /// Steps and histograms, where there are histograms.
    pub(crate) fn histograms(&self) -> impl Iterator<Item = (usize, &Arc<FloatHistogram>)> {
        let histograms = self.histograms.iter().enumerate();
        histograms.filter_map(|(step, histogram)| Some((step, histogram.as_ref()?)))
    }

    /// Whether no step has a point.
    pub(crate) fn is_empty(&self) -> bool {
        self.floats.iter().all(|value| is_stale(*value))
            && self.histograms.iter().all(Option::is_none)
    }

    /// How many samples they count for.
    pub(crate) fn samples(&self) -> usize {
        let floats = self.floats.iter().filter(|value| !is_stale(**value)).count();
        let histograms = self.histograms.iter().flatten();
        floats + histograms.map(|histogram| histogram.samples()).sum::<usize>()
    }

    /// Moves the points of `other` in. Fails with the step at which both have one.
    pub(crate) fn merge(&mut self, other: &Self) -> Result<(), usize> {
        for (step, value) in other.iter() {
            if self.get(step).is_some() {
                return Err(step);
            }
            self.set(step, value.to_owned());
        }
        Ok(())
    }
}
