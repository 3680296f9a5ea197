//! A selection of memory and of the store below.
//!
//! Points in both are merged; memory wins, since its points were accepted later. Nothing is selected here.

use std::cmp::Ordering;
use std::ops::Range;

use async_trait::async_trait;

use super::recent_samples::{chunk_error, pinned_bytes};
use promkairos_chunk::Chunk;
use promkairos_model::{Labels, TimeRange};
use promkairos_storage::forecast::{HistogramSizes, of_chunks};
use promkairos_storage::{Forecast, SelectHints, Selection, SeriesReader, StoreError, merge};

/// Where the points of one selected series are.
struct SeriesSources {
    below: Option<usize>,
    /// Chunks in memory, in order of acceptance.
    memory: Vec<Chunk>,
}

struct MergedReader {
    places: Vec<SeriesSources>,
    below: Box<dyn SeriesReader>,
}

/// Merges a selection of the store below with the series in memory; both are sorted.
pub(super) fn merged(
    below: Selection,
    recent: Vec<(Labels, Vec<Chunk>)>,
    limits: &SelectHints,
) -> Result<Selection, StoreError> {
    let (series, places) = union(below.series, recent);
    let bytes = series.iter().map(|labels| labels.as_bytes().len()).sum();
    let reader = MergedReader { places, below: below.reader };
    limits.check(bytes, reader.held_bytes())?;
    Ok(Selection { series, reader: Box::new(reader) })
}

#[async_trait]
impl SeriesReader for MergedReader {
    async fn read(&self, series: Range<usize>) -> Result<Vec<Vec<Chunk>>, StoreError> {
        let places = &self.places[series];
        let below = places.iter().filter_map(|place| place.below);
        let run = below.clone().min().zip(below.max());
        let mut older = match run {
            Some((first, last)) => self.below.read(first..last + 1).await?.into_iter(),
            None => Vec::new().into_iter(),
        };
        let mut merged = Vec::with_capacity(places.len());
        for place in places {
            let mut chunks = match place.below {
                Some(_) => older.next().unwrap_or_default(),
                None => Vec::new(),
            };
            chunks.extend(place.memory.iter().cloned());
            merged.push(merge::merge(chunks).map_err(chunk_error)?);
        }
        Ok(merged)
    }

    async fn forecast(&self, range: TimeRange) -> Result<Forecast, StoreError> {
        let mut forecast = self.below.forecast(range).await?;
        let mut sizes = HistogramSizes::default();
        let expected = self.places.iter().map(|place| {
            let below = place.below.and_then(|at| forecast.series.get(at).copied());
            let mut expected = below.unwrap_or_default();
            expected.add(of_chunks(&place.memory, range, &mut sizes));
            expected
        });
        forecast.series = expected.collect();
        Ok(forecast)
    }

    fn expected_bytes(&self, series: usize) -> Option<usize> {
        self.places[series].below.map_or(Some(0), |below| self.below.expected_bytes(below))
    }

    fn held_bytes(&self) -> usize {
        let pinned = self.places.iter().map(|place| pinned_bytes(&place.memory));
        pinned.sum::<usize>()
            + self.places.len() * size_of::<SeriesSources>()
            + self.below.held_bytes()
    }
}

/// The union of two sorted selections. Positions below rise with positions in the union.
fn union(
    below: Vec<Labels>,
    recent: Vec<(Labels, Vec<Chunk>)>,
) -> (Vec<Labels>, Vec<SeriesSources>) {
    let mut series = Vec::with_capacity(below.len().max(recent.len()));
    let mut places = Vec::with_capacity(series.capacity());
    let mut below = below.into_iter().enumerate().peekable();
    let mut recent = recent.into_iter().peekable();
    loop {
        let order = match (below.peek(), recent.peek()) {
            (Some((_, a)), Some((b, _))) => a.cmp(b),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return (series, places),
        };
        let older = if order.is_le() { below.next() } else { None };
        let newer = if order.is_ge() { recent.next() } else { None };
        let position = older.as_ref().map(|(position, _)| *position);
        let (own, memory) = newer.map_or((None, Vec::new()), |(l, chunks)| (Some(l), chunks));
        series.extend(own.or(older.map(|(_, labels)| labels)));
        places.push(SeriesSources { below: position, memory });
    }
}
