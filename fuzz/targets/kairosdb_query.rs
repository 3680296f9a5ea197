//! A query in KairosDB's language: it is refused with texts, or evaluated within small limits. Either way the answer is
//! JSON, and reports of memory stay below the limits.

use promkairos::kairos_query::{
    Answer, GroupType, Limits, MetricQuery, Order, Point, QueryError, Series, TagMatcher, Tags,
    Value, parse, render_errors,
};

const NOW: i64 = 1_700_000_000_000;
const DAY: i64 = 86_400_000;

pub(crate) fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let limits = Limits {
        max_gaps: 500,
        max_groups: 50,
        max_points_in_memory: 500,
        max_answer_bytes: 100_000,
        ..Limits::default()
    };
    let answered = parse(&text, NOW, &limits).and_then(|query| {
        let cover = |bytes| match bytes > 1 << 20 {
            true => panic!("{bytes} bytes"),
            false => Ok(()),
        };
        let mut answer = Answer::new(&limits).counted(cover);
        for metric in &query.metrics {
            append(metric, &mut answer)?;
        }
        Ok(answer.finish())
    });
    let answer = answered.unwrap_or_else(|error| {
        assert!((400..500).contains(&error.status()), "{error}");
        assert!(error.messages().iter().any(|message| !message.is_empty()), "{error:?}");
        render_errors(&error.messages())
    });
    serde_json::from_slice::<serde_json::Value>(&answer).expect("JSON");
}

/// Four series: numbers around two changes of a clock, a number at the ends of time, and a text.
fn append(metric: &MetricQuery, answer: &mut Answer<'_>) -> Result<(), QueryError> {
    let filters = TagMatcher::new(&metric.tags)?;
    let points = |host: i64| -> Vec<Point> {
        let value = |at: i64| match host {
            0 => Value::Long(at - 5),
            1 => Value::Double(at as f64 / 4.0),
            2 => Value::Double(f64::NAN),
            _ => Value::Text(format!("{at}").into()),
        };
        let time = |at: i64| if host == 2 { i64::MIN + at } else { NOW - at * 9 * DAY };
        let mut points: Vec<Point> =
            (0..20).map(|at| Point { time: time(at), value: value(at) }).collect();
        points.retain(|point| (metric.start..=metric.end).contains(&point.time));
        points.sort_by_key(|point| point.time);
        if metric.order == Order::Descending {
            points.reverse();
        }
        points
    };
    let series = (0..4).filter_map(|host| {
        let tags = Tags::from([("h".to_owned(), host.to_string())]);
        let is_meant = filters.matches(|name| tags.get(name).map(String::as_str));
        let group_type = if host == 3 { GroupType::Text } else { GroupType::Number };
        let points = Box::new(points(host).into_iter().map(Ok));
        is_meant.then(|| Ok(Series { tags: tags.clone(), group_type, points }))
    });
    answer.metric(metric, series)?;
    answer.tags(metric, [Tags::new()])
}
