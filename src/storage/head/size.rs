//! How many bytes things take in memory, about: points and what comes with them, and a flush of all that is there.
//!
//! Estimates that were compared with what an allocator gives, for the usual and for hostile shapes (tests of
//! [`super::memory`]). Floats are not looked at one by one. What series take beside their points is known to the map.

use super::map::SeriesMap;
use super::series::Taken;
use crate::model::{Exemplar, Histogram, MetadataEntry, Point, Span, Value};

/// A float in a chunk. Most take less, and some five times as much.
const FLOAT: u64 = 2;
/// What a late point takes beside its value.
const LATE: u64 = 48;
/// What an entry of a map takes beside its texts, with its share of the room that is free.
const ENTRY: u64 = 128;
/// What is known of a metric family takes this beside its texts: four texts with their lengths, in a map likewise.
const FAMILY: u64 = 160;
/// What a flush takes for each series until it has ended, beside its labels and their postings: the list of the
/// series, and its place in the index of a part.
const FLUSH_SERIES: u64 = 96;
/// The same of each label, beside its place in an index: its entry in the lists of a part.
const FLUSH_LABEL: u64 = 64;
/// What a flush takes in any case, for runs that wait to be written and for buffers: a part of what the process may
/// have, and this at most.
const FLUSH_BUFFERS: u64 = 4 << 20;
/// See [`FLUSH_BUFFERS`].
const FLUSH_BUFFERS_PART: u64 = 64;

/// Floats, and those of all points that came late.
pub(super) fn of_floats(samples: u64, late: u64) -> u64 {
    samples * FLOAT + late * LATE
}

/// A point that is no chunk yet.
pub(super) fn of_point(point: &Point) -> u64 {
    let value = match &point.value {
        Value::Float(_) => 0,
        Value::Histogram(histogram) => of_histogram(histogram),
    };
    size_of::<Point>() as u64 + value
}

/// The same, from when it was taken.
pub(super) fn of_taken(point: u64, taken: Taken) -> u64 {
    match taken {
        // Most buckets are like those before.
        Taken::InOrder => ENTRY + point / 2,
        Taken::Late | Taken::Again => point,
    }
}

/// A histogram that is decoded.
pub(super) fn of_histogram(histogram: &Histogram) -> u64 {
    let spans = histogram.span_count() * size_of::<Span>();
    let numbers = (histogram.bucket_count() + histogram.custom_values.len()) * size_of::<f64>();
    (size_of::<Histogram>() + spans + numbers) as u64
}

/// An exemplar.
pub(super) fn of_exemplar(exemplar: &Exemplar) -> u64 {
    ENTRY + exemplar.labels.as_bytes().len() as u64
}

/// What is known of a metric family.
pub(super) fn of_family(entry: &MetadataEntry<'_>) -> u64 {
    FAMILY + (entry.family.len() + entry.help.len() + entry.unit.len()) as u64
}

/// A flush of all series, with these bytes of exemplars and of metadata, in a process that may have `limit`. The store
/// below has an index of the labels until it has written it; exemplars and metadata are copied for it. Meanwhile the
/// map may grow.
pub(super) fn of_flush(map: &SeriesMap, limit: u64, exemplars: u64, metadata: u64) -> u64 {
    let series = map.len() as u64 * FLUSH_SERIES + map.index.label_count() as u64 * FLUSH_LABEL;
    let index = (map.index.bytes() + map.growth()) as u64;
    let buffers = (limit / FLUSH_BUFFERS_PART).min(FLUSH_BUFFERS);
    buffers + series + index + exemplars + 2 * metadata
}
