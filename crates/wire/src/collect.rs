//! Builds a [`WriteBatch`] from what the decoders find, and applies the policy.
//!
//! Target numbers count everything in the request, also what is refused. A series that ends without any point or
//! exemplar is not in the batch.
//!
//! The arena grows while the batch is built, so labels in the arena are kept as ranges and become slices at the end.

use std::ops::Range;

use promkairos_model::limits;
use promkairos_model::{
    ExemplarEntry, HistogramError, LabelError, MAX_TIMESTAMP, MIN_TIMESTAMP, MetadataEntry,
    RawLabels, RejectReason, Sample, SampleTimes, SeriesEntry, Target, WriteBatch,
};

use super::{Policy, SAMPLES, SERIES, WireError, histogram};

/// Where raw label bytes are.
#[derive(Debug, Clone)]
pub(super) enum LabelBytes<'a> {
    /// In the body.
    Body(&'a [u8]),
    /// In the arena.
    Arena(Range<usize>),
}

/// A batch being built.
pub(super) struct Collector<'a> {
    batch: WriteBatch<'a>,
    arena: &'a mut Vec<u8>,
    in_arena: Vec<(Holder, Range<usize>)>,
    /// Sorted targets to leave out; `None` = apply the policy instead.
    omit: Option<Vec<Target>>,
    /// The accepted times of points; a replay accepts all.
    times: SampleTimes,
    seen: Seen,
    /// Most bytes of the batch, approximately.
    most_bytes: usize,
}

/// An entry whose labels are in the arena, by its position in the batch.
#[derive(Debug, Clone, Copy)]
enum Holder {
    Series(usize),
    Exemplar(usize),
}

/// How many of each kind the request had so far.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    series: u32,
    samples: u32,
    histograms: u32,
    exemplars: u32,
    metadata: u32,
    buckets: usize,
}

/// The series being built: the lengths of the batch and the counts when it began.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    index: u32,
    omitted: bool,
    before: Seen,
    samples: usize,
    histograms: usize,
    exemplars: usize,
    in_arena: usize,
    reasons: usize,
}

impl Draft {
    /// Whether a replay leaves the series out.
    pub(super) fn is_omitted(&self) -> bool {
        self.omitted
    }
}

impl<'a> Collector<'a> {
    /// An empty batch for a body of `bytes` bytes.
    pub(super) fn new(bytes: usize, arena: &'a mut Vec<u8>, policy: Policy<'_>) -> Self {
        arena.clear();
        let (omit, times, most_bytes) = match policy {
            Policy::Accept => (None, SampleTimes::ANY, usize::MAX),
            Policy::AcceptWithin { times, bytes } => (None, times, bytes),
            Policy::Replay(targets) => {
                let mut sorted = targets.to_vec();
                sorted.sort_unstable();
                (Some(sorted), SampleTimes::ANY, usize::MAX)
            }
        };
        // One series for 256 bytes, at most 4096 series.
        let guess = (bytes / 256).min(4096);
        let batch = WriteBatch {
            series: Vec::with_capacity(guess),
            samples: Vec::with_capacity(guess),
            ..WriteBatch::default()
        };
        Self { batch, arena, in_arena: Vec::new(), omit, times, seen: Seen::default(), most_bytes }
    }

    /// Whether the policy and the limits are applied.
    pub(super) fn is_strict(&self) -> bool {
        self.omit.is_none()
    }

    /// Whether a replay leaves `target` out.
    pub(super) fn omits(&self, target: Target) -> bool {
        self.omit.as_ref().is_some_and(|omit| omit.binary_search(&target).is_ok())
    }

    /// Fails if `count` is above `limit`, unless this is a replay.
    pub(super) fn check_limit(
        &self,
        count: usize,
        limit: usize,
        what: &'static str,
    ) -> Result<(), WireError> {
        if self.is_strict() && count > limit {
            return Err(WireError::Limit { what, limit });
        }
        Ok(())
    }

    /// Fails if the batch takes more memory than it may. Called for everything except floats: a few bytes of a
    /// message may expand to many.
    fn check_bytes(&self) -> Result<(), WireError> {
        let WriteBatch { series, samples, longs, histograms, exemplars, metadata, .. } =
            &self.batch;
        let bytes = size_of_val(series.as_slice())
            + size_of_val(samples.as_slice())
            + size_of_val(longs.as_slice())
            + size_of_val(histograms.as_slice())
            + size_of_val(exemplars.as_slice())
            + size_of_val(metadata.as_slice())
            + self.seen.buckets * size_of::<f64>()
            + self.arena.len();
        if bytes > self.most_bytes {
            return Err(WireError::Expands(self.most_bytes));
        }
        Ok(())
    }

