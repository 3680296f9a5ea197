//! Several stores as one, as the clusters of a KairosDB: one takes writes, others hold older data,
//! one may keep the metadata.
//!
//! What is read is all that the stores hold whose time range meets the query's, each within its own
//! range. At one timestamp of a series the write cluster wins, then the read cluster that is listed
//! first. A delete goes to every one of them whose range it meets. A cluster that is away is an error
//! that names it, for whatever it would have had a part in: no answer holds less than there is. Writes
//! do not need the read clusters. No cluster is written to but by deletes, save the first and the metadata's.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use futures::future::{BoxFuture, try_join_all};

use super::exemplars::merged;
use super::forecast::Forecast;
use super::merge::{cut, merge};
use super::{
    Absorbed, DeleteCost, ExemplarList, Flush, Limited, ListSize, Listed, SelectHints, Selection,
    SeriesQuery, SeriesReader, SharedStore, Stats, Store, StoreError, Unsynced, check_bytes,
    check_label_bytes,
};
use promkairos_chunk::Chunk;
use promkairos_model::{Labels, Matcher, Metadata, TimeRange, WriteBatch, WriteOutcome};

/// The stores.
pub struct Clusters {
    /// Takes all points.
    pub write: SharedStore,
    /// Hold older data; of several the first wins.
    pub read: Vec<ReadCluster>,
    /// Keeps the metadata of families; none = the one for writes.
    pub metadata: Option<SharedStore>,
}

/// A store with data of a range of time.
pub struct ReadCluster {
    /// Its name, for errors.
    pub name: String,
    /// Points outside are not looked at.
    pub range: TimeRange,
    /// Where it is.
    pub store: SharedStore,
}

/// A store that has a part in an answer.
struct Part<'a> {
    name: Option<&'a str>,
    store: &'a SharedStore,
    /// The part of the query's range that it answers for.
    range: TimeRange,
}

impl Part<'_> {
    fn named(&self, error: StoreError) -> StoreError {
        match self.name {
            Some(name) => named(&format!("read cluster {name:?}"), error),
            None => error,
        }
    }
}

/// The same error, which says whose it is; one that begins with that says it already.
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
    /// Those that may have points in the range; who wins comes later.
    fn parts(&self, range: TimeRange) -> Vec<Part<'_>> {
        let read = self.read.iter().rev().filter_map(|cluster| {
            let range = cluster.range.intersection(range)?;
            Some(Part { name: Some(&cluster.name), store: &cluster.store, range })
        });
        let mut parts: Vec<Part<'_>> = read.collect();
        parts.push(Part { name: None, store: &self.write, range });
        parts
    }

    /// Asks all parts at once.
    async fn ask<'a, T>(
        parts: &'a [Part<'a>],
        ask: impl Fn(&'a Part<'a>) -> BoxFuture<'a, Result<T, StoreError>>,
    ) -> Result<Vec<T>, StoreError> {
        let named = |part: &'a Part<'a>| {
            let answer = ask(part);
            async move { answer.await.map_err(|error| part.named(error)) }
        };
        try_join_all(parts.iter().map(named)).await
    }

    /// Sorted lists made one.
    async fn list<'a, T: Listed + Clone>(
        parts: &'a [Part<'a>],
        limit: ListSize,
        ask: impl Fn(&'a Part<'a>) -> BoxFuture<'a, Result<Limited<T>, StoreError>>,
    ) -> Result<Limited<T>, StoreError> {
        Ok(Limited::union(Self::ask(parts, ask).await?, limit))
    }
}

