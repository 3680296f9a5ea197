//! Reads memory and the store below as one store.
//!
//! Memory is pinned first, then the store below is read. A flush evicts points only after the store
//! below returns them, so no point is missed. Points in both are merged; memory wins, since its
//! points were accepted later.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Range;

use async_trait::async_trait;

use super::blocking::blocking;
use super::inner::Inner;
use super::recent_samples::{chunk_error, pinned_bytes};
use promkairos_chunk::Chunk;
use promkairos_model::{Labels, Matcher, Metadata, TimeRange};
use promkairos_storage::forecast::{HistogramSizes, of_chunks};
use promkairos_storage::{
    ExemplarList, Forecast, Limited, SelectHints, Selection, SeriesQuery, SeriesReader, StoreError,
    check_bytes, check_label_bytes, merge, merged_exemplars,
};

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

impl Inner {
    pub(super) async fn select(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        hints: &SelectHints,
    ) -> Result<Selection, StoreError> {
        self.repeat_deletes().await?;
        let (memory, own, limits) = (self.memory.clone(), matchers.to_vec(), hints.clone());
        let recent = blocking(move || memory.select(&own, &range, &limits)).await??;
        // Always sorted, so that a run of the union is also a run below.
        let sorted = SelectHints { sorted: true, ..hints.clone() };
        let below = self.below.select(matchers, range, &sorted).await?;
        let (series, places) = union(below.series, recent);
        let bytes = series.iter().map(|labels| labels.as_bytes().len()).sum();
        check_label_bytes(bytes, hints.max_label_bytes)?;
        let reader = MergedReader { places, below: below.reader };
        check_bytes(bytes.saturating_add(reader.held_bytes()), hints.max_bytes)?;
        Ok(Selection { series, reader: Box::new(reader) })
    }

    pub(super) async fn series(&self, query: &SeriesQuery) -> Result<Limited<Labels>, StoreError> {
        self.repeat_deletes().await?;
        let (memory, own) = (self.memory.clone(), query.clone());
        let recent = blocking(move || memory.series(&own)).await??;
        Ok(Limited::union(vec![self.below.series(query).await?, recent], query.limit))
    }

    pub(super) async fn label_names(
        &self,
        query: &SeriesQuery,
    ) -> Result<Limited<String>, StoreError> {
        self.repeat_deletes().await?;
        let (memory, own) = (self.memory.clone(), query.clone());
        let ask = move || memory.ask_index(&own, |index, among| index.names(Some(among)));
        let recent = blocking(ask).await??;
        Ok(Limited::union(vec![self.below.label_names(query).await?, recent], query.limit))
    }

    pub(super) async fn label_values(
        &self,
        name: &str,
        query: &SeriesQuery,
    ) -> Result<Limited<String>, StoreError> {
        self.repeat_deletes().await?;
        let (memory, own, label) = (self.memory.clone(), query.clone(), name.to_owned());
        let ask = move || memory.ask_index(&own, |index, among| index.values(&label, Some(among)));
        let recent = blocking(ask).await??;
        let below = self.below.label_values(name, query).await?;
        Ok(Limited::union(vec![below, recent], query.limit))
    }

    pub(super) async fn exemplars(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        max_bytes: usize,
    ) -> Result<ExemplarList, StoreError> {
        self.repeat_deletes().await?;
        let (memory, own) = (self.memory.clone(), matchers.to_vec());
        let recent = blocking(move || memory.exemplars(&own, &range, max_bytes)).await??;
        let below = self.below.exemplars(matchers, range, max_bytes).await?;
        blocking(move || merged_exemplars([below, recent], max_bytes)).await?
    }

    pub(super) async fn metadata(
        &self,
        family: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Metadata)>, StoreError> {
        let recent = self.memory.metadata_of(family, limit);
        let mut all: BTreeMap<String, Metadata> =
            self.below.metadata(family, limit).await?.into_iter().collect();
        all.extend(recent);
        Ok(all.into_iter().take(limit).collect())
    }
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