    /// The arena for labels.
    pub(super) fn arena(&mut self) -> &mut Vec<u8> {
        self.arena
    }

    /// Begins the next series of the request.
    pub(super) fn begin_series(&mut self) -> Result<Draft, WireError> {
        self.check_bytes()?;
        let before = self.seen;
        self.seen.series += 1;
        self.check_limit(before.series as usize + 1, limits::MAX_SERIES_PER_REQUEST, SERIES)?;
        Ok(Draft {
            index: before.series,
            omitted: self.omits(Target::Series(before.series)),
            before,
            samples: self.batch.samples.len(),
            histograms: self.batch.histograms.len(),
            exemplars: self.batch.exemplars.len(),
            in_arena: self.in_arena.len(),
            reasons: self.batch.rejections.kept().len(),
        })
    }

    /// Adds a float to the series, or an integer with its nearest float in `sample`.
    pub(super) fn add_sample(
        &mut self,
        draft: &Draft,
        mut sample: Sample,
        long: Option<i64>,
    ) -> Result<(), WireError> {
        let target = Target::Sample(self.seen.samples);
        self.seen.samples += 1;
        self.check_points()?;
        if draft.omitted || self.omits(target) {
            return Ok(());
        }
        if let Err(reason) = self.check_time(sample.timestamp) {
            self.reject(target, reason);
            return Ok(());
        }
        sample.start_timestamp = known_start(sample.start_timestamp);
        if let Some(long) = long {
            self.batch.longs.push((self.batch.samples.len() as u32, long));
        }
        self.batch.samples.push(sample);
        Ok(())
    }

    /// Adds the histogram in `message` to the series.
    pub(super) fn add_histogram(&mut self, draft: &Draft, message: &[u8]) -> Result<(), WireError> {
        let target = Target::Histogram(self.seen.histograms);
        self.seen.histograms += 1;
        self.check_points()?;
        let count = self.seen.histograms as usize;
        self.check_limit(count, limits::MAX_HISTOGRAMS_PER_REQUEST, "histograms")?;
        self.check_bytes()?;
        if draft.omitted || self.omits(target) {
            return Ok(());
        }
        let limit = if self.is_strict() { limits::MAX_HISTOGRAM_BUCKETS } else { usize::MAX };
        let Some(mut decoded) = histogram::decode(message, limit)? else {
            self.reject(target, HistogramError::TooManyBuckets(limit).into());
            return Ok(());
        };
        self.seen.buckets += decoded.buckets;
        self.check_limit(self.seen.buckets, limits::MAX_BUCKETS_PER_REQUEST, "buckets")?;
        if self.is_strict() {
            let checked = self.check_time(decoded.sample.timestamp);
            let checked = checked.and_then(|()| Ok(decoded.sample.histogram.validate()?));
            if let Err(reason) = checked {
                self.reject(target, reason);
                return Ok(());
            }
        }
        decoded.sample.histogram.reduce_resolution();
        decoded.sample.start_timestamp = known_start(decoded.sample.start_timestamp);
        self.batch.histograms.push(decoded.sample);
        Ok(())
    }

    /// Counts the next exemplar of the request and returns its target.
    pub(super) fn next_exemplar(&mut self) -> Result<Target, WireError> {
        let target = Target::Exemplar(self.seen.exemplars);
        self.seen.exemplars += 1;
        let count = self.seen.exemplars as usize;
        self.check_limit(count, limits::MAX_EXEMPLARS_PER_REQUEST, "exemplars")?;
        self.check_bytes()?;
        Ok(target)
    }

    /// Whether the exemplar `target` of the series is needed.
    pub(super) fn wants_exemplar(&self, draft: &Draft, target: Target) -> bool {
        !draft.omitted && !self.omits(target)
    }

    /// Adds an exemplar to the series.
    pub(super) fn add_exemplar(
        &mut self,
        target: Target,
        labels: LabelBytes<'a>,
        value: f64,
        timestamp: i64,
    ) {
        if self.is_strict() {
            let raw = self.raw(&labels);
            let checked = self.check_time(timestamp).and_then(|()| check_exemplar(raw));
            if let Err(reason) = checked {
                self.reject(target, reason);
                return;
            }
        }
        let labels = self.hold(Holder::Exemplar(self.batch.exemplars.len()), labels);
        self.batch.exemplars.push(ExemplarEntry { labels, value, timestamp });
    }

