//! Series, label names, label values and exemplars over all parts.
//!
//! Coarse in time: a part counts as a whole, a series by its first and last point in a part.
//! Deleted data may be listed until compaction has rewritten the files; exemplars are exact. Each
//! part answers in order, so that it can stop where the list does (see `limited`).

use std::ops::ControlFlow;

use roaring::RoaringBitmap;

use promkairos_model::{Labels, Matcher, TimeRange};
use promkairos_storage::codec;
use promkairos_storage::exemplars::Gathered;
use promkairos_storage::index::{LabelIndex, evaluate};
use promkairos_storage::limited::Smallest;
use promkairos_storage::{ExemplarList, Limited, ListSize, SeriesQuery, StoreError};

use super::cutting;
use super::lookup;
use super::part::PartReader;
use super::state::State;

pub(super) fn series(state: &State, query: &SeriesQuery) -> Result<Limited<Labels>, StoreError> {
    let mut found = Smallest::new(query.limit);
    for (_, part) in state.parts_in(query.range) {
        let reader = part.reader()?;
        let ids = evaluate(&reader, &query.matchers)?;
        reader.for_series(&ids, &mut |row| {
            if !row.range.overlaps(&query.range) {
                return Ok(ControlFlow::Continue(()));
            }
            Ok(found.add(codec::labels(row.labels).map_err(|d| part.damage(0, d))?))
        })?;
    }
    Ok(found.finish())
}

pub(super) fn label_names(
    state: &State,
    query: &SeriesQuery,
) -> Result<Limited<String>, StoreError> {
    let mut found = Smallest::new(query.limit);
    for (_, part) in state.parts_in(query.range) {
        let reader = part.reader()?;
        match matching(&reader, &query.matchers)? {
            None => {
                reader.for_names(&mut |name, _| found.add_text(name))?;
            }
            Some(ids) => reader.for_series(&ids, &mut |row| {
                let labels = codec::labels(row.labels).map_err(|d| part.damage(0, d))?;
                let _ = labels.iter().try_for_each(|(name, _)| found.add_text(name));
                Ok(ControlFlow::Continue(()))
            })?,
        }
    }
    Ok(found.finish())
}

pub(super) fn label_values(
    state: &State,
    name: &str,
    query: &SeriesQuery,
) -> Result<Limited<String>, StoreError> {
    let mut found = Limited::first([], query.limit);
    for (_, part) in state.parts_in(query.range) {
        let reader = part.reader()?;
        let ids = matching(&reader, &query.matchers)?;
        found = match ids {
            // Few series: their labels are read rather than all values.
            Some(ids) if ids.len() < reader.value_count(name) => {
                let own = values_of(&reader, &ids, name, query.limit)?;
                Limited::union(vec![found, own], query.limit)
            }
            ids => found.merged(query.limit, |add| {
                reader.for_values(name, ids.as_ref(), &mut |value| Ok(add(value)))
            })?,
        };
    }
    Ok(found)
}

/// A later part wins. More than `max_bytes` are an error.
pub(super) fn exemplars(
    state: &State,
    matchers: &[Matcher],
    range: TimeRange,
    max_bytes: usize,
) -> Result<ExemplarList, StoreError> {
    let mut all = Gathered::new(max_bytes);
    for (_, part) in state.parts_in(range).filter(|(_, part)| part.entry.exemplars > 0) {
        for entry in part.reader()?.exemplars() {
            let (series, mut exemplars) = entry?;
            if Matcher::all_match(matchers, &series) {
                let cuts = cutting::cuts(&state.manifest.tombstones, &part.entry, &series);
                exemplars.retain(|exemplar| {
                    let time = exemplar.timestamp;
                    range.contains(time) && !cuts.iter().any(|cut| cut.contains(time))
                });
                all.add(&series, exemplars)?;
            }
        }
    }
    Ok(all.finish())
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

/// The values of a label that these series have.
fn values_of(
    reader: &PartReader<'_>,
    ids: &RoaringBitmap,
    name: &str,
    limit: ListSize,
) -> Result<Limited<String>, StoreError> {
    let mut found = Smallest::new(limit);
    reader.for_series(ids, &mut |row| {
        let value = lookup::value_of(row.labels, name).map_err(|d| reader.part.damage(0, d))?;
        if !value.is_empty() {
            let _ = found.add_text(value);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found.finish())
}
