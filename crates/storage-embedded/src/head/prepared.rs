//! A write that is prepared for memory.
//!
//! It is made before the record is in the log and owns all its data, so that it can wait for the
//! commit after its request is gone. It changes nothing by itself: new series are created when it
//! is applied, so a write that the log refuses leaves none behind.

use std::ops::Range;
use std::sync::Arc;

use super::map::{Finder, SeriesMap, bytes_of_new};
use super::size;
use promkairos_model::limits;
use promkairos_model::{
    Exemplar, LabelLimits, Labels, LabelsRef, MetadataEntry, MetricType, Point, RejectReason,
    Rejections, Sample, SeriesEntry, WriteBatch, positions, samples_with_longs,
};
use promkairos_storage::{Pressure, SeriesRoom};

/// The id of a series that memory did not have.
const NEW: u32 = u32::MAX;
/// No limits: what was accepted once is not judged again.
const UNLIMITED: LabelLimits = LabelLimits {
    labels: usize::MAX,
    name_bytes: usize::MAX,
    value_bytes: usize::MAX,
    total_bytes: usize::MAX,
};

/// Why a store below can never take a series; `None` = it can.
pub type Refuse = fn(LabelsRef<'_>) -> Option<RejectReason>;

/// Whether series are checked.
#[derive(Clone, Copy)]
pub(super) enum Judge<'a> {
    /// A request: limits apply, labels may be refused, and no series is new while memory is short.
    Accept {
        /// Refuses what the store below can never take.
        refuse: Option<Refuse>,
        /// How short memory is.
        pressure: &'a Arc<Pressure>,
    },
    /// A record of the log: accepted before.
    Replay,
}

/// The points of a batch with their series, found or new.
#[derive(Default)]
pub(super) struct Prepared {
    pub(super) entries: Vec<Entry>,
    /// Number of renewals of ids when these series were found.
    renewals: u32,
    /// Labels of series that memory did not have, with the positions of their entries.
    pub(super) new: Vec<(u32, Labels)>,
    /// Memory that was reserved for new series; `None` = a replay.
    pub(super) room: Option<SeriesRoom>,
    samples: Vec<Sample>,
    /// As in the batch.
    longs: Vec<(u32, i64)>,
    /// Points that are histograms, by entry.
    pub(super) histograms: Vec<(u32, Point)>,
    pub(super) exemplars: Vec<(u32, Exemplar)>,
    pub(super) metadata: Families,
}

/// The metadata of a batch. Every request of remote write 2.0 has metadata, which is usually known.
/// So it takes two buffers, and no text for each entry.
#[derive(Default)]
pub(super) struct Families {
    texts: String,
    /// The type, and the ends of family, help and unit in the texts; each text begins at the end before.
    entries: Vec<(MetricType, [usize; 3])>,
}

/// One series of a batch.
pub(super) struct Entry {
    pub(super) id: u32,
    samples: Range<u32>,
}

/// What became of the series of a batch.
#[derive(Default)]
pub(super) struct Judged {
    /// What is refused here, in addition to what the decoder refused.
    pub(super) rejections: Rejections,
    /// Positions in the batch of the series that are not taken: refused or empty.
    pub(super) left_out: Vec<u32>,
}

impl Prepared {
    /// Finds the series of a batch and takes its points. `flush` is the number of the last flush.
    pub(super) fn new(
        map: &SeriesMap,
        mut batch: WriteBatch<'_>,
        judge: Judge<'_>,
        flush: u32,
    ) -> (Self, Judged) {
        let entries = Vec::with_capacity(batch.series.len());
        let mut write = Self { entries, renewals: map.renewals, ..Self::default() };
        if let Judge::Accept { pressure, .. } = judge {
            write.room = Some(SeriesRoom::new(pressure));
        }
        let mut judged = Judged::default();
        let mut finder = map.finder(flush);
        // Moved once; a series then shares them.
        let histograms: Vec<Point> =
            std::mem::take(&mut batch.histograms).into_iter().map(Point::from).collect();
        for (series, position) in batch.series.iter().zip(0..) {
            let id = match find(&mut finder, series, judge, &mut write.room) {
                Ok(Found::Known(id)) => id,
                Ok(Found::New(labels)) => {
                    write.new.push((write.entries.len() as u32, labels));
                    NEW
                }
                Ok(Found::Empty) => {
                    judged.left_out.push(position);
                    continue;
                }
                Err(reason) => {
                    judged.left_out.push(position);
                    let (index, points) = (series.index, series.points());
                    let describe = || series.labels.describe();
                    judged.rejections.push_series(index, points, reason, describe);
                    continue;
                }
            };
            let entry = write.entries.len() as u32;
            let points = &histograms[positions(&series.histograms)];
            write.histograms.extend(points.iter().map(|point| (entry, point.clone())));
            for exemplar in &batch.exemplars[positions(&series.exemplars)] {
                write.exemplars.extend(exemplar.to_exemplar().ok().map(|own| (entry, own)));
            }
            write.entries.push(Entry { id, samples: series.samples.clone() });
        }
        write.metadata = Families::new(&batch.metadata);
        (write.samples, write.longs) = (batch.samples, batch.longs);
        (write, judged)
    }

