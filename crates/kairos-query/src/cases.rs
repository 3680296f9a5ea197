//! What was not asked of the real server: expected from the source of KairosDB 1.3.0, text for text.

use std::sync::Arc;

use crate::point::{GroupType, Point, Series, Tags, Value};
use crate::{Answer, Limits, Order, QueryError, Saved, Zone, parse, render_errors};

const NOW: i64 = 1_800_000_000_000;

fn tags(text: &str) -> Tags {
    let pairs = text.split_terminator(',').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// `tags: time value, time value`. Values with a point are doubles, those in quotes strings.
fn series(line: &str) -> Series<'static> {
    let (name, points) = line.split_once(": ").expect("valid");
    let point = |text: &str| {
        let (time, value) = text.trim().split_once(' ').expect("valid");
        let value = match value {
            text if text.starts_with('\'') => Value::Text(Arc::from(text.trim_matches('\''))),
            number if number.contains('.') => Value::Double(number.parse().expect("valid")),
            number => Value::Long(number.parse().expect("valid")),
        };
        Point { time: time.parse().expect("valid"), value }
    };
    let points: Vec<Point> = points.split(',').map(point).collect();
    let is_text = matches!(points[0].value, Value::Text(_));
    Series {
        tags: tags(name),
        group_type: if is_text { GroupType::Text } else { GroupType::Number },
        points: Box::new(points.into_iter().map(Ok)),
    }
}

