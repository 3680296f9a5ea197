//! Operators: the executable form of a plan. An operator knows the label sets of its result before
//! any point is read, and then gives one series at a time.

pub(crate) mod buckets;
pub(crate) mod buffered;
pub(crate) mod build;
mod dates;
pub(crate) mod elementwise;
mod hints;
pub(crate) mod info;
pub(crate) mod kernels;
pub(crate) mod literal;
pub(crate) mod merged;
pub(crate) mod rate;
pub(crate) mod relabel;
pub(crate) mod runs;
pub(crate) mod selector;
pub(crate) mod sliding;
pub(crate) mod smoothed;
pub(crate) mod vector;
pub(crate) mod windows;

use std::sync::Arc;

use super::context::Context;
use super::counts::Destination;
use super::error::QueryError;
use super::labelset::without_metadata;
use super::points::Points;
use super::steps::Steps;
use promkairos_model::Labels;

/// A series of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Series {
    /// Its labels.
    pub labels: Labels,
    /// Whether the labels that describe the metric are dropped at the end; see
    /// [`NameRemoval::Delayed`](super::settings::NameRemoval::Delayed).
    pub drop_name: bool,
}

impl Series {
    /// A series that keeps its name.
    pub(crate) fn new(labels: Labels) -> Self {
        Self { labels, drop_name: false }
    }

    /// The same series for values that no longer mean the metric.
    pub(crate) fn nameless(&self, context: &Context) -> Self {
        let delayed = context.delays_names();
        let labels = if delayed { self.labels.clone() } else { without_metadata(&self.labels) };
        Self { labels, drop_name: true }
    }
}

/// The steps of an evaluation, and where its points are counted.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    pub steps: Steps,
    pub counted: Destination,
}

/// Gives the points of series, one series at a time.
///
/// [`next`](Operator::next) is called at most once for each of [`series`](Operator::series), in
/// their order. A series may have no points. After an error, nothing more is called.
pub(crate) trait Operator: Send {
    /// The series of the result. A label set may occur twice: then the points of the two series are at
    /// different steps, or the consumer reports the collision.
    fn series(&self) -> &[Series];

    /// The series before they lost the labels that describe the metric. `None` if they lost other
    /// labels or if two became equal. A consumer that ignores these labels can use these label sets, so
    /// that the smaller ones need not be made.
    fn named(&self) -> Option<&[Series]> {
        None
    }

    /// Puts the points of the next series into `points`.
    fn next(&mut self, points: &mut Points) -> Result<(), QueryError>;

    /// Allows the operator to fold pieces that `folder` wants. Returns `false` if it never folds.
    fn fold_pieces(&mut self, _folder: Arc<dyn PieceFolder>) -> bool {
        false
    }

    /// At the first series of a piece: whether the piece was folded. Then its series count as given.
    fn next_folded(&mut self) -> Result<bool, QueryError> {
        Ok(false)
    }

    /// The order of the series in the result of an instant query, known once all were read. `None`:
    /// any order.
    fn order(&self) -> Option<Vec<usize>> {
        None
    }
}

/// Series of a piece: the positions 0 to 15, 16 to 31, and so on; the last piece may have fewer.
pub(crate) const PIECE: usize = 16;

/// Folds pieces of series where their points are computed, on any thread and in any order.
pub(crate) trait PieceFolder: Send + Sync {
    /// Whether this piece may be folded.
    fn wants(&self, piece: usize) -> bool;

    /// Folds a piece with all its `series`. `false` if it cannot: then the points are needed.
    fn fold(&self, piece: usize, series: &[Points]) -> bool;
}

/// An operator of any kind.
pub(crate) type BoxOperator = Box<dyn Operator>;

/// Sets or changes the points of a series.
pub(crate) type Map = Box<dyn FnMut(&mut Points) -> Result<(), QueryError> + Send>;
