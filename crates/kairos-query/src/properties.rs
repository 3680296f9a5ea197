//! Whatever a query says, and whatever the points are: no panic, and no more work than the limits allow.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::point::{GroupType, Point, Series, Tags, Value};
use crate::time::{self, Sampling, TimeUnit, Zone};
use crate::{Answer, Limits, QueryError, Saved, parse};

fn limits() -> Limits {
    Limits {
        max_gaps: 200,
        max_points_in_memory: 200,
        max_answer_bytes: 100_000,
        ..Limits::default()
    }
}

fn time() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => 1_711_000_000_000_i64..1_731_000_000_000,
        1 => any::<i64>(),
        1 => prop::sample::select(vec![i64::MIN, -1, 0, 1, i64::MAX]),
    ]
}

/// Any value.
fn anything() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "null",
        "true",
        "\"false\"",
        "[]",
        "{}",
        "\"\"",
        "\"DAYS\"",
        "[[]]",
        "[null]",
        "[1,2.5]",
        "{\"value\":1}",
        "\"NaN\"",
        "1e400",
        "-1",
        "0",
        "{\"h\":1}",
        "99999999999999999999",
    ]);
    prop_oneof![
        word.prop_map(str::to_owned),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| format!("\"{number}\"")),
    ]
}

/// A value that suits a property, mostly.
fn value(property: &str) -> BoxedStrategy<String> {
    let words = |words: &[&'static str]| {
        prop::sample::select(words.to_vec()).prop_map(str::to_owned).boxed()
    };
    let suits = match property {
        "sampling" | "range_size" | "start_relative" | "end_relative" => length().boxed(),
        "start_absolute" | "end_absolute" | "start_time" | "end_time" | "start_date" => {
            time().prop_map(|time| time.to_string()).boxed()
        }
        "time_zone" => words(&[
            "\"Europe/Berlin\"",
            "\"America/Havana\"",
            "\"-03:30\"",
            "\"\"",
            "\"Asia/Kabul\"",
        ]),
        "unit" => words(&["\"days\"", "\"MONTHS\"", "\"years\"", "\"seconds\"", "\"weeks\""]),
        "filter_op" => words(&["\"lt\"", "\"ne\"", "\"GTE\"", "\"equal\""]),
        "order" => words(&["\"desc\"", "\"asc\"", "\"descending\""]),
        "return_type" => words(&["\"pos_sd\"", "\"neg_sd\"", "\"value\""]),
        "trim" => words(&["\"both\"", "\"first\"", "\"last\"", "true"]),
        "thresholds" => {
            words(&["[{\"value\":1},{\"value\":1,\"boundary\":\"inferior\"},{}]", "[]"])
        }
        "bins" => words(&["[1,2.5,1e3]", "[0]", "[\"-3\",9e300]"]),
        "tags" => words(&["[\"h\",\"z\"]", "{\"h\":\"0\"}"]),
        "metric_name" => words(&["\"s\""]),
        "percentile" => words(&["0.5", "1", "\"0.999\""]),
        "limit" | "size" | "group_count" | "dev_count" | "cache_time" => words(&["1", "3", "7"]),
        "divisor" | "factor" | "threshold" => words(&["2", "-1e308", "0.1", "\"3\""]),
        _ => words(&["true", "false"]),
    };
    prop_oneof![19 => suits, 1 => anything()].boxed()
}

fn length() -> impl Strategy<Value = String> {
    let value = prop_oneof![6 => 1_i64..400, 1 => time(), 1 => Just(1_000_000)];
    (value, prop::sample::select(TimeUnit::ALL.map(TimeUnit::name).to_vec()))
        .prop_map(|(value, unit)| format!("{{\"value\":{value},\"unit\":\"{unit}\"}}"))
}

/// Properties with their values.
fn members(properties: Vec<&'static str>) -> impl Strategy<Value = String> {
    let members: Vec<_> = properties
        .into_iter()
        .map(|property| value(property).prop_map(move |value| format!(",\"{property}\":{value}")))
        .collect();
    members.prop_map(|members| members.concat())
}

/// An aggregator or a group-by: its required properties, and some of the others.
fn feature(classes: &'static [(&'static str, &'static [&'static str])]) -> BoxedStrategy<String> {
    prop::sample::select(classes)
        .prop_flat_map(|(name, properties)| {
            let some = prop::sample::subsequence(properties.to_vec(), 0..=properties.len());
            let required = required(name);
            some.prop_flat_map(move |mut some| {
                some.retain(|property| !required.contains(property));
                members([required, some.as_slice()].concat())
            })
            .prop_map(move |members| format!("{{\"name\":\"{name}\"{members}}}"))
        })
        .boxed()
}

