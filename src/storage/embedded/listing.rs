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
    let mut found = Sorted::new(query.limit);
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
    let mut found = Sorted::new(query.limit);
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
    let mut found = Sorted::new(query.limit);
    for (_, part) in state.parts_in(query.range) {
        let reader = part.reader()?;
        let ids = matching(&reader, &query.matchers)?;
        let values = reader.directory.name(name).map_or(0, |entry| entry.values);
        let mut here = 0;
        let mut insert = |value: &str| -> Walk {
            here += 1;
            found.insert(value.to_owned());
            Ok(found.enough(here))
        };
        match ids {
            // Few series: their labels are read rather than all values.
            Some(ids) if ids.len() < values => {
                for value in values_of(&reader, &ids, name)? {
                    if insert(&value)?.is_break() {
                        break;
                    }
                }
            }
            ids => reader.for_values(name, ids.as_ref(), &mut insert)?,
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

fn values_of(
    reader: &PartReader<'_>,
    ids: &RoaringBitmap,
    name: &str,
) -> Result<BTreeSet<String>, StoreError> {
    let mut values = BTreeSet::new();
    reader.for_series(ids, &mut |row| {
        let labels = codec::labels(row.labels).map_err(|d| reader.part.damage(0, d))?;
        let value = labels.get(name);
        if !value.is_empty() && !values.contains(value) {
            values.insert(value.to_owned());
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(values)
}

/// Results in order, up to a limit.
struct Sorted<T> {
    limit: usize,
    items: BTreeSet<T>,
}

impl<T: Ord> Sorted<T> {
    fn new(limit: usize) -> Self {
        Self { limit: if limit == 0 { usize::MAX } else { limit }, items: BTreeSet::new() }
    }

    fn insert(&mut self, item: T) {
        self.items.insert(item);
        if self.items.len() > self.limit.saturating_add(1) {
            self.items.pop_last();
        }
    }

    /// Whether a part that has given so many, in order, can give nothing more of use.
    fn enough(&self, given: usize) -> ControlFlow<()> {
        if given > self.limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn into_limited(self) -> Limited<T> {
        let truncated = self.items.len() > self.limit;
        Limited { items: self.items.into_iter().take(self.limit).collect(), truncated }
    }
}
