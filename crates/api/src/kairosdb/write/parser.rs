//! The points of KairosDB's JSON as the pipeline sees them.
//!
//! A metric is a series: its name is the label `__name__`, and its tags are the other labels. An integer stays one.
//! What KairosDB takes and a store does not keep yet is refused with an error that says so: strings, and points with
//! a time to live.

use std::ops::{ControlFlow, Range};

use parking_lot::Mutex;

use promkairos_ingest::{ParseError, Parser, Scratch, Within};
use promkairos_kairos_write::{Answer, Errors, Metric, Status, Value, Visitor, parse_datapoints};
use promkairos_model::limits::{MAX_SAMPLES_PER_REQUEST, MAX_SERIES_PER_REQUEST};
use promkairos_model::{
    METRIC_NAME, RawLabels, RejectReason, Sample, SeriesEntry, Target, WriteBatch,
};

/// Memory of a request per byte of its JSON, of usual senders.
const EXPANSION: usize = 16;
/// Memory of a series without its labels, of a label without its text, and of a point: in lists that may be half empty,
/// and in the message for the log.
const SERIES_BYTES: usize = 256;
const LABEL_BYTES: usize = 128;
const SAMPLE_BYTES: usize = 128;

const NO_TTL: &str = "a ttl of points is not supported yet";
const NO_STRINGS: &str = "points of type string are not supported yet";

/// A request with points.
#[derive(Default)]
pub(super) struct Datapoints {
    answer: Mutex<Option<Answer>>,
}

impl Datapoints {
    /// What KairosDB would answer, once the request was parsed.
    pub(super) fn into_answer(self) -> Answer {
        let nothing = || Answer { status: Status::Stored, points: 0, errors: Errors::default() };
        self.answer.into_inner().unwrap_or_else(nothing)
    }
}

impl Parser for Datapoints {
    const REQUESTS: &'static str = "writes of KairosDB's API";

    fn parse<'a>(
        &self,
        body: &'a [u8],
        scratch: &'a mut Scratch,
        within: Within,
    ) -> Result<WriteBatch<'a>, ParseError> {
        scratch.labels.clear();
        let mut points = Points {
            labels: &mut scratch.labels,
            pairs: 0,
            series: Vec::new(),
            batch: WriteBatch::default(),
            within,
            metrics: 0,
            points: 0,
            has_ttl: false,
            beyond: None,
        };
        let answer = parse_datapoints(body, &mut points);
        let Points { series, mut batch, beyond, .. } = points;
        if let Some(beyond) = beyond {
            return Err(beyond);
        }
        *self.answer.lock() = Some(answer);
        let labels: &'a [u8] = &scratch.labels;
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

    fn expansion(&self) -> usize {
        EXPANSION
    }
}

/// Collects points.
struct Points<'b> {
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

impl Points<'_> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use promkairos_model::SampleTimes;

    /// A series as text, and its points.
    type Parsed = (String, Vec<(i64, f64)>);

    fn parse(body: &str) -> (Vec<Parsed>, Vec<(u32, i64)>, Answer) {
        let (parser, mut scratch) = (Datapoints::default(), Scratch::default());
        let within = Within { times: SampleTimes::ANY, bytes: usize::MAX };
        let batch = parser.parse(body.as_bytes(), &mut scratch, within).expect("within limits");
        let series = batch.series.iter().map(|series| {
            let labels = series.labels.describe();
            let own = &batch.samples[series.samples.start as usize..series.samples.end as usize];
            (labels, own.iter().map(|sample| (sample.timestamp, sample.value)).collect())
        });
        let (series, longs) = (series.collect(), batch.longs.clone());
        drop(batch);
        (series, longs, parser.into_answer())
    }

    #[test]
    fn integers_stay_integers_and_the_rest_is_stored() {
        let (series, longs, answer) = parse(
            r#"[{"name":"a","tags":{"h":"x"},"datapoints":[[1,9007199254740993],[2,0.5],[3,7]]},
                {"name":"b","tags":{"h":"x"},"timestamp":4,"value":"text"},
                {"name":"c","tags":{"h":"x"},"timestamp":5,"value":1,"ttl":60},
                {"name":"d","tags":{},"timestamp":6,"value":1},
                {"name":"e","tags":{"h":"x"},"timestamp":7,"value":-0.0}]"#,
        );
        let names: Vec<&str> = series.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, [r#"{__name__="a", h="x"}"#, r#"{__name__="e", h="x"}"#]);
        assert_eq!(series[0].1, [(1, 9_007_199_254_740_992.0), (2, 0.5), (3, 7.0)]);
        assert_eq!(longs, [(0, 9_007_199_254_740_993), (2, 7)]);
        assert!(series[1].1[0].1.is_sign_negative());
        assert_eq!((answer.status, answer.errors.texts().len()), (Status::Refused, 1));
    }
}
