//! The parser of KairosDB's JSON for the pipeline.

use parking_lot::Mutex;

use super::super::points::Points;
use promkairos_ingest::{ParseError, Parser, Scratch, Within};
use promkairos_kairos_write::{Answer, Errors, Status, parse_datapoints};
use promkairos_model::WriteBatch;

/// Memory of a request per byte of its JSON, of usual senders.
const EXPANSION: usize = 16;

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
        let mut points = Points::new(scratch, within);
        let answer = parse_datapoints(body, &mut points);
        let batch = points.into_batch()?;
        *self.answer.lock() = Some(answer);
        Ok(batch)
    }

    fn expansion(&self) -> usize {
        EXPANSION
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
