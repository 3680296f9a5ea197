//! Operators: what a plan becomes. Each knows the label sets of its result before any point is
//! read, and then gives one series at a time.

pub(crate) mod buckets;
pub(crate) mod buffered;
pub(crate) mod build;
mod dates;
pub(crate) mod elementwise;
pub(crate) mod growing;
mod hints;
pub(crate) mod info;
pub(crate) mod kernels;
pub(crate) mod literal;
pub(crate) mod merged;
pub(crate) mod once;
pub(crate) mod relabel;
pub(crate) mod runs;
pub(crate) mod selector;
pub(crate) mod sliding;
pub(crate) mod smoothed;
pub(crate) mod vector;
pub(crate) mod windows;

use std::sync::Arc;

use super::context::Context;
use super::error::QueryError;
use super::labelset::without_metadata;
use super::points::Points;
use promkairos_model::Labels;

/// A series of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Series {
    /// Its labels.
    pub labels: Labels,
    /// Whether the labels that describe the metric go at the end; see
    /// [`NameRemoval::Delayed`](super::settings::NameRemoval::Delayed).
    pub drop_name: bool,
}

impl Series {
    /// With the labels as they are.
    pub(crate) fn new(labels: Labels) -> Self {
        Self { labels, drop_name: false }
    }

    /// The same when its values no longer mean the metric.
    pub(crate) fn nameless(&self, context: &Context) -> Self {
        let delayed = context.delays_names();
        let labels = if delayed { self.labels.clone() } else { without_metadata(&self.labels) };
        Self { labels, drop_name: true }
    }
}

/// Gives the points of series, one series at a time.
///
/// [`next`](Operator::next) is called at most once for each of [`series`](Operator::series), in
/// their order. A series may turn out to have no point. After an error nothing more is asked.
pub(crate) trait Operator: Send {
    /// The series of the result. Label sets may occur twice: then the points of the two are at
    /// different steps, or their consumer finds the collision.
    fn series(&self) -> &[Series];

    /// The same before they lost the labels that describe the metric, if that is all they lost and no two
    /// became the same by it. Who looks at other labels alone spares that the sets without them are made.
    fn named(&self) -> Option<&[Series]> {
        None
    }

    /// Puts the points of the next series into `points`.
    fn next(&mut self, points: &mut Points) -> Result<(), QueryError>;

    /// From now on pieces that `folder` wants may be folded instead of given. `false`: none is.
    fn fold_pieces(&mut self, _folder: Arc<dyn PieceFolder>) -> bool {
        false
    }

    /// At the first series of a piece: whether it was folded. Then it counts as given.
    fn next_folded(&mut self) -> Result<bool, QueryError> {
        Ok(false)
    }

    /// The positions of the series in the order in which an instant query shows them, known once
    /// all were read. `None`: any order will do.
    fn order(&self) -> Option<Vec<usize>> {
        None
    }
}

/// Series of a piece: those at the positions 0 to 15, 16 to 31, and so on; the last piece may have fewer.
pub(crate) const PIECE: usize = 16;

/// Folds pieces of series where their points come into being, on any thread and in any order.
pub(crate) trait PieceFolder: Send + Sync {
    /// Whether this piece is folded at all.
    fn wants(&self, piece: usize) -> bool;

    /// Folds a piece; `series` are all of it. `false` where it cannot be, and the points are wanted.
    fn fold(&self, piece: usize, series: &[Points]) -> bool;
}

/// An operator of any kind.
pub(crate) type BoxOperator = Box<dyn Operator>;
