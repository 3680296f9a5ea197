//! A protocol: `name{label="value"} value timestamp_ms`, one point a line. It has one parser and one renderer.

use promkairos::ingest::{ParseError, Parser, Refusal, Scratch, Within};
use promkairos::model::{RawLabels, Sample, SeriesEntry, Target, WriteBatch, WriteOutcome};

pub(super) struct Lines;

impl Parser for Lines {
    const REQUESTS: &'static str = "requests with lines";

    fn parse<'a>(
        &self,
        body: &'a [u8],
        scratch: &'a mut Scratch,
        within: Within,
    ) -> Result<WriteBatch<'a>, ParseError> {
        let malformed = || ParseError::Malformed("a line is not a series and a point".to_owned());
        let (mut batch, mut series, out) = (WriteBatch::default(), vec![], &mut scratch.labels);
        out.clear();
        for (index, line) in (0..).zip(std::str::from_utf8(body).map_err(|_| malformed())?.lines())
        {
            let start = out.len();
            let sample = point(line, out).ok_or_else(malformed)?;
            match within.times.check(sample.timestamp) {
                Ok(()) => series.push((index, start..out.len(), sample)),
                Err(why) => batch.rejections.push(Target::Sample(index), why, || line.to_owned()),
            }
        }
        for (at, (index, labels, sample)) in (0..).zip(series) {
            let (labels, samples) = (RawLabels(&out[labels]), at..at + 1);
            let (histograms, exemplars) = (0..0, 0..0);
            batch.series.push(SeriesEntry { labels, index, samples, histograms, exemplars });
            batch.samples.push(sample);
        }
        Ok(batch)
    }
}

/// Appends the labels of a line to `out`, and returns its point.
fn point(line: &str, out: &mut Vec<u8>) -> Option<Sample> {
    let (series, point) = line.rsplit_once("} ")?;
    let (metric, labels) = series.split_once('{')?;
    RawLabels::push(out, b"__name__", metric.as_bytes());
    for label in labels.split_terminator(',') {
        let (name, value) = label.split_once("=\"")?;
        RawLabels::push(out, name.as_bytes(), value.strip_suffix('"')?.as_bytes());
    }
    let (value, time) = point.split_once(' ')?;
    Some(Sample { timestamp: time.parse().ok()?, start_timestamp: 0, value: value.parse().ok()? })
}

/// One line: `OK`, `PARTLY`, `RETRY` or `ERROR`.
pub(super) fn answer(written: &Result<WriteOutcome, Refusal>) -> String {
    match written {
        Ok(written) if written.rejections.is_empty() => format!("OK {}", written.samples),
        Ok(written) => format!("PARTLY {}: {}", written.samples, written.rejections.kept()[0]),
        Err(why @ (Refusal::TooFast { .. } | Refusal::Store(_))) => format!("RETRY {why}"),
        Err(why) => format!("ERROR {why}"),
    }
}