fn evaluate(
    head: &str,
    metric: &str,
    stored: &[&str],
    limits: &Limits,
) -> Result<(String, Vec<Saved>), QueryError> {
    let text = format!(r#"{{{head},"metrics":[{{"name":"m"{metric}}}]}}"#);
    let query = parse(&text, NOW, limits)?;
    let mut answer = Answer::new(limits);
    let saved = answer.metric(&query.metrics[0], stored.iter().map(|line| Ok(series(line))))?;
    Ok((String::from_utf8(answer.finish()).expect("valid"), saved))
}

/// The results of a metric, without what is around them.
#[track_caller]
fn check(metric: &str, stored: &[&str], expected: &str) {
    let (text, _) =
        evaluate(r#""start_absolute":0"#, metric, stored, &Limits::default()).expect("valid");
    let samples: usize = stored.iter().map(|line| series(line).points.count()).sum();
    let around = format!(r#"{{"queries":[{{"sample_size":{samples},"results":["#);
    assert_eq!(text, format!("{around}{expected}]}}]}}"));
}

#[track_caller]
fn check_values(aggregators: &str, stored: &[&str], expected: &str) {
    let metric = format!(r#","exclude_tags":true,"aggregators":[{aggregators}]"#);
    let around = r#"{"name":"m","group_by":[{"name":"type","type":"number"}],"values":["#;
    check(&metric, stored, &format!("{around}{expected}]}}"));
}

#[track_caller]
fn check_error(head: &str, metric: &str, expected: &str) {
    let error =
        evaluate(head, metric, &["h=a: 0 1, 0 2"], &Limits::default()).expect_err("refused");
    let expected: Vec<String> = expected.split(" && ").map(str::to_owned).collect();
    assert_eq!(error.messages(), expected, "{metric}");
    assert_eq!(error.status(), 400);
}

#[test]
fn groups_have_numbers_and_what_they_have_in_common() {
    let stored = ["h=a: 0 1, 1000 5, 3000 9", "h=b: 500 -2.5"];
    check(
        r#","group_by":[{"name":"value","range_size":4}]"#,
        &stored,
        concat!(
            r#"{"name":"m","group_by":[{"name":"value","range_size":4,"group":{"group_number":0}},"#,
            r#"{"name":"type","type":"number"}],"tags":{"h":["a","b"]},"values":[[0,1],[500,-2.5]]},"#,
            r#"{"name":"m","group_by":[{"name":"value","range_size":4,"group":{"group_number":1}},"#,
            r#"{"name":"type","type":"number"}],"tags":{"h":["a","b"]},"values":[[1000,5]]},"#,
            r#"{"name":"m","group_by":[{"name":"value","range_size":4,"group":{"group_number":2}},"#,
            r#"{"name":"type","type":"number"}],"tags":{"h":["a","b"]},"values":[[3000,9]]}"#,
        ),
    );
    check(
        concat!(
            r#","group_by":[{"name":"tag","tags":["z","h"]},{"name":"bin","bins":[2,"5.5"]},"#,
            r#"{"name":"time","range_size":{"value":2,"unit":"seconds"},"group_count":2}],"#,
            r#""exclude_tags":true"#
        ),
        &["h=a: 0 1, 1000 5, 3000 9"],
        &[("0", "0", "[[0,1]]"), ("1", "0", "[[1000,5]]"), ("2", "1", "[[3000,9]]")]
            .map(|(bin, time, values)| {
                format!(
                    concat!(
                        r#"{{"name":"m","group_by":[{{"name":"bin","bins":[2,5.5],"group":{{"bin_number":{}}}}},"#,
                        r#"{{"name":"time","range_size":{{"value":2,"unit":"SECONDS"}},"group_count":2,"#,
                        r#""group":{{"group_number":{}}}}},{{"name":"tag","tags":["z","h"],"#,
                        r#""group":{{"z":"","h":"a"}}}},{{"name":"type","type":"number"}}],"values":{}}}"#,
                    ),
                    bin, time, values
                )
            })
            .join(","),
    );
}

#[test]
fn without_points_a_group_by_has_no_groups() {
    check(r#","group_by":[{"name":"value","range_size":4}]"#, &[], "");
    let nothing = r#"{"name":"m","tags":{},"values":[]}"#;
    check(r#","group_by":[{"name":"tag","tags":["h"]}]"#, &[], nothing);
}

#[test]
fn numbers_and_texts_are_two_groups_and_texts_pass_what_needs_numbers() {
    check(
        r#","exclude_tags":true,"aggregators":[{"name":"sum","sampling":{"value":1,"unit":"days"}}]"#,
        &["h=a: 5 'x', 6 'a\"b'", "h=a: 1 3, 2 4"],
        concat!(
            r#"{"name":"m","group_by":[{"name":"type","type":"number"}],"values":[[1,7]]},"#,
            r#"{"name":"m","group_by":[{"name":"type","type":"text"}],"values":[[5,"x"],[6,"a\"b"]]}"#,
        ),
    );
    check(
        concat!(
            r#","exclude_tags":true,"aggregators":[{"name":"count","sampling":{"value":1,"unit":"days"}},"#,
            r#"{"name":"div","divisor":4}]"#
        ),
        &["h=a: 5 'x', 6 'y'"],
        r#"{"name":"m","group_by":[{"name":"type","type":"text"}],"values":[[5,0.5]]}"#,
    );
}

#[test]
fn points_of_one_time_are_in_the_order_of_their_values() {
    check_values("", &["h=a: 1 5, 2 1", "h=b: 1 -3, 2 0.5"], "[1,-3],[1,5],[2,0.5],[2,1]");
    let (text, _) = evaluate(
        r#""start_absolute":0"#,
        r#","order":"DESC","exclude_tags":true"#,
        &["h=a: 2 1, 1 5", "h=b: 2 0.5, 1 -3"],
        &Limits::default(),
    )
    .expect("valid");
    assert!(text.contains(r#""values":[[2,1],[2,0.5],[1,5],[1,-3]]"#), "{text}");
}

#[test]
fn ranges_have_the_value_of_their_points() {
    let stored = ["h=a: 0 1, 1000 4, 2000 2, 6000 10"];
    let aggregate =
        |fields: &str| format!(r#"{{{fields},"sampling":{{"value":5,"unit":"seconds"}}}}"#);
    for (fields, expected) in [
        (r#""name":"first","align_end_time":true"#, "[5000,1],[10000,10]"),
        (r#""name":"last","align_start_time":true"#, "[0,2],[5000,10]"),
        (r#""name":"last""#, "[2000,2],[6000,10]"),
        (
            r#""name":"dev","return_type":"neg_sd","dev_count":2"#,
            "[0,-0.7217171299705591],[6000,10]",
        ),
        (r#""name":"least_squares""#, "[0,1.8333333333333333],[2000,2.833333333333333],[6000,10]"),
        (r#""name":"percentile","percentile":0.6"#, "[0,2.8],[6000,10]"),
        (r#""name":"count","start_time":1000,"align_sampling":false"#, "[0,3],[6000,1]"),
        (r#""name":"gaps","trim":true,"end_time":20000"#, "[0,1],[1000,4],[2000,2],[6000,10]"),
        (
            r#""name":"gaps","end_time":"15000""#,
            "[0,1],[1000,4],[2000,2],[6000,10],[10000,null],[15000,null]",
        ),
    ] {
        check_values(&aggregate(fields), &stored, expected);
    }
}

#[test]
fn a_percentile_is_exact_over_many_points() {
    let points: Vec<String> = (0..5_000).map(|i| format!("{i} {}", (i * 7_919) % 5_000)).collect();
    let line = format!("h=a: {}", points.join(", "));
    check_values(
        r#"{"name":"percentile","percentile":0.95,"sampling":{"value":1,"unit":"days"}}"#,
        &[&line],
        "[0,4749.95]",
    );
}

#[test]
fn values_change_one_by_one() {
    let stored = ["h=a: 0 1, 1000 4, 3000 2, 4000 10"];
    for (aggregator, expected) in [
        (r#"{"name":"sma","size":3}"#, "[3000,2.3333333333333335],[4000,5.333333333333333]"),
        (r#"{"name":"sma","size":9}"#, ""),
        (r#"{"name":"trim","trim":"FIRST"}"#, "[1000,4],[3000,2],[4000,10]"),
        (r#"{"name":"trim","trim":"last"}"#, "[0,1],[1000,4],[3000,2]"),
        (r#"{"name":"trim"}"#, "[0,1],[1000,4],[3000,2],[4000,10]"),
        (r#"{"name":"filter","filter_op":"EQUAL","threshold":4}"#, "[0,1],[3000,2],[4000,10]"),
        (r#"{"name":"filter","filter_op":"gt","threshold":"4"}"#, ""),
        (
            r#"{"name":"rate","sampling":{"value":1,"unit":"days"}}"#,
            "[1000,259200],[3000,-86400],[4000,691200]",
        ),
        (
            r#"{"name":"score","thresholds":[{"value":4,"boundary":"inferior"},{"value":1}]}"#,
            "[0,0],[1000,2],[3000,1],[4000,2]",
        ),
        (r#"{"name":"scale"}"#, "[0,0],[1000,0],[3000,0],[4000,0]"),
    ] {
        check_values(aggregator, &stored, expected);
    }
}

#[test]
fn points_that_are_saved_go_on() {
    let metric = concat!(
        r#","group_by":[{"name":"tag","tags":["dc","h"]}],"aggregators":["#,
        r#"{"name":"save_as","metric_name":"s","tags":{"x":"y"},"ttl":60},{"name":"scale","factor":2}]"#
    );
    let (text, saved) = evaluate(
        r#""start_absolute":0"#,
        metric,
        &["dc=1,h=a: 1 5", "dc=1,h=b: 1 6.5"],
        &Limits::default(),
    )
    .expect("valid");
    assert!(text.contains("[[1,10]]") && text.contains("[[1,13]]"));
    let expected = |tags_of: &str, value| Saved {
        metric_name: "s".into(),
        tags: tags(tags_of),
        ttl: 60,
        points: vec![Point { time: 1, value }],
    };
    assert_eq!(
        saved,
        [
            expected("dc=1,h=a,saved_from=m,x=y", Value::Long(5)),
            expected("dc=1,h=b,saved_from=m,x=y", Value::Double(6.5)),
        ]
    );
}

#[test]
fn days_of_a_zone_have_23_and_25_hours() {
    let head = r#""start_absolute":1711753200000,"time_zone":"Europe/Berlin""#;
    let days = r#"{"name":"count","align_start_time":true,"sampling":{"value":1,"unit":"days"}}"#;
    let hours: Vec<String> =
        (0..72).map(|hour| format!("{} 1", 1_711_753_200_000_i64 + hour * 3_600_000)).collect();
    let line = format!("h=a: {}", hours.join(","));
    let metric = format!(r#","aggregators":[{days}]"#);
    let (text, _) = evaluate(head, &metric, &[&line], &Limits::default()).expect("valid");
    let expected = "[[1711753200000,24],[1711839600000,23],[1711922400000,24],[1712008800000,1]]";
    assert!(text.contains(expected), "{text}");
}

/// What is wrong with a metric, and KairosDB's text.
const WRONG: &[(&str, &str)] = &[
    (r#","name":"""#, "query.metric[0].name may not be empty"),
    (r#","tags":{"a":["b",null]}"#, "query.metric[0].tags[0].a value must not be null or empty"),
    (r#","tags":{"":"b"}"#, "query.metric[0].tags[0] name must not be empty"),
    (r#","tags":[]"#, "java.lang.IllegalStateException: Not a JSON Object: []"),
    (r#","group_by":[{}]"#, "query.metric[0].group_by[0] must have a name"),
    (
        r#","group_by":[{"name":"value"}]"#,
        "query.metric[0].group_by[0].rangeSize must be greater than or equal to 1",
    ),
    (
        r#","group_by":[{"name":"time","group_count":1}]"#,
        "query.metric[0].group_by[0].rangeSize may not be null",
    ),
    (
        r#","group_by":[{"name":"time","range_size":{"value":-1}}]"#,
        "query.metric[0].group_by[0].range_size.value must be greater than or equal to 0 && \
                 query.metric[0].group_by[0].range_size.unit may not be null",
    ),
    (r#","group_by":[{"name":"bin"}]"#, "query.metric[0].group_by[0].bins may not be null"),
    (
        r#","group_by":[{"name":"tag","tag":["h"]}]"#,
        "Property 'tag' was specified for object 'tag' but no matching setter was found on \
             'class org.kairosdb.core.groupby.TagGroupBy'",
    ),
    (r#","aggregators":{}"#, "This is not a JSON Array."),
    (
        r#","aggregators":[{"name":"nope"},{}]"#,
        "query.metric[0].aggregators[0].nope invalid aggregators name",
    ),
    (
        r#","aggregators":[{"name":"div","divisor":"x"}]"#,
        "query.metric[0].aggregators[0].divisor For input string: \"x\"",
    ),
    (
        r#","aggregators":[{"name":"avg","align_sampling":[]}]"#,
        "java.lang.IllegalStateException: Expected BOOLEAN but was BEGIN_ARRAY",
    ),
    (
        r#","aggregators":[{"name":"trim","trim":"none"}]"#,
        "query.metric[0].aggregators[0].none is not a valid trim type, must be 'first', 'last' or 'both'.",
    ),
    (
        r#","aggregators":[{"name":"score"}]"#,
        "query.metric[0].aggregators[0].thresholds may not be null",
    ),
    (
        r#","aggregators":[{"name":"sma"}]"#,
        "query.metric[0].aggregators[0].size must be greater than or equal to 1",
    ),
    (
        r#","aggregators":[{"name":"percentile","percentile":1.5}]"#,
        "query.metric[0].aggregators[0].percentile 1.5 is not in [0..1]",
    ),
    (
        r#","aggregators":[{"name":"rate"}]"#,
        "The rate aggregator cannot compute rate for data points with the same time stamp.  \
             You must precede rate with another aggregator.",
    ),
    (
        r#","aggregators":[{"name":"gaps"},{"name":"sum"}]"#,
        "No aggregator can be chained after \
             org.kairosdb.core.aggregator.DataGapsMarkingAggregator",
    ),
    (r#","limit":"x""#, "For input string: \"x\""),
];

#[test]
fn what_is_wrong_is_said_as_kairosdb_says_it() {
    let head = r#""start_absolute":0"#;
    for (metric, expected) in WRONG {
        check_error(head, metric, expected);
    }
    let head = r#""start_relative":{"value":-1},"cache_time":-1"#;
    check_error(
        head,
        "",
        "cache_time must be greater than or equal to 0 && start_relative.value must be greater \
         than or equal to 0 && start_relative.unit may not be null",
    );
    check_error(
        r#""start_absolute":0,"plugins":[{"name":"x"}]"#,
        "",
        ".plugins[0].x invalid query plugin name",
    );
    check_error(r#""start_absolute":0,"plugins":[{}]"#, "", "plugins[0] must have a name");
    assert_eq!(render_errors(&["a\"".into(), "b".into()]), br#"{"errors":["a\"","b"]}"#);
}

#[test]
fn a_plan_has_absolute_times_and_defaults() {
    let text = concat!(
        r#"{"start_relative":{"value":"2","unit":"Months"},"cache_time":"7","#,
        r#""metrics":[{"name":5,"limit":-1,"order":"desc","tags":{"b":"x","a":["regex:y",1]}}]}"#
    );
    // 2024-03-31T00:00:00Z, so two months earlier is 2024-01-31.
    let query = parse(text, 1_711_843_200_000, &Limits::default()).expect("valid");
    let metric = &query.metrics[0];
    assert_eq!((query.cache_time, metric.name.as_str(), metric.limit), (7, "5", None));
    assert_eq!(
        (metric.start, metric.end, metric.order),
        (1_706_659_200_000, i64::MAX, Order::Descending)
    );
    let names: Vec<&str> = metric.tags.iter().map(|tag| tag.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(Zone::UTC, Zone::Fixed(0));
}

#[test]
fn a_number_that_java_refuses_is_0() {
    for exponent in ["999999999999999999999", "-999999999999999999999"] {
        let text = format!(r#"{{"start_absolute":1e{exponent},"metrics":[{{"name":"m"}}]}}"#);
        assert_eq!(parse(&text, NOW, &Limits::default()).expect("valid").metrics[0].start, 0);
    }
}

/// A metric, how many series there are, and which limit it exceeds.
const LIMITED: &[(&str, usize, &str)] = &[
    (r#","aggregators":[{"name":"gaps"}]"#, 0, "gaps: more than 10, which is the limit max_gaps"),
    (
        r#","aggregators":[{"name":"percentile","percentile":0.5,"sampling":{"value":1,"unit":"days"}}]"#,
        3,
        "points in memory: more than 3, which is the limit max_points_in_memory",
    ),
    (
        r#","group_by":[{"name":"bin","bins":[9]}]"#,
        3,
        "points in memory: more than 3, which is the limit max_points_in_memory",
    ),
    (
        r#","group_by":[{"name":"tag","tags":["h"]}]"#,
        3,
        "groups: more than 2, which is the limit max_groups",
    ),
    (
        r#","group_by":[{"name":"value","range_size":1}]"#,
        3,
        "groups: more than 2, which is the limit max_groups",
    ),
    ("", 3, "bytes of the answer: more than 100, which is the limit max_answer_bytes"),
    (
        r#","aggregators":[{"name":"a"},{"name":"a"},{"name":"a"}]"#,
        3,
        "aggregators: more than 2, which is the limit max_aggregators",
    ),
    (r#","group_by":[1,2]"#, 3, "group_by: more than 1, which is the limit max_group_by"),
    (
        r#","aggregators":[{"name":"sma","size":6}]"#,
        3,
        "size of sma: more than 5, which is the limit max_sma_size",
    ),
];

#[test]
fn limits_are_named() {
    let limits = Limits {
        max_gaps: 10,
        max_points_in_memory: 3,
        max_groups: 2,
        max_aggregators: 2,
        max_group_by: 1,
        max_sma_size: 5,
        ..Limits::default()
    };
    let stored = ["h=a: 0 1, 1 2, 2 3, 3 4", "h=b: 5 1", "h=c: 6 1"];
    for (metric, series, limit) in LIMITED {
        let limits = Limits {
            max_answer_bytes: if metric.is_empty() { 100 } else { 10_000 },
            ..limits.clone()
        };
        let error = evaluate(r#""start_absolute":0"#, metric, &stored[..*series], &limits)
            .expect_err("refused");
        assert_eq!(error.to_string(), *limit);
    }
}

/// Stop at once: a million years are as long as a day.
#[test]
fn ranges_of_a_million_years_cost_no_more_than_the_limits() {
    let limits = Limits { max_gaps: 1_000, ..Limits::default() };
    for zone in ["UTC", "America/New_York"] {
        let head =
            format!(r#""start_relative":{{"value":1000000,"unit":"years"}},"time_zone":"{zone}""#);
        for unit in ["milliseconds", "seconds", "hours", "days", "weeks", "months", "years"] {
            let sampling = format!(r#""sampling":{{"value":1,"unit":"{unit}"}}"#);
            let gaps = format!(r#","aggregators":[{{"name":"gaps",{sampling}}}]"#);
            let error = evaluate(&head, &gaps, &["h=a: 0 1"], &limits).expect_err("refused");
            assert_eq!(error.to_string(), "gaps: more than 1000, which is the limit max_gaps");
            let sum = format!(r#","aggregators":[{{"name":"sum",{sampling}}}]"#);
            let (text, _) =
                evaluate(&head, &sum, &["h=a: 0 1, 40000000000 2"], &limits).expect("valid");
            assert!(text.contains("[[0,1],[40000000000,2]]"), "{unit}: {text}");
        }
    }
}
