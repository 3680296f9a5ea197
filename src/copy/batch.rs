//! Collects points into a batch of writes, which is sent when it is large enough.
//!
//! A batch has a few hundred kilobytes, which a store accepts well within the timeout of a request. Points
//! and exemplars whose times the settings refuse are not added; they are counted as refused, with the reason.

use std::ops::Range;

use super::endpoint::{Starts, StoreEndpoint};
use super::error::CopyError;
use super::progress::Totals;
use crate::chunk::StampedPoint;
use crate::model::{
    Exemplar, ExemplarEntry, HistogramSample, Labels, Metadata, MetadataEntry, RawLabels,
    Rejections, Sample, SampleTimes, SeriesEntry, Target, Value, WriteBatch,
};

/// Approximate number of floats in a full batch; other items count more.
const FULL: usize = 10_000;
/// Bytes that count as much as a float.
const UNIT: usize = 32;

/// A batch under construction for a target.
pub(super) struct Batch<'a> {
    to: &'a StoreEndpoint,
    times: SampleTimes,
    content: Content,
    /// What was sent.
    totals: Totals,
}

#[derive(Default)]
struct Content {
    /// Items refused for their time.
    refused: Rejections,
    series: Vec<Series>,
    samples: Vec<Sample>,
    longs: Vec<(u32, i64)>,
    histograms: Vec<HistogramSample>,
    exemplars: Vec<Exemplar>,
    metadata: Vec<(String, Metadata)>,
    starts_left_out: u64,
    weight: usize,
}

/// A series of the batch, and the range of its points.
struct Series {
    labels: Labels,
    samples: Range<u32>,
    histograms: Range<u32>,
    exemplars: Range<u32>,
}

impl<'a> Batch<'a> {
    /// An empty batch that accepts points and exemplars of these times.
    pub(super) fn new(to: &'a StoreEndpoint, times: SampleTimes) -> Self {
        Self { to, times, content: Content::default(), totals: Totals::default() }
    }

    /// Adds a point; points of a series are added in a row.
    pub(super) fn point(&mut self, labels: &Labels, entry: StampedPoint) {
        if self.may_have(labels, entry.point.timestamp, Target::Sample) {
            self.content.point(labels, entry, self.to.starts);
        }
    }

    /// Adds an exemplar.
    pub(super) fn exemplar(&mut self, labels: &Labels, exemplar: Exemplar) {
        if self.may_have(labels, exemplar.timestamp, Target::Exemplar) {
            self.content.exemplar(labels, exemplar);
        }
    }

    /// Adds metadata of a family.
    pub(super) fn metadata(&mut self, family: String, metadata: Metadata) {
        let bytes = family.len() + metadata.help.len() + metadata.unit.len();
        self.content.weight += 1 + bytes / UNIT;
        self.content.metadata.push((family, metadata));
    }

    /// Whether an item of this time may be added; a refused one is counted.
    fn may_have(&mut self, labels: &Labels, timestamp: i64, target: fn(u32) -> Target) -> bool {
        // The index of the item in its request is not used.
        let refuse = |reason| self.content.refused.push(target(0), reason, || labels.to_string());
        self.times.check(timestamp).map_err(refuse).is_ok()
    }

    /// Sends the content if it is large enough.
    pub(super) async fn send_if_full(&mut self) -> Result<(), CopyError> {
        if self.content.weight >= FULL { self.send().await } else { Ok(()) }
    }

    /// Sends the rest. Returns what the target has accepted in all.
    pub(super) async fn finish(mut self) -> Result<Totals, CopyError> {
        self.send().await?;
        Ok(self.totals)
    }

    async fn send(&mut self) -> Result<(), CopyError> {
        let sent = std::mem::take(&mut self.content).send(self.to).await?;
        self.totals.add(sent);
        Ok(())
    }
}