    /// Refuses a part of the series being built.
    pub(super) fn reject(&mut self, target: Target, reason: RejectReason) {
        self.batch.rejections.push(target, reason, String::new);
    }

    /// Sets the start timestamp of the points of the series that have none.
    pub(super) fn set_missing_starts(&mut self, draft: &Draft, start: i64) {
        let start = known_start(start);
        let samples = self.batch.samples[draft.samples..].iter_mut();
        let histograms = self.batch.histograms[draft.histograms..].iter_mut();
        samples
            .map(|sample| &mut sample.start_timestamp)
            .chain(histograms.map(|sample| &mut sample.start_timestamp))
            .filter(|known| **known == 0)
            .for_each(|known| *known = start);
    }

    /// The number of floats and histograms so far.
    pub(super) fn points(&self) -> usize {
        self.batch.samples.len() + self.batch.histograms.len()
    }

    /// Counts the points after the first `before` as points without metadata.
    pub(super) fn lack_metadata(&mut self, before: usize) {
        self.batch.without_metadata += self.points().saturating_sub(before) as u64;
    }

    /// Whether the request has no floats, histograms or exemplars for the series, refused ones included.
    pub(super) fn is_empty(&self, draft: &Draft) -> bool {
        let (seen, before) = (&self.seen, &draft.before);
        (seen.samples, seen.histograms, seen.exemplars)
            == (before.samples, before.histograms, before.exemplars)
    }

    /// Ends the series with what was added to it.
    pub(super) fn finish_series(&mut self, draft: Draft, labels: LabelBytes<'a>) {
        if self.batch.rejections.kept().len() > draft.reasons {
            let text = self.raw(&labels).describe();
            self.batch.rejections.name_series(draft.reasons, &text);
        }
        let range = |from: usize, to: usize| from as u32..to as u32; // a body holds less than 2^32
        let samples = range(draft.samples, self.batch.samples.len());
        let histograms = range(draft.histograms, self.batch.histograms.len());
        let exemplars = range(draft.exemplars, self.batch.exemplars.len());
        if samples.is_empty() && histograms.is_empty() && exemplars.is_empty() {
            return;
        }
        let labels = self.hold(Holder::Series(self.batch.series.len()), labels);
        let index = draft.index;
        self.batch.series.push(SeriesEntry { labels, index, samples, histograms, exemplars });
    }

    /// Ends the series by refusing it with all its points.
    pub(super) fn refuse_series(
        &mut self,
        draft: Draft,
        reason: RejectReason,
        labels: Option<LabelBytes<'a>>,
    ) {
        let points = self.batch.samples.len() - draft.samples + self.batch.histograms.len()
            - draft.histograms;
        self.batch.samples.truncate(draft.samples);
        let kept = (self.batch.longs).partition_point(|(at, _)| (*at as usize) < draft.samples);
        self.batch.longs.truncate(kept);
        self.batch.histograms.truncate(draft.histograms);
        self.batch.exemplars.truncate(draft.exemplars);
        self.in_arena.truncate(draft.in_arena);
        if self.is_strict() {
            let rejections = &mut self.batch.rejections;
            rejections.push_series(draft.index, points as u64, reason, String::new);
        }
        if let Some(labels) = labels
            && self.batch.rejections.kept().len() > draft.reasons
        {
            let text = self.raw(&labels).describe();
            self.batch.rejections.name_series(draft.reasons, &text);
        }
    }

    /// Adds the metadata entry `number` of a family and returns its position in the batch. `named` is the target that
    /// leaves out all metadata of the family.
    pub(super) fn add_metadata(
        &mut self,
        number: u32,
        named: Target,
        entry: Result<MetadataEntry<'a>, RejectReason>,
    ) -> Result<Option<usize>, WireError> {
        let target = Target::Metadata(number);
        self.seen.metadata += 1;
        let count = self.seen.metadata as usize;
        self.check_limit(count, limits::MAX_METADATA_PER_REQUEST, "metadata entries")?;
        self.check_bytes()?;
        if self.omits(target) {
            return Ok(None);
        }
        match entry.and_then(|entry| self.check_metadata(entry)) {
            Ok(entry) => {
                self.batch.metadata.push(entry);
                self.batch.metadata_targets.push(named);
                Ok(Some(self.batch.metadata.len() - 1))
            }
            Err(reason) => {
                if self.is_strict() {
                    self.reject(target, reason);
                }
                Ok(None)
            }
        }
    }

