//! Turns a batch that is written without a head into a flush.
//!
//! If a batch has two points of a series at one time, a float wins over a histogram, and otherwise
//! the later entry wins. So the times of every chunk rise strictly.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

use promkairos_chunk::{StampedPoint, encode_stamped};
use promkairos_model::limits::LABEL_LIMITS;
use promkairos_model::{
    Exemplar, Labels, Point, SeriesEntry, Target, Value, WriteBatch, WriteOutcome, positions,
    samples_with_longs,
};
use promkairos_storage::{DayCounts, Flush, RatePacer, SeriesRun, StoreError};

#[derive(Default)]
struct Content {
    points: BTreeMap<i64, StampedPoint>,
    exemplars: Vec<Exemplar>,
}

/// The flush that stores `batch`, and the outcome once it is stored.
pub(super) fn flush_of(
    batch: WriteBatch<'_>,
) -> Result<(Flush<'static>, WriteOutcome), StoreError> {
    let mut outcome = WriteOutcome { rejections: batch.rejections.clone(), ..Default::default() };
    let mut series: BTreeMap<Labels, Content> = BTreeMap::new();
    for entry in &batch.series {
        match entry.labels.to_series(&LABEL_LIMITS) {
            Ok(labels) => {
                add(&batch, entry, series.entry(labels).or_default())?;
                outcome.samples += entry.samples.len() as u64;
                outcome.histograms += entry.histograms.len() as u64;
                outcome.exemplars += entry.exemplars.len() as u64;
            }
            Err(error) => {
                outcome
                    .rejections
                    .push(Target::Series(entry.index), error.into(), || entry.labels.describe())
            }
        }
    }
    let mut metadata = BTreeMap::new();
    for entry in &batch.metadata {
        metadata.insert(entry.family.to_owned(), entry.to_metadata());
        outcome.metadata += 1;
    }
    let (mut runs, mut exemplars) = (Vec::new(), Vec::new());
    for (labels, content) in series {
        if !content.exemplars.is_empty() {
            exemplars.push((labels.clone(), content.exemplars));
        }
        if !content.points.is_empty() {
            runs.push(SeriesRun { labels, chunks: encode_stamped(content.points.values()) });
        }
    }
    let mut days = DayCounts::default();
    for chunk in runs.iter().flat_map(|run: &SeriesRun| &run.chunks) {
        days.add(chunk.min_time, chunk.max_time, chunk.count.into());
    }
    let (runs, metadata) = (Box::new(runs.into_iter()), metadata.into_iter().collect());
    // A direct write has no log: the position of flushes stays unchanged.
    let pace = RatePacer::default();
    Ok((Flush { through: 0, runs, exemplars, days, metadata, pace }, outcome))
}

fn add(
    batch: &WriteBatch<'_>,
    entry: &SeriesEntry<'_>,
    content: &mut Content,
) -> Result<(), StoreError> {
    slice(&batch.samples, &entry.samples)?;
    for (sample, long) in samples_with_longs(&batch.samples, &batch.longs, &entry.samples) {
        let point = StampedPoint { point: (*sample).into(), long, stamp: 0 };
        content.points.insert(sample.timestamp, point);
    }
    for sample in slice(&batch.histograms, &entry.histograms)? {
        let point = StampedPoint { point: Point::from(sample.clone()), long: None, stamp: 0 };
        match content.points.entry(sample.timestamp) {
            Entry::Occupied(known) if matches!(known.get().point.value, Value::Float(_)) => {}
            Entry::Occupied(mut known) => drop(known.insert(point)),
            Entry::Vacant(free) => drop(free.insert(point)),
        }
    }
    for exemplar in slice(&batch.exemplars, &entry.exemplars)? {
        // Malformed exemplars were refused when the batch was decoded.
        content.exemplars.extend(exemplar.to_exemplar().ok());
    }
    Ok(())
}

fn slice<'a, T>(all: &'a [T], range: &Range<u32>) -> Result<&'a [T], StoreError> {
    all.get(positions(range))
        .ok_or_else(|| StoreError::Invalid("a series points outside its batch".into()))
}
