//! Combines several stores into one, like the clusters of a KairosDB: one cluster takes the writes, others hold older
//! data, and one may keep the metadata.
//!
//! A read returns the data of every store whose time range overlaps the query's, each within its own range. If several
//! stores have a sample of one series at one timestamp, the write cluster wins, then the first read cluster in the
//! list. A delete goes to every cluster whose range overlaps. If a cluster that a request needs is away, the request
//! fails with an error that names the cluster: no answer is incomplete. Writes do not need the read clusters. Read
//! clusters receive deletes and no other writes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::try_join_all;

use super::exemplars::merged;
use super::forecast::Forecast;
use super::merge::{cut, merge};
use super::{
    DeleteCost, ExemplarList, Flush, FlushOutcome, Limited, SelectHints, Selection, SeriesQuery,
    SeriesReader, SharedStore, Stats, Store, StoreError, Unsynced,
};
use promkairos_chunk::Chunk;
use promkairos_model::{Labels, Matcher, Metadata, TimeRange, WriteBatch, WriteOutcome};

/// Several stores that act as one.
pub struct Clusters {
    /// Takes all points.
    pub write: SharedStore,
    /// Hold older data; the first one in the list has precedence.
    pub read: Vec<ReadCluster>,
    /// Keeps the metadata of families; `None` = the write cluster keeps it.
    pub metadata: Option<SharedStore>,
}

/// A store with data of a time range.
pub struct ReadCluster {
    /// Its name, for errors.
    pub name: String,
    /// Points outside this range are ignored.
    pub range: TimeRange,
    /// The store of the cluster.
    pub store: SharedStore,
}

/// A store that takes part in a request.
#[derive(Clone, Copy)]
struct Part<'a> {
    name: Option<&'a str>,
    store: &'a SharedStore,
    /// The part of the query's range that this store answers for.
    range: TimeRange,
}

/// Puts the name of a read cluster in front of the error; `None` = the write cluster.
fn of_cluster(name: Option<&str>, error: StoreError) -> StoreError {
    match name {
        Some(name) => named(&format!("read cluster {name:?}"), error),
        None => error,
    }
}

/// Puts the name of the cluster in front of the error, unless the error begins with it already.
fn named(whose: &str, error: StoreError) -> StoreError {
    let of = |what: String| match what.starts_with(whose) {
        true => what,
        false => format!("{whose}: {what}"),
    };
    match error {
        StoreError::Unavailable { what, retry_after } => {
            StoreError::Unavailable { what: of(what), retry_after }
        }
        StoreError::Denied(what) => StoreError::Denied(of(what)),
        StoreError::Invalid(what) => StoreError::Invalid(of(what)),
        StoreError::Backend { what, source } => StoreError::Backend { what: of(what), source },
        limit_or_file => limit_or_file,
    }
}

impl Clusters {
    /// The stores that may have points in the range; a later store has precedence.
    fn parts(&self, range: TimeRange) -> Vec<Part<'_>> {
        let read = self.read.iter().rev().filter_map(|cluster| {
            let range = cluster.range.intersection(range)?;
            Some(Part { name: Some(&cluster.name), store: &cluster.store, range })
        });
        let mut parts: Vec<Part<'_>> = read.collect();
        parts.push(Part { name: None, store: &self.write, range });
        parts
    }

    /// Sends a request to all parts at once.
    async fn ask<'a, T, F: Future<Output = Result<T, StoreError>>>(
        parts: Vec<Part<'a>>,
        ask: impl Fn(Part<'a>) -> F,
    ) -> Result<Vec<T>, StoreError> {
        let named = |part: Part<'a>| {
            let answer = ask(part);
            async move { answer.await.map_err(|error| of_cluster(part.name, error)) }
        };
        try_join_all(parts.into_iter().map(named)).await
    }
}

impl Part<'_> {
    /// The part of a query that this store answers.
    fn of(self, query: &SeriesQuery) -> SeriesQuery {
        SeriesQuery { range: self.range, ..query.clone() }
    }
}

#[async_trait]
impl Store for Clusters {
    async fn write(&self, mut batch: WriteBatch<'_>) -> Result<WriteOutcome, StoreError> {
        let Some(store) = &self.metadata else { return self.write.write(batch).await };
        let metadata = std::mem::take(&mut batch.metadata);
        let mut outcome = self.write.write(batch).await?;
        if !metadata.is_empty() {
            let batch = WriteBatch { metadata, ..WriteBatch::default() };
            let kept = store.write(batch).await;
            let kept = kept.map_err(|error| named("metadata cluster", error))?;
            outcome.metadata = kept.metadata;
            outcome.rejections.extend(kept.rejections);
        }
        Ok(outcome)
    }

