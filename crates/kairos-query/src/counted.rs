//! What an evaluation reports to its caller while it runs: the bytes that it holds, and that it still runs.

use crate::{Answer, GroupType, Limits, Point, QueryError, Series, Tags, Value, parse};

const NOW: i64 = 1_700_000_000_000;

/// The bytes that are reported for a metric over series of 1,000 points each, until one report is refused.
fn reported(metric: &str, hosts: u32, refused: usize) -> (Vec<usize>, bool) {
    let text = format!(r#"{{"start_absolute":0,"metrics":[{{"name":"m"{metric}}}]}}"#);
    let limits = Limits::default();
    let query = parse(&text, NOW, &limits).expect("valid");
    let mut reports = Vec::new();
    let mut answer = Answer::new(&limits).counted(|bytes| {
        reports.push(bytes);
        match reports.len() == refused {
            true => Err(QueryError::Evaluation("nobody waits".into())),
            false => Ok(()),
        }
    });
    let series = (0..hosts).map(|host| {
        let point = move |time| Ok(Point { time, value: Value::Double((time % 500) as f64) });
        Ok(Series {
            tags: Tags::from([("host".to_owned(), format!("{host:0>900}"))]),
            group_type: GroupType::Number,
            points: Box::new((0..1_000).map(point)),
        })
    });
    let done = answer.metric(&query.metrics[0], series).is_ok();
    drop(answer);
    (reports, done)
}

#[test]
fn an_evaluation_that_gives_no_point_can_be_ended() {
    let nothing = r#","aggregators":[{"name":"filter","filter_op":"gte","threshold":-1}]"#;
    let by_value = r#","group_by":[{"name":"value","range_size":100}]"#;
    for metric in [nothing.to_owned(), format!("{by_value}{nothing}")] {
        let (reports, done) = reported(&metric, 1, usize::MAX);
        assert!(done && reports.len() >= 1_000 / 64, "{metric}: {reports:?}");
        let (reports, done) = reported(&metric, 1, 5);
        assert!(!done && reports.len() == 5, "{metric}: {reports:?}");
    }
}

#[test]
fn tags_are_counted_once_however_many_groups_have_them() {
    let most = |metric| reported(metric, 40, usize::MAX).0.into_iter().max();
    let excluded = r#","exclude_tags":true,"limit":500,"aggregators":[{"name":"count"}]"#;
    let one = most(excluded).expect("reported");
    let groups = format!(r#"{excluded},"group_by":[{{"name":"value","range_size":1}}]"#);
    let many = most(&groups).expect("reported");
    // 40 values of 900 bytes in one copy, and 500 groups without another.
    assert!(one > 2 * 40 * 900 && many < one + 4_000_000, "{one} {many}");
}
