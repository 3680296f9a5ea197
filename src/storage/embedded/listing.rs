//! Series, label names, label values and exemplars over all parts.
//!
//! Coarse in time: a part is asked as a whole, a series by its first and last point in a part.
//! What deletes have cut may still be listed until it is gone from the files; exemplars are exact.
//! Each part answers in order, so the first `limit` results of each part suffice.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use roaring::RoaringBitmap;

use crate::model::{Exemplar, Labels, Matcher, TimeRange};
use crate::storage::codec;
use crate::storage::index::evaluate;
use crate::storage::{Limited, SeriesQuery, StoreError};

use super::cutting;
use super::lookup::Walk;
use super::part::PartReader;
use super::state::State;

pub(super) fn series(state: &State, query: &SeriesQuery) -> Result<Limited<Labels>, StoreError> {
    let mut found = Sorted::new(query, |labels: &Labels| labels.as_bytes().len());
    for (_, part) in state.parts_in(query.range) {
        let reader = part.reader()?;
        let ids = evaluate(&reader, &query.matchers)?;
        let mut here = 0;
        reader.for_series(&ids, &mut |row| {
            if !row.range.overlaps(&query.range) {
                return Ok(ControlFlow::Continue(()));
            }
            here += 1;
            found.insert(codec::labels(row.labels).map_err(|d| part.damage(0, d))?);
            Ok(found.enough(here))
        })?;
    }
    Ok(found.into_limited())
}

pub(super) fn label_names(
    state: &State,
    query: &SeriesQuery,
) -> Result<Limited<String>, StoreError> {
    let mut found = Sorted::new(query, String::len);
    for (_, part) in state.parts_in(query.range) {
        let reader = part.reader()?;
        match matching(&reader, &query.matchers)? {
            None => {
                let names = reader.directory.names.iter();
                names.for_each(|entry| found.insert(entry.name.to_string()));
            }
            Some(ids) => {
                let mut known: BTreeSet<String> = BTreeSet::new();
                reader.for_series(&ids, &mut |row| {
                    let labels = codec::labels(row.labels).map_err(|d| part.damage(0, d))?;
                    for (name, _) in labels.iter() {
                        if !known.contains(name) {
                            known.insert(name.to_owned());
                        }
                    }
                    Ok(ControlFlow::Continue(()))
                })?;
                known.into_iter().for_each(|name| found.insert(name));
            }
        }
    }
    Ok(found.into_limited())
}

pub(super) fn label_values(
    state: &State,
    name: &str,
    query: &SeriesQuery,
) -> Result<Limited<String>, StoreError> {
    let mut found = Sorted::new(query, String::len);
    for (_, part) in state.parts_in(query.range) {
        let reader = part.reader()?;
        let ids = matching(&reader, &query.matchers)?;
        let values = reader.directory.name(name).map_or(0, |entry| entry.values);
        match ids {
            // Few series: their labels are read rather than all values.
            Some(ids) if ids.len() < values => insert_values(&reader, &ids, name, &mut found)?,
            ids => {
                let mut here = 0;
                let mut insert = |value: &str| -> Walk {
                    here += 1;
                    found.insert(value.to_owned());
                    Ok(found.enough(here))
                };
                reader.for_values(name, ids.as_ref(), &mut insert)?;
            }
        }
    }
    Ok(found.into_limited())
}

pub(super) fn exemplars(
    state: &State,
    matchers: &[Matcher],
    range: TimeRange,
) -> Result<Vec<(Labels, Vec<Exemplar>)>, StoreError> {
    // By time and then by labels; a later part wins.
    type OfSeries = BTreeMap<(i64, Labels), Exemplar>;
    let mut all: BTreeMap<Labels, OfSeries> = BTreeMap::new();
    for (_, part) in state.parts_in(range).filter(|(_, part)| part.entry.exemplars > 0) {
        part.reader()?.for_exemplars(&mut |series, exemplars| {
            if !Matcher::all_match(matchers, &series) {
                return;
            }
            let cuts = cutting::cuts(&state.manifest.tombstones, &part.entry, &series);
            let live = |exemplar: &Exemplar| {
                range.contains(exemplar.timestamp)
                    && !cuts.iter().any(|cut| cut.contains(exemplar.timestamp))
            };
            for exemplar in exemplars.into_iter().filter(live) {
                let of_series = all.entry(series.clone()).or_default();
                of_series.insert((exemplar.timestamp, exemplar.labels.clone()), exemplar);
            }
        })?;
    }
    Ok(all.into_iter().map(|(labels, own)| (labels, own.into_values().collect())).collect())
}

/// The series that match; `None` = all.
fn matching(
    reader: &PartReader<'_>,
    matchers: &[Matcher],
) -> Result<Option<RoaringBitmap>, StoreError> {
    if matchers.is_empty() {
        return Ok(None);
    }
    let ids = evaluate(reader, matchers)?;
    Ok(Some(ids).filter(|ids| ids.len() < u64::from(reader.part.entry.series)))
}

fn insert_values(
    reader: &PartReader<'_>,
    ids: &RoaringBitmap,
    name: &str,
    found: &mut Sorted<String>,
) -> Result<(), StoreError> {
    reader.for_series(ids, &mut |row| {
        let labels = codec::labels(row.labels).map_err(|d| reader.part.damage(0, d))?;
        let value = labels.get(name);
        if !value.is_empty() && !found.items.contains(value) {
            found.insert(value.to_owned());
        }
        Ok(ControlFlow::Continue(()))
    })
}

/// The first results in order, up to a limit of their number and one of their bytes.
struct Sorted<T> {
    limit: usize,
    items: BTreeSet<T>,
    bytes: usize,
    max_bytes: usize,
    bytes_of: fn(&T) -> usize,
    /// Something had to go for its bytes.
    cut: bool,
}

impl<T: Ord> Sorted<T> {
    fn new(query: &SeriesQuery, bytes_of: fn(&T) -> usize) -> Self {
        let limit = if query.limit == 0 { usize::MAX } else { query.limit };
        let (items, max_bytes) = (BTreeSet::new(), query.max_bytes());
        Self { limit, items, bytes: 0, max_bytes, bytes_of, cut: false }
    }

    fn insert(&mut self, item: T) {
        let bytes = (self.bytes_of)(&item);
        if self.items.insert(item) {
            self.bytes += bytes;
        }
        while self.items.len() > self.limit.saturating_add(1) || self.bytes > self.max_bytes {
            self.cut |= self.bytes > self.max_bytes;
            let Some(last) = self.items.pop_last() else { return };
            self.bytes -= (self.bytes_of)(&last);
        }
    }

    /// Whether a part that has given so many, in order, can give nothing more of use.
    fn enough(&self, given: usize) -> ControlFlow<()> {
        if given > self.limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn into_limited(self) -> Limited<T> {
        let truncated = self.cut || self.items.len() > self.limit;
        Limited { items: self.items.into_iter().take(self.limit).collect(), truncated }
    }
}