    async fn series(&self, query: &SeriesQuery) -> Result<Limited<Labels>, StoreError> {
        let found = Self::ask(self.parts(query.range), |part| async move {
            part.store.series(&part.of(query)).await
        });
        Ok(Limited::union(found.await?, query.limit))
    }

    async fn label_names(&self, query: &SeriesQuery) -> Result<Limited<String>, StoreError> {
        let found = Self::ask(self.parts(query.range), |part| async move {
            part.store.label_names(&part.of(query)).await
        });
        Ok(Limited::union(found.await?, query.limit))
    }

    async fn label_values(
        &self,
        name: &str,
        query: &SeriesQuery,
    ) -> Result<Limited<String>, StoreError> {
        let found = Self::ask(self.parts(query.range), |part| async move {
            part.store.label_values(name, &part.of(query)).await
        });
        Ok(Limited::union(found.await?, query.limit))
    }

    async fn select(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        hints: &SelectHints,
    ) -> Result<Selection, StoreError> {
        let parts = self.parts(range);
        if let [only] = &parts[..] {
            return only.store.select(matchers, range, hints).await;
        }
        let hints = &SelectHints { sorted: true, ..hints.clone() };
        let selected = Self::ask(parts.clone(), |part| async move {
            part.store.select(matchers, part.range, hints).await
        });
        let selected = selected.await?;
        let mut merged: BTreeMap<Labels, Vec<SourceIndex>> = BTreeMap::new();
        let mut sources = Vec::with_capacity(parts.len());
        let (mut bytes, mut held) = (0, 0);
        for (source, (part, selection)) in parts.iter().zip(selected).enumerate() {
            for (at, labels) in selection.series.into_iter().enumerate() {
                let size = labels.as_bytes().len();
                let places = merged.entry(labels).or_insert_with(|| {
                    bytes += size;
                    Vec::new()
                });
                places.push(SourceIndex { source, at });
                hints.check(bytes, 0)?;
            }
            held += selection.reader.held_bytes();
            hints.check(bytes, held)?;
            let (name, range) = (part.name.map(str::to_owned), part.range);
            sources.push(Source { name, range, reader: selection.reader });
        }
        let (series, places) = merged.into_iter().unzip();
        Ok(Selection { series, reader: Box::new(MergedReader { range, sources, places }) })
    }

    async fn exemplars(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        max_bytes: usize,
    ) -> Result<ExemplarList, StoreError> {
        let found = Self::ask(self.parts(range), |part| async move {
            part.store.exemplars(matchers, part.range, max_bytes).await
        });
        merged(found.await?, max_bytes)
    }

    async fn metadata(
        &self,
        family: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Metadata)>, StoreError> {
        let Some(store) = &self.metadata else { return self.write.metadata(family, limit).await };
        store.metadata(family, limit).await.map_err(|error| named("metadata cluster", error))
    }

    async fn delete(&self, matchers: &[Matcher], range: TimeRange) -> Result<(), StoreError> {
        // The range of the cluster is not applied: it may be made wider later.
        let deleted =
            Self::ask(
                self.parts(range),
                |part| async move { part.store.delete(matchers, range).await },
            );
        deleted.await.map(drop)
    }

    async fn delete_cost(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
    ) -> Result<Option<DeleteCost>, StoreError> {
        // For the whole range, as in `delete`.
        let costs = Self::ask(self.parts(range), |part| async move {
            part.store.delete_cost(matchers, range).await
        });
        Ok(costs.await?.into_iter().flatten().reduce(|all, one| all + one))
    }

    async fn delete_accepted(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        accepted: i64,
    ) -> Result<(), StoreError> {
        let deleted = Self::ask(self.parts(range), |part| async move {
            part.store.delete_accepted(matchers, range, accepted).await
        });
        deleted.await.map(drop)
    }

    async fn ingest_flush(&self, mut flush: Flush<'_>) -> Result<FlushOutcome, StoreError> {
        // The metadata cluster is needed only if there is metadata.
        if let Some(store) = &self.metadata
            && !flush.metadata.is_empty()
        {
            let metadata = std::mem::take(&mut flush.metadata);
            let (through, runs) = (flush.through, Box::new(std::iter::empty()));
            let (exemplars, days, pace) = Default::default();
            let only = Flush { through, runs, exemplars, days, metadata, pace };
            store.ingest_flush(only).await.map_err(|error| named("metadata cluster", error))?;
        }
        self.write.ingest_flush(flush).await
    }

    async fn unsynced(&self) -> Option<Arc<dyn Unsynced>> {
        self.write.unsynced().await
    }

    async fn relieve(&self) -> Result<(), StoreError> {
        let others = self.read.iter().map(|cluster| &cluster.store).chain(&self.metadata);
        for store in others {
            store.relieve().await?;
        }
        self.write.relieve().await
    }