    /// Replaces the ids of its series by their current ids.
    pub(super) fn renumber(&mut self, map: &SeriesMap) {
        if self.renewals == map.renewals {
            return;
        }
        self.renewals = map.renewals;
        for entry in &mut self.entries {
            // The id of a new series is not renewed.
            entry.id = map.renewed(entry.id).unwrap_or(entry.id);
        }
    }

    /// Approximate bytes of memory that it takes before it is applied.
    pub(super) fn bytes(&self) -> u64 {
        let points = self.samples.capacity() * size_of::<Sample>()
            + self.longs.capacity() * size_of::<(u32, i64)>();
        let entries = self.entries.capacity() * size_of::<Entry>();
        let new = self.new.iter().map(|(_, labels)| labels.as_bytes().len() + size_of::<Labels>());
        let rare = self.histograms.iter().map(|(_, point)| size::of_point(point));
        let exemplars = self.exemplars.iter().map(|(_, exemplar)| size::of_exemplar(exemplar));
        let texts = self.metadata.texts.len() + new.sum::<usize>();
        (points + entries + texts) as u64 + rare.chain(exemplars).sum::<u64>()
    }

    /// How many floats there are.
    pub(super) fn sample_count(&self) -> usize {
        self.samples.len()
    }

    /// How many of them are integers.
    pub(super) fn long_count(&self) -> usize {
        self.longs.len()
    }

    /// The floats of an entry, each with its integer if it is one.
    pub(super) fn samples(&self, entry: &Entry) -> impl Iterator<Item = (&Sample, Option<i64>)> {
        samples_with_longs(&self.samples, &self.longs, &entry.samples)
    }
}

impl Families {
    fn new(batch: &[MetadataEntry<'_>]) -> Self {
        let bytes =
            batch.iter().map(|entry| entry.family.len() + entry.help.len() + entry.unit.len());
        let texts = String::with_capacity(bytes.sum());
        let mut families = Self { texts, entries: Vec::with_capacity(batch.len()) };
        for entry in batch {
            let ends = [entry.family, entry.help, entry.unit].map(|text| {
                families.texts.push_str(text);
                families.texts.len()
            });
            families.entries.push((entry.kind, ends));
        }
        families
    }

    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The entries, in the order of the batch.
    pub(super) fn iter(&self) -> impl Iterator<Item = MetadataEntry<'_>> {
        let mut begin = 0;
        self.entries.iter().map(move |(kind, ends)| {
            let [family, help, unit] = ends.map(|end| {
                let text = &self.texts[begin..end];
                begin = end;
                text
            });
            MetadataEntry { family, kind: *kind, help, unit }
        })
    }
}

/// Approximate bytes of memory that a batch takes while it waits for its commit.
pub(super) fn waiting_bytes(batch: &WriteBatch<'_>) -> usize {
    let histograms = batch.histograms.iter().map(|sample| size::of_histogram(&sample.histogram));
    let rare = batch.exemplars.len() + batch.metadata.len();
    let points = batch.samples.len() * size_of::<Sample>()
        + batch.longs.len() * size_of::<(u32, i64)>()
        + histograms.sum::<u64>() as usize;
    batch.series.len() * size_of::<Entry>() + points + rare * 256
}

enum Found {
    Known(u32),
    New(Labels),
    /// Without points and exemplars.
    Empty,
}

fn find(
    finder: &mut Finder<'_>,
    series: &SeriesEntry<'_>,
    judge: Judge<'_>,
    room: &mut Option<SeriesRoom>,
) -> Result<Found, RejectReason> {
    if series.is_empty() {
        return Ok(Found::Empty);
    }
    if let Some(id) = finder.find(series.labels.as_bytes()) {
        return Ok(Found::Known(id));
    }
    let (limits, refuse) = match judge {
        Judge::Accept { refuse, .. } => (&limits::LABEL_LIMITS, refuse),
        Judge::Replay => (&UNLIMITED, None),
    };
    let labels = series.labels.to_series(limits)?;
    if let Some(reason) = refuse.and_then(|refuse| refuse(labels.as_ref())) {
        return Err(reason);
    }
    // Labels may come in another order than memory has them.
    if let Some(id) = finder.find(labels.as_bytes()) {
        return Ok(Found::Known(id));
    }
    match room.as_mut().and_then(|room| room.refuse(bytes_of_new(&labels))) {
        Some(reason) => Err(reason),
        None => Ok(Found::New(labels)),
    }
}
