//! The memory store: plain maps.
//!
//! It is the oracle that other stores are compared with, so it implements each rule of the contract
//! of [`Store`] in the simplest way. It is not durable, not bounded and not offered to users.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use async_trait::async_trait;
use parking_lot::Mutex;

use super::exemplars::Gathered;
use super::forecast::{Basis, Forecast, HistogramSizes, of_chunks};
use super::{
    ExemplarList, Flush, FlushOutcome, Limited, SelectHints, Selection, SelectionSize, SeriesQuery,
    SeriesReader, Stats, Store, StoreError,
};
use promkairos_chunk::{Chunk, StampedPoint, encode_stamped};
use promkairos_model::limits::LABEL_LIMITS;
use promkairos_model::{
    Exemplar, Labels, Matcher, Metadata, RawLabels, Sample, SeriesEntry, TimeRange, WriteBatch,
    WriteOutcome, positions, samples_with_longs,
};

/// A store in memory.
#[derive(Default)]
pub struct MemoryStore {
    state: Mutex<Stored>,
}

#[derive(Default)]
struct Stored {
    series: BTreeMap<Labels, Series>,
    metadata: BTreeMap<String, Metadata>,
    flushed_through: u64,
}

#[derive(Default)]
struct Series {
    points: BTreeMap<i64, StampedPoint>,
    /// Keyed by time and labels, which identify an exemplar within its series.
    exemplars: BTreeMap<(i64, Labels), Exemplar>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// A store of these series, each with one point: value 1 at time 1.
    pub async fn of_series(all: impl IntoIterator<Item = Labels>) -> Result<Self, StoreError> {
        let store = Self::new();
        for labels in all {
            let series = vec![SeriesEntry {
                labels: RawLabels(labels.as_bytes()),
                index: 0,
                samples: 0..1,
                histograms: 0..0,
                exemplars: 0..0,
            }];
            let samples = vec![Sample { timestamp: 1, start_timestamp: 0, value: 1.0 }];
            let batch = WriteBatch { series, samples, ..WriteBatch::default() };
            store.write(batch).await?;
        }
        Ok(store)
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn write(&self, batch: WriteBatch<'_>) -> Result<WriteOutcome, StoreError> {
        Ok(self.state.lock().write(batch))
    }

    async fn series(&self, query: &SeriesQuery) -> Result<Limited<Labels>, StoreError> {
        let state = self.state.lock();
        let found = state.matching(&query.matchers, query.range).map(|(labels, _)| labels.clone());
        Ok(Limited::first(found, query.limit))
    }

    async fn label_names(&self, query: &SeriesQuery) -> Result<Limited<String>, StoreError> {
        let state = self.state.lock();
        let mut names = BTreeSet::new();
        for (labels, _) in state.matching(&query.matchers, query.range) {
            names.extend(labels.iter().map(|(name, _)| name.to_owned()));
        }
        Ok(Limited::first(names, query.limit))
    }

    async fn label_values(
        &self,
        name: &str,
        query: &SeriesQuery,
    ) -> Result<Limited<String>, StoreError> {
        let state = self.state.lock();
        let found = state.matching(&query.matchers, query.range);
        let values = found.map(|(labels, _)| labels.get(name)).filter(|value| !value.is_empty());
        let values: BTreeSet<String> = values.map(str::to_owned).collect();
        Ok(Limited::first(values, query.limit))
    }

    async fn select(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        hints: &SelectHints,
    ) -> Result<Selection, StoreError> {
        let state = self.state.lock();
        let (mut series, mut points) = (Vec::new(), Vec::new());
        let mut size = SelectionSize::within(hints);
        for (labels, found) in state.matching(matchers, range) {
            size.add(labels.as_bytes().len(), 0)?;
            series.push(labels.clone());
            points.push(found.points.values().cloned().collect());
        }
        Ok(Selection { series, reader: Box::new(Snapshot { points, range }) })
    }

    async fn exemplars(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        max_bytes: usize,
    ) -> Result<ExemplarList, StoreError> {
        let state = self.state.lock();
        let mut found = Gathered::new(max_bytes);
        for (labels, series) in &state.series {
            let inside = series.exemplars.values().filter(|e| range.contains(e.timestamp));
            if Matcher::all_match(matchers, labels) {
                found.add(labels, inside.cloned())?;
            }
        }
        Ok(found.finish())
    }

    async fn metadata(
        &self,
        family: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Metadata)>, StoreError> {
        let state = self.state.lock();
        let wanted = state.metadata.iter().filter(|(name, _)| family.is_none_or(|f| f == *name));
        let wanted = wanted.take(limit);
        Ok(wanted.map(|(name, metadata)| (name.clone(), metadata.clone())).collect())
    }

    async fn delete(&self, matchers: &[Matcher], range: TimeRange) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        for (labels, series) in &mut state.series {
            if Matcher::all_match(matchers, labels) {
                series.points.retain(|timestamp, _| !range.contains(*timestamp));
                series.exemplars.retain(|(timestamp, _), _| !range.contains(*timestamp));
            }
        }
        state.series.retain(|_, series| !series.is_empty());
        Ok(())
    }

    async fn ingest_flush(&self, flush: Flush<'_>) -> Result<FlushOutcome, StoreError> {
        self.state.lock().ingest_flush(flush)
    }