    fn lists_spans(&self) -> bool {
        let mut all = self.read.iter().map(|cluster| &cluster.store).chain([&self.write]);
        all.any(|store| store.lists_spans())
    }

    async fn ready(&self) -> Result<(), StoreError> {
        self.write.ready().await?;
        let Some(store) = &self.metadata else { return Ok(()) };
        store.ready().await.map_err(|error| named("metadata cluster", error))
    }

    fn failing(&self) -> Option<String> {
        [&self.write].into_iter().chain(&self.metadata).find_map(|store| store.failing())
    }

    async fn close(&self) -> Result<(), StoreError> {
        let others = self.read.iter().map(|cluster| &cluster.store).chain(&self.metadata);
        let mut closed = self.write.close().await;
        for store in others {
            closed = closed.and(store.close().await);
        }
        closed
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        self.write.stats().await
    }
}

/// The position of a series in a source.
#[derive(Clone, Copy)]
struct SourceIndex {
    source: usize,
    at: usize,
}

/// The selection of one cluster.
struct Source {
    name: Option<String>,
    range: TimeRange,
    reader: Box<dyn SeriesReader>,
}

/// Reads from all sources and merges the results.
struct MergedReader {
    range: TimeRange,
    /// A later source has precedence.
    sources: Vec<Source>,
    /// By series, in the order of the sources.
    places: Vec<Vec<SourceIndex>>,
}

impl MergedReader {
    /// The range in this source of the series in `run`. All selections are sorted alike, so the
    /// range has no gaps.
    fn run_of(&self, source: usize, run: &[Vec<SourceIndex>]) -> Range<usize> {
        let mut own = run.iter().flatten().filter(|place| place.source == source);
        let first = own.next().map(|place| place.at);
        let last = own.next_back().map(|place| place.at).or(first);
        first.zip(last).map_or(0..0, |(first, last)| first..last + 1)
    }
}

impl Source {
    /// The forecast for the part of `range` that this source answers for.
    async fn forecast(&self, range: TimeRange) -> Result<Forecast, StoreError> {
        match self.range.intersection(range) {
            Some(own) => self.reader.forecast(own).await,
            None => Ok(Forecast::default()),
        }
    }

    async fn read(&self, all: TimeRange, run: Range<usize>) -> Result<Vec<Vec<Chunk>>, StoreError> {
        if run.is_empty() {
            return Ok(Vec::new());
        }
        let read = self.reader.read(run).await;
        let mut read = read.map_err(|error| of_cluster(self.name.as_deref(), error))?;
        for chunks in &mut read {
            // A chunk may reach beyond the range of this cluster.
            if self.range.start > all.start {
                let before = TimeRange::new(i64::MIN, self.range.start - 1);
                *chunks = cut(std::mem::take(chunks), before).map_err(damaged)?;
            }
            if self.range.end < all.end {
                let after = TimeRange::new(self.range.end + 1, i64::MAX);
                *chunks = cut(std::mem::take(chunks), after).map_err(damaged)?;
            }
        }
        Ok(read)
    }
}

#[async_trait]
impl SeriesReader for MergedReader {
    async fn read(&self, series: Range<usize>) -> Result<Vec<Vec<Chunk>>, StoreError> {
        let run = &self.places[series];
        let runs: Vec<Range<usize>> =
            (0..self.sources.len()).map(|source| self.run_of(source, run)).collect();
        let reads = self.sources.iter().zip(&runs);
        let reads = reads.map(|(source, run)| source.read(self.range, run.clone()));
        let mut read = try_join_all(reads).await?;
        run.iter()
            .map(|places| {
                let chunks = places.iter().flat_map(|place| {
                    std::mem::take(&mut read[place.source][place.at - runs[place.source].start])
                });
                merge(chunks.collect()).map_err(damaged)
            })
            .collect()
    }

    async fn forecast(&self, range: TimeRange) -> Result<Forecast, StoreError> {
        let found = try_join_all(self.sources.iter().map(|source| source.forecast(range))).await?;
        // Points that several clusters have count once.
        let series = self.places.iter().map(|places| {
            let own = places.iter().filter_map(|place| found[place.source].series.get(place.at));
            own.copied().max_by(|a, b| a.points.total_cmp(&b.points)).unwrap_or_default()
        });
        let basis = found.iter().map(|one| one.basis).max().unwrap_or_default();
        Ok(Forecast { series: series.collect(), basis })
    }

    fn held_bytes(&self) -> usize {
        self.sources.iter().map(|source| source.reader.held_bytes()).sum()
    }
}

fn damaged(error: promkairos_chunk::ChunkError) -> StoreError {
    StoreError::backend("a chunk of a cluster", error)
}