impl Content {
    /// `starts` says which start timestamps are kept.
    fn point(&mut self, labels: &Labels, entry: StampedPoint, starts: Starts) {
        let StampedPoint { point, long, .. } = entry;
        let start_timestamp = starts.kept(&point);
        self.starts_left_out += u64::from(start_timestamp != point.start_timestamp);
        let timestamp = point.timestamp;
        match point.value {
            Value::Float(value) => {
                self.longs.extend(long.map(|long| (self.samples.len() as u32, long)));
                self.samples.push(Sample { timestamp, start_timestamp, value });
                self.weight += 1;
                let end = self.samples.len() as u32;
                self.series(labels).samples.end = end;
            }
            Value::Histogram(histogram) => {
                let mut histogram = std::sync::Arc::unwrap_or_clone(histogram);
                // The target may have other points between these.
                histogram.reset_hint = histogram.reset_hint.alone();
                let numbers = histogram.bucket_count() + histogram.custom_values.len();
                self.weight += 4 + numbers / 2;
                self.histograms.push(HistogramSample { timestamp, start_timestamp, histogram });
                let end = self.histograms.len() as u32;
                self.series(labels).histograms.end = end;
            }
        }
    }

    fn exemplar(&mut self, labels: &Labels, exemplar: Exemplar) {
        self.weight += 1 + exemplar.labels.as_bytes().len() / UNIT;
        self.exemplars.push(exemplar);
        let end = self.exemplars.len() as u32;
        self.series(labels).exemplars.end = end;
    }

    /// The series that is added to. The items just pushed for it are already in the vectors, so a
    /// new series begins right before them.
    fn series(&mut self, labels: &Labels) -> &mut Series {
        if self.series.last().is_none_or(|last| last.labels != *labels) {
            let (samples, histograms, exemplars) = match self.series.last() {
                Some(last) => (last.samples.end, last.histograms.end, last.exemplars.end),
                None => (0, 0, 0),
            };
            self.weight += labels.as_bytes().len() / UNIT;
            self.series.push(Series {
                labels: labels.clone(),
                samples: samples..samples,
                histograms: histograms..histograms,
                exemplars: exemplars..exemplars,
            });
        }
        self.series.last_mut().expect("one was just pushed")
    }

    /// Sends it. Returns what the target has accepted.
    async fn send(self, to: &StoreEndpoint) -> Result<Totals, CopyError> {
        let Self { refused, series, samples, longs, histograms, exemplars, metadata, .. } = self;
        let mut totals = Totals {
            refused: refused.len() as u64,
            reasons: refused.kept().iter().map(ToString::to_string).collect(),
            ..Totals::default()
        };
        if self.weight == 0 {
            return Ok(totals);
        }
        let sent = samples.len() + histograms.len() + exemplars.len() + metadata.len();
        let batch = WriteBatch {
            series: series.iter().zip(0..).map(|(series, index)| series.entry(index)).collect(),
            samples,
            longs,
            histograms,
            exemplars: exemplars.iter().map(exemplar_entry).collect(),
            metadata: metadata.iter().map(metadata_entry).collect(),
            ..WriteBatch::default()
        };
        let failed = |source| CopyError::Store { side: to.name.clone(), source };
        let outcome = to.store.write(batch).await.map_err(failed)?;
        let taken = outcome.samples + outcome.histograms + outcome.exemplars + outcome.metadata;
        totals.add(Totals {
            floats: outcome.samples,
            histograms: outcome.histograms,
            exemplars: outcome.exemplars,
            metadata: outcome.metadata,
            starts_left_out: self.starts_left_out,
            refused: (sent as u64).saturating_sub(taken),
            reasons: outcome.rejections.kept().iter().map(ToString::to_string).collect(),
        });
        Ok(totals)
    }
}

impl Series {
    fn entry(&self, index: u32) -> SeriesEntry<'_> {
        SeriesEntry {
            labels: RawLabels(self.labels.as_bytes()),
            index,
            samples: self.samples.clone(),
            histograms: self.histograms.clone(),
            exemplars: self.exemplars.clone(),
        }
    }
}

fn exemplar_entry(exemplar: &Exemplar) -> ExemplarEntry<'_> {
    let Exemplar { labels, value, timestamp } = exemplar;
    let labels = RawLabels(labels.as_bytes());
    ExemplarEntry { labels, value: *value, timestamp: *timestamp }
}

fn metadata_entry((family, metadata): &(String, Metadata)) -> MetadataEntry<'_> {
    let Metadata { kind, help, unit } = metadata;
    MetadataEntry { family, kind: *kind, help, unit }
}
