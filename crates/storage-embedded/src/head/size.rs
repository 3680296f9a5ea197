//! Estimates of bytes in memory: of points, exemplars and metadata, and of a flush of all data.
//!
//! Tests of [`super::recent_samples`] compare the estimates with an allocator, for usual and hostile shapes. Floats are
//! not measured one by one. The map knows the size of series without their points.

use super::map::SeriesMap;
use super::series::Taken;
use promkairos_model::{Exemplar, Histogram, MetadataEntry, Point, Span, Value};

/// Bytes of a float in a chunk. Most take less, and some five times as much.
const FLOAT: u64 = 2;
/// Additional bytes of an integer: its entry in a side column. The first of a chunk takes more.
const LONG: u64 = 4;
/// Bytes of a chunk with few points, and of its side column.
const CUT: u64 = 192;
/// Bytes of a late point without its value.
const LATE: u64 = 64;
/// Bytes of a map entry without its texts, with its share of free room.
const ENTRY: u64 = 128;
/// Bytes of a metric family without its texts: four texts with their lengths, in a map likewise.
const FAMILY: u64 = 160;
/// Bytes that a flush takes for each series until its end, without labels and postings: the list of
/// series, and the entry in the index of a part.
const FLUSH_SERIES: u64 = 96;
/// Bytes that a flush takes for each label, without the index: its entry in the lists of a part.
const FLUSH_LABEL: u64 = 64;
/// Most bytes that a flush takes in any case, for runs that wait to be written and for buffers.
const FLUSH_BUFFERS: u64 = 4 << 20;
/// The buffers take at most one part in this number of the memory limit.
const FLUSH_BUFFERS_PART: u64 = 64;

/// Bytes of floats, of which `late` points came late.
pub(super) fn of_floats(samples: u64, late: u64) -> u64 {
    samples * FLOAT + late * LATE
}

/// Additional bytes of integers, beside those of their floats.
pub(super) fn of_longs(longs: u64) -> u64 {
    longs * LONG
}

/// Additional bytes of points that ended a chunk before it was full.
pub(super) fn of_cuts(cuts: u64) -> u64 {
    cuts * CUT
}

/// Bytes of a point that is not in a chunk.
pub(super) fn of_point(point: &Point) -> u64 {
    let value = match &point.value {
        Value::Float(_) => 0,
        Value::Histogram(histogram) => of_histogram(histogram),
    };
    size_of::<Point>() as u64 + value
}

/// Bytes of such a point after it was taken.
pub(super) fn of_taken(point: u64, taken: Taken) -> u64 {
    match taken {
        // Most buckets are like the buckets before.
        Taken::InOrder | Taken::Cut => ENTRY + point / 2,
        Taken::Late | Taken::Again => point,
    }
}

/// Bytes of a decoded histogram.
pub(super) fn of_histogram(histogram: &Histogram) -> u64 {
    let spans = histogram.span_count() * size_of::<Span>();
    let numbers = (histogram.bucket_count() + histogram.custom_values.len()) * size_of::<f64>();
    (size_of::<Histogram>() + spans + numbers) as u64
}

/// Bytes of an exemplar.
pub(super) fn of_exemplar(exemplar: &Exemplar) -> u64 {
    ENTRY + exemplar.labels.as_bytes().len() as u64
}

/// Bytes of the metadata of a metric family.
pub(super) fn of_family(entry: &MetadataEntry<'_>) -> u64 {
    FAMILY + (entry.family.len() + entry.help.len() + entry.unit.len()) as u64
}

/// Bytes of a flush of all series, with these bytes of exemplars and metadata, in a process with
/// the memory limit `limit`. The store below keeps an index of the labels until it has written it;
/// exemplars and metadata are copied. Meanwhile the map may grow.
pub(super) fn of_flush(map: &SeriesMap, limit: u64, exemplars: u64, metadata: u64) -> u64 {
    let series = map.len() as u64 * FLUSH_SERIES + map.index.label_count() as u64 * FLUSH_LABEL;
    let index = (map.index.bytes() + map.growth()) as u64;
    let buffers = (limit / FLUSH_BUFFERS_PART).min(FLUSH_BUFFERS);
    buffers + series + index + exemplars + 2 * metadata
}