fn required(name: &str) -> &'static [&'static str] {
    match name {
        "tag" => &["tags"],
        "time" => &["range_size", "group_count"],
        "bin" => &["bins"],
        "percentile" => &["percentile", "sampling"],
        "div" => &["divisor"],
        "filter" => &["filter_op"],
        "save_as" => &["metric_name"],
        "score" => &["thresholds"],
        "sma" => &["size"],
        _ => &[],
    }
}

const RANGE: &[&str] = &[
    "sampling",
    "align_start_time",
    "align_end_time",
    "align_sampling",
    "trim",
    "time_zone",
    "start_time",
    "end_time",
];
const AGGREGATORS: &[(&str, &[&str])] = &[
    ("avg", RANGE),
    ("count", RANGE),
    ("dev", &["sampling", "return_type", "dev_count"]),
    ("first", RANGE),
    ("gaps", RANGE),
    ("last", RANGE),
    ("least_squares", RANGE),
    ("max", RANGE),
    ("min", RANGE),
    ("sum", RANGE),
    ("percentile", RANGE),
    ("diff", &[]),
    ("div", &[]),
    ("filter", &["threshold"]),
    ("rate", &["sampling", "unit", "time_zone"]),
    ("sampler", &["unit", "time_zone"]),
    ("save_as", &["add_saved_from"]),
    ("scale", &["factor"]),
    ("score", &[]),
    ("sma", &[]),
    ("trim", &["trim"]),
];
const GROUP_BYS: &[(&str, &[&str])] = &[("tag", &[]), ("time", &["start_date"]), ("bin", &[])];

fn query() -> impl Strategy<Value = String> {
    let heads = ["start_relative", "end_absolute", "end_relative", "cache_time", "time_zone"];
    let own = ["limit", "order", "exclude_tags"];
    (
        time(),
        prop::sample::subsequence(heads.to_vec(), 0..3).prop_flat_map(members),
        prop::sample::subsequence(own.to_vec(), 0..=3).prop_flat_map(members),
        vec(feature(AGGREGATORS), 0..4),
        vec(feature(GROUP_BYS), 0..2),
    )
        .prop_map(|(start, heads, own, aggregators, group_by)| {
            let (aggregators, group_by) = (aggregators.join(","), group_by.join(","));
            format!(
                "{{\"start_absolute\":{start}{heads},\"metrics\":[{{\"name\":\"m\"{own},\
                 \"aggregators\":[{aggregators}],\"group_by\":[{group_by}]}}]}}"
            )
        })
}

fn stored_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::Long),
        (-9_i64..9).prop_map(Value::Long),
        any::<f64>().prop_map(Value::Double),
    ]
}

fn stored() -> impl Strategy<Value = Vec<(bool, Vec<(i64, Value)>)>> {
    vec((prop::bool::weighted(0.2), vec((time(), stored_value()), 0..30)), 0..4)
}

