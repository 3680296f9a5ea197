//! Collects points into a batch of writes, which is sent when it is large enough.
//!
//! A batch has a few hundred kilobytes, which a store accepts well within the timeout of a request. Points
//! and exemplars whose times the settings refuse are not added; they are counted as refused, with the reason.

use std::ops::Range;

use super::endpoint::StoreEndpoint;
use super::error::CopyError;
use super::progress::Totals;
use crate::model::{
    Exemplar, ExemplarEntry, HistogramSample, Labels, Metadata, MetadataEntry, Point, RawLabels,
    Rejections, Sample, SampleTimes, SeriesEntry, Target, Value, WriteBatch,
};

/// Approximate number of floats in a full batch; other items count more.
const FULL: usize = 10_000;
/// Bytes that count as much as a float.
const UNIT: usize = 32;

/// A batch under construction.
pub(super) struct Batch {
    times: SampleTimes,
    /// Items refused for their time.
    refused: Rejections,
    series: Vec<Series>,
    samples: Vec<Sample>,
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

impl Batch {
    /// An empty batch that accepts points and exemplars of these times.
    pub(super) fn new(times: SampleTimes) -> Self {
        Self {
            times,
            refused: Rejections::default(),
            series: Vec::new(),
            samples: Vec::new(),
            histograms: Vec::new(),
            exemplars: Vec::new(),
            metadata: Vec::new(),
            starts_left_out: 0,
            weight: 0,
        }
    }

    /// Whether it should be sent.
    pub(super) fn is_full(&self) -> bool {
        self.weight >= FULL
    }

    /// Adds a point; points of a series are added in a row. `to` says which start timestamps are left out.
    pub(super) fn point(&mut self, labels: &Labels, point: Point, to: &StoreEndpoint) {
        if !self.may_have(labels, point.timestamp, Target::Sample) {
            return;
        }
        let start_timestamp = to.starts.kept(&point);
        self.starts_left_out += u64::from(start_timestamp != point.start_timestamp);
        let timestamp = point.timestamp;
        match point.value {
            Value::Float(value) => {
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

    /// Adds an exemplar.
    pub(super) fn exemplar(&mut self, labels: &Labels, exemplar: Exemplar) {
        if !self.may_have(labels, exemplar.timestamp, Target::Exemplar) {
            return;
        }
        self.weight += 1 + exemplar.labels.as_bytes().len() / UNIT;
        self.exemplars.push(exemplar);
        let end = self.exemplars.len() as u32;
        self.series(labels).exemplars.end = end;
    }

    /// Adds metadata of a family.
    pub(super) fn metadata(&mut self, family: String, metadata: Metadata) {
        self.weight += 1 + (family.len() + metadata.help.len() + metadata.unit.len()) / UNIT;
        self.metadata.push((family, metadata));
    }

    /// Whether an item of this time may be added; a refused one is counted.
    fn may_have(&mut self, labels: &Labels, timestamp: i64, target: fn(u32) -> Target) -> bool {
        let checked = self.times.check(timestamp);
        if let Err(reason) = checked {
            // The index of the item in its request is not used.
            self.refused.push(target(0), reason, || labels.to_string());
            return false;
        }
        true
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

    /// Sends the content, and empties the batch. Returns what the target has accepted.
    pub(super) async fn send(&mut self, to: &StoreEndpoint) -> Result<Totals, CopyError> {
        let new = Self::new(self.times);
        let Self {
            refused,
            series,
            samples,
            histograms,
            exemplars,
            metadata,
            starts_left_out,
            weight,
            ..
        } = std::mem::replace(self, new);
        let mut totals = Totals {
            refused: refused.len() as u64,
            reasons: refused.kept().iter().map(ToString::to_string).collect(),
            ..Totals::default()
        };
        if weight == 0 {
            return Ok(totals);
        }
        let sent = samples.len() + histograms.len() + exemplars.len() + metadata.len();
        let batch = WriteBatch {
            series: series.iter().zip(0..).map(|(series, index)| series.entry(index)).collect(),
            samples,
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
            starts_left_out,
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
