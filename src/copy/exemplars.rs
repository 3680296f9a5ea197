//! Reads the exemplars of a range from one side or both, one part of its time after the other.
//!
//! If the exemplars of a part do not fit into memory, its time is halved: a part never has more
//! than about [`MAX_BYTES`] of a side. The limit applies to a store and to the answer of a server,
//! which may also report itself that there are too many.

use super::endpoint::Endpoint;
use super::error::CopyError;
use super::job::Selector;
use crate::model::TimeRange;
use crate::storage::{ExemplarList, ExemplarPieces, StoreError};

/// Bytes of the exemplars of a part, and of the label sets of their series, of one side.
const MAX_BYTES: usize = 256 << 20;

/// The exemplars of the series that one selector selects.
pub(super) struct Pieces<'a> {
    sides: Vec<&'a Endpoint>,
    selector: &'a Selector,
    open: ExemplarPieces,
    /// Most bytes of one side.
    most: usize,
}

impl<'a> Pieces<'a> {
    /// The exemplars in the range.
    pub(super) fn new(sides: &[&'a Endpoint], selector: &'a Selector, range: TimeRange) -> Self {
        let open = ExemplarPieces::of(range);
        Self { sides: sides.to_vec(), selector, open, most: MAX_BYTES }
    }

    /// The next part: the exemplars of each side.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<ExemplarList>>, CopyError> {
        while let Some(piece) = self.open.next() {
            match self.read(piece).await {
                Err(CopyError::Store { source: StoreError::Limit(_), .. })
                    if self.open.divide(piece) => {}
                found => return found.map(Some),
            }
        }
        Ok(None)
    }

    async fn read(&self, range: TimeRange) -> Result<Vec<ExemplarList>, CopyError> {
        let mut found = Vec::with_capacity(self.sides.len());
        for side in &self.sides {
            found.push(side.exemplars(self.selector, range, self.most).await?);
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{Starts, StoreEndpoint};
    use super::*;
    use crate::model::{
        ExemplarEntry, Labels, Matcher, RawLabels, Sample, SeriesEntry, WriteBatch,
    };
    use crate::storage::Store;
    use crate::storage::memory::MemoryStore;

    /// A store with exemplars of these times, some at the same.
    async fn store(times: &[i64]) -> Endpoint {
        let store = MemoryStore::default();
        let labels = Labels::from_pairs([("__name__", "up")]).expect("valid");
        let own: Vec<Labels> = (0..times.len())
            .map(|n| Labels::from_pairs([("n", n.to_string())]).expect("valid"))
            .collect();
        let entry = SeriesEntry {
            labels: RawLabels(labels.as_bytes()),
            index: 0,
            samples: 0..1,
            histograms: 0..0,
            exemplars: 0..times.len() as u32,
        };
        let exemplars = own.iter().zip(times).map(|(labels, &timestamp)| ExemplarEntry {
            labels: RawLabels(labels.as_bytes()),
            value: 1.0,
            timestamp,
        });
        let exemplars = exemplars.collect();
        let samples = vec![Sample { timestamp: 0, start_timestamp: 0, value: 1.0 }];
        let batch = WriteBatch { series: vec![entry], samples, exemplars, ..WriteBatch::default() };
        store.write(batch).await.expect("written");
        Endpoint::Store(StoreEndpoint {
            name: "m".into(),
            store: Arc::new(store),
            starts: Starts::All,
        })
    }

    /// Times of the exemplars of each piece, by side.
    async fn pieces(sides: &[&Endpoint], range: TimeRange, most: usize) -> Vec<Vec<Vec<i64>>> {
        let matchers = vec![Matcher::equal("__name__", "up")];
        let selector = Selector { text: "up".into(), matchers };
        let mut pieces = Pieces { most, ..Pieces::new(sides, &selector, range) };
        let mut all = Vec::new();
        while let Some(found) = pieces.next().await.expect("a piece") {
            let times = |list: &ExemplarList| {
                let exemplars = list.iter().flat_map(|(_, exemplars)| exemplars);
                exemplars.map(|exemplar| exemplar.timestamp).collect()
            };
            all.push(found.iter().map(times).collect());
        }
        all
    }

    #[tokio::test]
    async fn time_is_halved_where_a_side_has_too_many() {
        let (few, many) = (store(&[2, 90]).await, store(&[1, 2, 2, 60, 61, 99]).await);
        let (whole, all) = (vec![2, 90], vec![1, 2, 2, 60, 61, 99]);
        let range = TimeRange::new(0, 99);
        assert_eq!(pieces(&[&few, &many], range, usize::MAX).await, [[whole, all]]);
        // Room for a series with three.
        let most = 256 + 3 * 128 + 100;
        let halves = [[vec![2], vec![1, 2, 2]], [vec![90], vec![60, 61, 99]]];
        assert_eq!(pieces(&[&few, &many], range, most).await, halves);
        let empty = TimeRange::new(5, 4);
        assert_eq!(pieces(&[&few], empty, 1).await, Vec::<Vec<Vec<i64>>>::new());
        // Room for one: where there are two at the same time it is not enough.
        let matchers = vec![Matcher::equal("__name__", "up")];
        let selector = Selector { text: "up".into(), matchers };
        let mut pieces = Pieces { most: 450, ..Pieces::new(&[&many], &selector, range) };
        let mut ends = Vec::new();
        let error = loop {
            match pieces.next().await {
                Ok(piece) => ends.push(piece),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, CopyError::Store { source: StoreError::Limit(_), .. }), "{error}");
        assert!(!ends.is_empty());
    }
}