fn evaluate(
    text: &str,
    now: i64,
    stored: Vec<(bool, Vec<(i64, Value)>)>,
) -> Result<(Vec<u8>, Vec<Saved>), QueryError> {
    let limits = limits();
    let query = parse(text, now, &limits)?;
    let mut answer = Answer::new(&limits);
    let series = stored.into_iter().enumerate().map(|(at, (is_text, mut points))| {
        points.sort_by_key(|(time, _)| *time);
        let point = move |(time, value)| {
            let text = || Value::Text(Arc::from(format!("{value:?}")));
            Ok(Point { time, value: if is_text { text() } else { value } })
        };
        Ok(Series {
            tags: Tags::from([("h".to_owned(), at.to_string())]),
            group_type: if is_text { GroupType::Text } else { GroupType::Number },
            points: Box::new(points.into_iter().map(point)),
        })
    });
    let saved = answer.metric(&query.metrics[0], series)?;
    Ok((answer.finish(), saved))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn no_text_panics(text in "\\PC*", now in time()) {
        let _ = parse(&text, now, &limits());
    }

    #[test]
    fn no_query_panics(text in query(), now in time(), stored in stored()) {
        if let Ok((answer, saved)) = evaluate(&text, now, stored) {
            prop_assert!(answer.len() <= 100_100);
            prop_assert!(saved.iter().map(|saved| saved.points.len()).sum::<usize>() <= 200);
        }
    }

    /// One byte less is not a query, and not a panic.
    #[test]
    fn no_torn_query_panics(text in query(), at in any::<prop::sample::Index>(), now in time()) {
        let end = at.index(text.len());
        if let Some(torn) = text.get(..end) {
            prop_assert!(parse(torn, now, &limits()).is_err());
        }
    }

    /// Each point is in one range, and its range is the one that holds it.
    #[test]
    fn ranges_hold_their_points(
        start in time(),
        instant in time(),
        value in 1_i64..100,
        unit in prop::sample::select(TimeUnit::ALL.to_vec()),
    ) {
        // Near the ends of 64 bits ranges are cut.
        let within = |time: i64| time.clamp(-1 << 60, 1 << 60);
        let (start, instant) = (within(start), within(instant));
        let sampling = Sampling { value, unit };
        let start = time::align(unit, &Zone::UTC, start.min(instant));
        let (from, to) = time::ranges(sampling, &Zone::UTC, start, instant);
        prop_assert!(from <= instant && instant < to, "{from} {instant} {to}");
        prop_assert_eq!(time::ranges(sampling, &Zone::UTC, start, from), (from, to));
        prop_assert_eq!(time::ranges(sampling, &Zone::UTC, start, to).0, to);
    }

    /// The calendar of another library has the same days, months and years, where no day begins in a gap.
    #[test]
    fn ranges_are_those_of_the_calendar(
        start in 1_200_000_000_000_i64..1_900_000_000_000,
        after in 0_i64..300_000_000_000,
        id in prop::sample::select(vec!["UTC", "Europe/Berlin", "America/New_York", "Asia/Kabul"]),
    ) {
        let named = jiff::tz::TimeZoneDatabase::bundled().get(id).expect("a zone");
        let zone = Zone::parse(id).expect("a zone");
        let timestamp = jiff::Timestamp::from_millisecond(start + after).expect("in range");
        let day = timestamp.to_zoned(named).start_of_day().expect("a day");
        let expected = [
            (TimeUnit::Days, Ok(day.clone()), day.tomorrow()),
            (TimeUnit::Months, day.first_of_month(), day.last_of_month()),
            (TimeUnit::Years, day.first_of_year(), day.last_of_year()),
        ];
        for (unit, from, to) in expected {
            let to = if unit == TimeUnit::Days { to } else { to.and_then(|last| last.tomorrow()) };
            let millis = |day: Result<jiff::Zoned, jiff::Error>| {
                day.expect("a day").timestamp().as_millisecond()
            };
            let begin = time::align(unit, &zone, start);
            let range = time::ranges(Sampling { value: 1, unit }, &zone, begin, start + after);
            prop_assert_eq!(range, (millis(from), millis(to)), "{:?}", unit);
        }
    }

    /// The sum of the counts is the number of points, in any zone.
    #[test]
    fn every_point_is_counted_once(
        points in vec(time(), 1..40),
        value in 1_i64..50,
        unit in prop::sample::select(TimeUnit::ALL.map(TimeUnit::name).to_vec()),
        zone in prop::sample::select(vec!["UTC", "Europe/Berlin", "America/Havana", "Asia/Kabul"]),
    ) {
        let count = points.len();
        let point = |time: i64| (time.clamp(-1 << 62, 1 << 62), Value::Long(1));
        let stored = vec![(false, points.into_iter().map(point).collect())];
        let text = format!(
            "{{\"start_absolute\":1711000000000,\"time_zone\":\"{zone}\",\"metrics\":[{{\
             \"name\":\"m\",\"aggregators\":[{{\"name\":\"count\",\"sampling\":{{\
             \"value\":{value},\"unit\":\"{unit}\"}}}},{{\"name\":\"sum\",\"sampling\":{{\
             \"value\":900000000,\"unit\":\"years\"}},\"start_time\":-9000000000000000000}}]}}]}}"
        );
        let (answer, _) = evaluate(&text, 0, stored).expect("valid");
        let text = String::from_utf8(answer).expect("valid");
        let values = text.split("\"values\":[").nth(1).expect("valid");
        prop_assert!(values.contains(&format!(",{count}]]")), "{}", values);
    }
}