    async fn ready(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        let state = self.state.lock();
        let points = state.series.values().map(|series| series.points.len() as u64).sum();
        let keys = || state.series.values().flat_map(|series| series.points.keys().copied());
        let time_range = keys().min().zip(keys().max()).map(|(a, b)| TimeRange::new(a, b));
        Ok(Stats {
            series: state.series.values().filter(|series| !series.points.is_empty()).count() as u64,
            points: Some(points),
            chunks: 0,
            time_range,
            flushed_through: state.flushed_through,
            disk_bytes: None,
        })
    }
}

impl Stored {
    fn write(&mut self, batch: WriteBatch<'_>) -> WriteOutcome {
        let mut outcome = WriteOutcome { rejections: batch.rejections, ..Default::default() };
        let mut accepted = Vec::new();
        for entry in &batch.series {
            match entry.labels.to_series(&LABEL_LIMITS) {
                Ok(labels) => accepted.push((labels, entry)),
                Err(error) => {
                    let (index, points) = (entry.index, entry.points());
                    let describe = || entry.labels.describe();
                    outcome.rejections.push_series(index, points, error.into(), describe);
                }
            }
        }
        // Histograms first: within one batch a float wins.
        for (labels, entry) in &accepted {
            let histograms = &batch.histograms[positions(&entry.histograms)];
            outcome.histograms += histograms.len() as u64;
            for sample in histograms {
                let point = sample.clone().into();
                self.insert(labels, StampedPoint { point, long: None, stamp: 0 });
            }
        }
        for (labels, entry) in &accepted {
            outcome.samples += entry.samples.len() as u64;
            for (sample, long) in samples_with_longs(&batch.samples, &batch.longs, &entry.samples) {
                self.insert(labels, StampedPoint { point: (*sample).into(), long, stamp: 0 });
            }
        }
        for (labels, entry) in &accepted {
            for exemplar in &batch.exemplars[positions(&entry.exemplars)] {
                let Ok(exemplar) = exemplar.to_exemplar() else { continue };
                self.insert_exemplar(labels, exemplar);
                outcome.exemplars += 1;
            }
        }
        for entry in &batch.metadata {
            self.metadata.insert(entry.family.to_owned(), entry.to_metadata());
            outcome.metadata += 1;
        }
        outcome
    }

    fn ingest_flush(&mut self, flush: Flush<'_>) -> Result<FlushOutcome, StoreError> {
        let mut absorbed = FlushOutcome::default();
        for run in flush.runs {
            for chunk in &run.chunks {
                for entry in chunk.stamped_points() {
                    let entry = entry.map_err(|error| StoreError::Invalid(error.to_string()))?;
                    self.insert(&run.labels, StampedPoint { stamp: 0, ..entry });
                    absorbed.points += 1;
                }
            }
        }
        for (labels, exemplars) in flush.exemplars {
            for exemplar in exemplars {
                self.insert_exemplar(&labels, exemplar);
            }
        }
        self.metadata.extend(flush.metadata);
        self.flushed_through = self.flushed_through.max(flush.through);
        Ok(absorbed)
    }

    fn insert(&mut self, labels: &Labels, entry: StampedPoint) {
        let series = self.series.entry(labels.clone()).or_default();
        series.points.insert(entry.point.timestamp, entry);
    }

    fn insert_exemplar(&mut self, labels: &Labels, exemplar: Exemplar) {
        let key = (exemplar.timestamp, exemplar.labels.clone());
        self.series.entry(labels.clone()).or_default().exemplars.insert(key, exemplar);
    }

    fn matching<'a>(
        &'a self,
        matchers: &'a [Matcher],
        range: TimeRange,
    ) -> impl Iterator<Item = (&'a Labels, &'a Series)> {
        self.series.iter().filter(move |(labels, series)| {
            series.points_in(range).next().is_some() && Matcher::all_match(matchers, labels)
        })
    }
}

impl Series {
    fn is_empty(&self) -> bool {
        self.points.is_empty() && self.exemplars.is_empty()
    }

    fn points_in(&self, range: TimeRange) -> impl Iterator<Item = &StampedPoint> {
        // `BTreeMap::range` panics for an inverted range.
        let keys = range.start..=range.end.max(range.start);
        self.points.range(keys).filter(move |_| !range.is_empty()).map(|(_, point)| point)
    }
}

/// All points of the selected series at the time of the selection. Chunks contain the whole series,
/// whatever range is requested.
struct Snapshot {
    points: Vec<Vec<StampedPoint>>,
    range: TimeRange,
}

impl Snapshot {
    fn chunks(&self, points: &[StampedPoint]) -> Vec<Chunk> {
        let mut chunks = encode_stamped(points);
        chunks
            .retain(|chunk| chunk.max_time >= self.range.start && chunk.min_time <= self.range.end);
        chunks
    }
}

#[async_trait]
impl SeriesReader for Snapshot {
    async fn read(&self, series: Range<usize>) -> Result<Vec<Vec<Chunk>>, StoreError> {
        let points = self.points[series].iter();
        Ok(points.map(|points| self.chunks(points)).collect())
    }

    async fn forecast(&self, range: TimeRange) -> Result<Forecast, StoreError> {
        let mut sizes = HistogramSizes::default();
        let series =
            self.points.iter().map(|points| of_chunks(&self.chunks(points), range, &mut sizes));
        Ok(Forecast { series: series.collect(), basis: Basis::Stored })
    }
}
