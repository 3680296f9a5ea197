//! KairosDB's points as a batch of the pipeline.
//!
//! A metric is a series: its name is the label `__name__`, and its tags are the other labels. An integer stays one.
//! What KairosDB takes and a store does not keep yet is refused with an error that says so: strings, and points with
//! a time to live.

use std::ops::{ControlFlow, Range};

use promkairos_ingest::{ParseError, Scratch, Within};
use promkairos_kairos_write::{Metric, Value, Visitor};
use promkairos_model::limits::{MAX_SAMPLES_PER_REQUEST, MAX_SERIES_PER_REQUEST};
use promkairos_model::{
    METRIC_NAME, RawLabels, RejectReason, Sample, SeriesEntry, Target, WriteBatch,
};

/// Memory of a series without its labels, of a label without its text, and of a point: in lists that may be half empty,
/// and in the message for the log.
const SERIES_BYTES: usize = 256;
const LABEL_BYTES: usize = 128;
const SAMPLE_BYTES: usize = 128;

const NO_TTL: &str = "a ttl of points is not supported yet";
const NO_STRINGS: &str = "points of type string are not supported yet";

/// Collects the points of one request.
pub(super) struct Points<'b> {
    labels: &'b mut Vec<u8>,
    /// Labels so far.
    pairs: usize,
    /// Position among the metrics, labels, and samples.
    series: Vec<(u32, Range<usize>, Range<u32>)>,
    batch: WriteBatch<'static>,
    within: Within,
    /// Metrics and points so far.
    metrics: u32,
    points: u32,
    /// Of the current metric.
    has_ttl: bool,
    beyond: Option<ParseError>,
}

impl<'b> Points<'b> {
    /// No points yet. Label sets are kept in `scratch`.
    pub(super) fn new(scratch: &'b mut Scratch, within: Within) -> Self {
        let labels = &mut scratch.labels;
        labels.clear();
        Self {
            labels,
            pairs: 0,
            series: Vec::new(),
            batch: WriteBatch::default(),
            within,
            metrics: 0,
            points: 0,
            has_ttl: false,
            beyond: None,
        }
    }

    /// The batch, or the limit that the request is beyond.
    pub(super) fn into_batch(self) -> Result<WriteBatch<'b>, ParseError> {
        let Self { labels, series, batch, beyond, .. } = self;
        if let Some(beyond) = beyond {
            return Err(beyond);
        }
        let labels: &'b [u8] = labels;
        let mut batch: WriteBatch<'b> = batch;
        let series = series.into_iter().filter(|(_, _, samples)| !samples.is_empty());
        batch.series.extend(series.map(|(index, own, samples)| SeriesEntry {
            labels: RawLabels(&labels[own]),
            index,
            samples,
            histograms: 0..0,
            exemplars: 0..0,
        }));
        Ok(batch)
    }

    fn stop(&mut self, beyond: ParseError) -> ControlFlow<()> {
        self.beyond = Some(beyond);
        ControlFlow::Break(())
    }

    /// Goes on unless the batch takes too much memory: by itself, and encoded for the log.
    fn check_bytes(&mut self) -> ControlFlow<()> {
        let bytes = self.series.len() * SERIES_BYTES
            + self.pairs * LABEL_BYTES
            + 3 * self.labels.len()
            + self.batch.samples.len() * SAMPLE_BYTES;
        if bytes > self.within.bytes {
            return self.stop(ParseError::Expands(self.within.bytes));
        }
        ControlFlow::Continue(())
    }

    /// The sample of a point, and the integer that it is.
    fn sample(&self, time: i64, value: Value<'_>) -> Result<(Sample, Option<i64>), RejectReason> {
        self.within.times.check(time)?;
        if self.has_ttl {
            return Err(RejectReason::Store(NO_TTL.into()));
        }
        let (value, long) = match value {
            Value::Long(long) => (long as f64, Some(long)),
            Value::Double(double) => (double, None),
            Value::String(_) => return Err(RejectReason::Store(NO_STRINGS.into())),
        };
        Ok((Sample { timestamp: time, start_timestamp: 0, value }, long))
    }
}

impl<'a> Visitor<'a> for Points<'_> {
    fn metric(&mut self, metric: &Metric<'a>) -> ControlFlow<()> {
        if self.metrics as usize == MAX_SERIES_PER_REQUEST {
            return self.stop(ParseError::TooManySeries(MAX_SERIES_PER_REQUEST));
        }
        self.has_ttl = metric.ttl != 0;
        let start = self.labels.len();
        RawLabels::push(self.labels, METRIC_NAME.as_bytes(), metric.name.as_bytes());
        for (name, value) in metric.pairs() {
            RawLabels::push(self.labels, name.as_bytes(), value.as_bytes());
        }
        self.pairs += 1 + metric.tags.len();
        let samples = self.batch.samples.len() as u32;
        self.series.push((self.metrics, start..self.labels.len(), samples..samples));
        self.metrics += 1;
        self.check_bytes()
    }

    fn point(&mut self, time: i64, value: Value<'a>) -> ControlFlow<()> {
        if self.points as usize == MAX_SAMPLES_PER_REQUEST {
            return self.stop(ParseError::TooManySamples(MAX_SAMPLES_PER_REQUEST));
        }
        let number = self.points;
        self.points += 1;
        let sample = self.sample(time, value);
        let Some((_, own, samples)) = self.series.last_mut() else {
            return ControlFlow::Continue(());
        };
        match sample {
            Ok((sample, long)) => {
                let at = self.batch.samples.len() as u32;
                self.batch.longs.extend(long.map(|long| (at, long)));
                self.batch.samples.push(sample);
                samples.end = at + 1;
                self.check_bytes()
            }
            Err(why) => {
                let describe = || RawLabels(&self.labels[own.clone()]).describe();
                self.batch.rejections.push(Target::Sample(number), why, describe);
                ControlFlow::Continue(())
            }
        }
    }
}