fn within(query: &SeriesQuery, range: TimeRange) -> SeriesQuery {
    SeriesQuery { range, ..query.clone() }
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
        let parts = self.parts(query.range);
        let ask = |part: &Part<'_>| {
            let (store, query) = (part.store.clone(), within(query, part.range));
            async move { store.series(&query).await }.boxed()
        };
        Self::list(&parts, query.limit, ask).await
    }

    async fn label_names(&self, query: &SeriesQuery) -> Result<Limited<String>, StoreError> {
        let parts = self.parts(query.range);
        let ask = |part: &Part<'_>| {
            let (store, query) = (part.store.clone(), within(query, part.range));
            async move { store.label_names(&query).await }.boxed()
        };
        Self::list(&parts, query.limit, ask).await
    }

    async fn label_values(
        &self,
        name: &str,
        query: &SeriesQuery,
    ) -> Result<Limited<String>, StoreError> {
        let parts = self.parts(query.range);
        let ask = |part: &Part<'_>| {
            let (store, query) = (part.store.clone(), within(query, part.range));
            let name = name.to_owned();
            async move { store.label_values(&name, &query).await }.boxed()
        };
        Self::list(&parts, query.limit, ask).await
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
        let hints = SelectHints { sorted: true, ..hints.clone() };
        let selected = Self::ask(&parts, |part| {
            let (store, range) = (part.store.clone(), part.range);
            let (matchers, hints) = (matchers.to_vec(), hints.clone());
            async move { store.select(&matchers, range, &hints).await }.boxed()
        });
        let selected = selected.await?;
        let mut merged: BTreeMap<Labels, Vec<Place>> = BTreeMap::new();
        let mut sources = Vec::with_capacity(parts.len());
        let (mut bytes, mut held) = (0, 0);
        for (source, (part, selection)) in parts.iter().zip(selected).enumerate() {
            for (at, labels) in selection.series.into_iter().enumerate() {
                let size = labels.as_bytes().len();
                let places = merged.entry(labels).or_insert_with(|| {
                    bytes += size;
                    Vec::new()
                });
                places.push(Place { source, at });
                check_label_bytes(bytes, hints.max_label_bytes)?;
            }
            held += selection.reader.held_bytes();
            check_bytes(bytes.saturating_add(held), hints.max_bytes)?;
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
        let parts = self.parts(range);
        let found = Self::ask(&parts, |part| {
            let (store, range, matchers) = (part.store.clone(), part.range, matchers.to_vec());
            async move { store.exemplars(&matchers, range, max_bytes).await }.boxed()
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
        let parts = self.parts(range);
        // Where a cluster's range is met, also what lies outside of it: it may be set wider one day.
        let deleted = Self::ask(&parts, |part| {
            let (store, matchers) = (part.store.clone(), matchers.to_vec());
            async move { store.delete(&matchers, range).await }.boxed()
        });
        deleted.await.map(drop)
    }

    async fn delete_cost(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
    ) -> Result<Option<DeleteCost>, StoreError> {
        let parts = self.parts(range);
        // Of the whole range, as a delete takes it.
        let costs = Self::ask(&parts, |part| {
            let (store, matchers) = (part.store.clone(), matchers.to_vec());
            async move { store.delete_cost(&matchers, range).await }.boxed()
        });
        Ok(costs.await?.into_iter().flatten().reduce(|all, one| all + one))
    }

    async fn delete_accepted(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        accepted: i64,
    ) -> Result<(), StoreError> {
        let parts = self.parts(range);
        let deleted = Self::ask(&parts, |part| {
            let (store, matchers) = (part.store.clone(), matchers.to_vec());
            async move { store.delete_accepted(&matchers, range, accepted).await }.boxed()
        });
        deleted.await.map(drop)
    }

    async fn absorb(&self, mut flush: Flush<'_>) -> Result<Absorbed, StoreError> {
        // Without metadata nobody needs to be there who keeps it.
        if let Some(store) = &self.metadata
            && !flush.metadata.is_empty()
        {
            let metadata = std::mem::take(&mut flush.metadata);
            let (through, runs) = (flush.through, Box::new(std::iter::empty()));
            let (exemplars, days, pace) = Default::default();
            let only = Flush { through, runs, exemplars, days, metadata, pace };
            store.absorb(only).await.map_err(|error| named("metadata cluster", error))?;
        }
        self.write.absorb(flush).await
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

/// Where a series stands.
#[derive(Clone, Copy)]
struct Place {
    source: usize,
    at: usize,
}

/// A selection of one cluster.
struct Source {
    name: Option<String>,
    range: TimeRange,
    reader: Box<dyn SeriesReader>,
}

/// Reads from all and merges.
struct MergedReader {
    range: TimeRange,
    /// Who wins comes later.
    sources: Vec<Source>,
    /// By series, in the order of the sources.
    places: Vec<Vec<Place>>,
}

impl MergedReader {
    /// The series of a source among those in `run`. All selections are sorted alike, so they stand
    /// together.
    fn run_of(&self, source: usize, run: &[Vec<Place>]) -> Range<usize> {
        let mut own = run.iter().flatten().filter(|place| place.source == source);
        let first = own.next().map(|place| place.at);
        let last = own.next_back().map(|place| place.at).or(first);
        first.zip(last).map_or(0..0, |(first, last)| first..last + 1)
    }
}

impl Source {
    /// What is expected in what it answers for.
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
        let mut read = self.reader.read(run).await.map_err(|error| match &self.name {
            Some(name) => named(&format!("read cluster {name:?}"), error),
            None => error,
        })?;
        for chunks in &mut read {
            // A chunk may reach beyond what this cluster answers for.
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
        // What several have is there once.
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
    StoreError::Backend { what: "a chunk of a cluster".into(), source: Box::new(error) }
}
