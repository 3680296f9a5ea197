//! The points of a selection, a run of series at a time.
//!
//! What is made of them is the caller's; remote read has its own way, which reads ahead.

use super::ApiError;
use crate::limits::READ_RUN_SERIES;
use crate::model::{Labels, Matcher, Point, TimeRange};
use crate::storage::{SelectHints, Store};

/// The points of one series in the range, in time order.
pub(super) type Points<'a> = &'a mut dyn Iterator<Item = Result<Point, ApiError>>;

/// Hands every series that matches to `visit`, in the order of their labels.
pub(super) async fn each_series(
    store: &dyn Store,
    matchers: &[Matcher],
    range: TimeRange,
    mut visit: impl FnMut(&Labels, Points<'_>) -> Result<(), ApiError>,
) -> Result<(), ApiError> {
    let selection = store.select(matchers, range, &SelectHints::default()).await?;
    let mut start = 0;
    for run in selection.series.chunks(READ_RUN_SERIES) {
        let chunks = selection.reader.read(start..start + run.len()).await?;
        start += run.len();
        for (labels, chunks) in run.iter().zip(chunks) {
            let damaged = |source| ApiError::Chunk { series: labels.clone(), source };
            let points = chunks.iter().flat_map(|chunk| chunk.points());
            let mut points = points.map(|point| point.map_err(damaged)).filter(|point| {
                point.as_ref().map_or(true, |point| range.contains(point.timestamp))
            });
            visit(labels, &mut points)?;
        }
    }
    Ok(())
}