    /// Replaces the entry `at` of the same family by `entry`. Returns false if `entry` is invalid;
    /// [`Collector::add_metadata`] then rejects it with the reason.
    pub(super) fn replace_metadata(&mut self, at: usize, entry: MetadataEntry<'a>) -> bool {
        match self.check_metadata(entry) {
            Ok(entry) => self.batch.metadata[at] = entry,
            Err(_) => return false,
        }
        true
    }

    /// Whether the metadata entry at this position belongs to `family`.
    pub(super) fn is_family(&self, at: usize, family: &[u8]) -> bool {
        self.batch.metadata[at].family.as_bytes() == family
    }

    fn check_metadata(&self, entry: MetadataEntry<'a>) -> Result<MetadataEntry<'a>, RejectReason> {
        if entry.family.is_empty() {
            return Err(RejectReason::Metadata("has no family name"));
        }
        let longest = entry.family.len().max(entry.help.len()).max(entry.unit.len());
        if self.is_strict() && longest > limits::MAX_METADATA_TEXT_BYTES {
            return Err(RejectReason::MetadataTooLong(longest));
        }
        Ok(entry)
    }

    /// The finished batch.
    pub(super) fn finish(self) -> WriteBatch<'a> {
        let Self { mut batch, arena, in_arena, .. } = self;
        let arena: &'a [u8] = arena;
        for (holder, range) in in_arena {
            let labels = RawLabels(&arena[range]);
            match holder {
                Holder::Series(at) => batch.series[at].labels = labels,
                Holder::Exemplar(at) => batch.exemplars[at].labels = labels,
            }
        }
        batch
    }

    /// Checks the time of a point; a replay accepts any time.
    fn check_time(&self, timestamp: i64) -> Result<(), RejectReason> {
        if self.is_strict() { self.times.check(timestamp) } else { Ok(()) }
    }

    fn check_points(&self) -> Result<(), WireError> {
        let count = self.seen.samples as usize + self.seen.histograms as usize;
        self.check_limit(count, limits::MAX_SAMPLES_PER_REQUEST, SAMPLES)
    }

    fn raw<'s>(&'s self, labels: &LabelBytes<'s>) -> RawLabels<'s> {
        match labels {
            LabelBytes::Body(bytes) => RawLabels(bytes),
            LabelBytes::Arena(range) => RawLabels(&self.arena[range.clone()]),
        }
    }

    /// The labels of an entry; labels in the arena are filled in when the batch is finished.
    fn hold(&mut self, holder: Holder, labels: LabelBytes<'a>) -> RawLabels<'a> {
        match labels {
            LabelBytes::Body(bytes) => RawLabels(bytes),
            LabelBytes::Arena(range) => {
                self.in_arena.push((holder, range));
                RawLabels(&[])
            }
        }
    }
}

/// A metadata text; an error if it is not UTF-8.
pub(super) fn text(bytes: &[u8]) -> Result<&str, RejectReason> {
    std::str::from_utf8(bytes).map_err(|_| RejectReason::Metadata("is not valid UTF-8"))
}

fn in_years(timestamp: i64) -> bool {
    (MIN_TIMESTAMP..=MAX_TIMESTAMP).contains(&timestamp)
}

/// The start timestamp, or 0 (unknown) if it is out of range.
fn known_start(start: i64) -> i64 {
    if in_years(start) { start } else { 0 }
}

fn check_exemplar(labels: RawLabels<'_>) -> Result<(), RejectReason> {
    let canonical = labels.canonical()?;
    let mut chars = 0;
    for pair in RawLabels(&canonical).pairs() {
        let (name, value) = pair.ok_or(LabelError::Malformed)?;
        // Continuation bytes are 10xxxxxx; `canonical` checked that this is UTF-8.
        chars += name.iter().chain(value).filter(|byte| **byte & 0xc0 != 0x80).count();
    }
    if chars > limits::MAX_EXEMPLAR_CHARS {
        return Err(RejectReason::ExemplarTooLong(chars));
    }
    Ok(())
}
