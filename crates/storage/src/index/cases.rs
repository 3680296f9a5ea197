//! Series and matchers that the tests of all indexes share.
//!
//! Some labels have few values, others have one value for each series. So the matchers test labels
//! with fewer values than series that are left, and labels with more.

use proptest::prelude::*;
use roaring::RoaringBitmap;

use promkairos_model::{Labels, MatchOp, Matcher};

const VALUES: [&str; 8] = ["", "a", "ab", "abc", "b", "bc", "é", "a\nb"];

/// Sorted label sets. A hundred series share a metric; each has a host of its own; racks have 150 values.
pub(crate) fn sets(count: usize) -> Vec<Labels> {
    let set = |n: usize| {
        let pairs = [
            ("__name__", format!("metric_{}", n / 100)),
            ("host", format!("host-{n:05}-with-a-long-name")),
            ("rack", format!("r{}", n % 150)),
            ("x", VALUES[n % 8].into()),
            ("y", VALUES[n / 3 % 8].into()),
            ("zone", if n.is_multiple_of(7) { String::new() } else { "north".into() }),
        ];
        Labels::from_pairs(pairs).expect("valid labels")
    };
    let mut sets: Vec<Labels> = (0..count).map(set).collect();
    sets.sort();
    sets
}

/// A matcher of one of these labels, or of a label that no series has.
pub(crate) fn matcher() -> impl Strategy<Value = Matcher> {
    let of = |name: &'static str, values: &'static [&'static str]| {
        (Just(name), prop::sample::select(values))
    };
    let literals = prop_oneof![
        of("__name__", &["metric_0", "metric_1", "metric_17", ""]),
        of("host", &["host-00007-with-a-long-name", "host-01234-with-a-long-name", "h", ""]),
        of("rack", &["r0", "r7", "r149", "r150", ""]),
        of("x", &VALUES),
        of("y", &VALUES),
        of("zone", &["north", "south", ""]),
        of("absent", &["a", ""]),
    ];
    let patterns = prop_oneof![
        of("__name__", &["metric_1.*", ".*_[02]", "metric_(0|12)", ".+"]),
        of("host", &["host-000.*", ".*[37]-with.*", "host-0(0012|1[0-9]+)-.*", ".*", ".+", "x|"]),
        of("rack", &["r1|r149|r7.?", "r.*5", ".*[02468]", "r1.", ".+", ""]),
        of("x", &["", ".*", ".+", "a", "a|b", "a|", "ab?", "a.*", "ab.*|b", ".b.*", "é|x"]),
        of("y", &["b.?", "[ab]+", "nothing", "(a|ab)c?", "[^b]*", "a.*"]),
        of("zone", &["n.*", "north|", ".*th", ""]),
        of("absent", &["a.*", ".*", ".+", "a|"]),
    ];
    let by_literal = prop::sample::select(&[MatchOp::Equal, MatchOp::NotEqual][..]);
    let by_pattern = prop::sample::select(&[MatchOp::Regex, MatchOp::NotRegex][..]);
    prop_oneof![(by_literal, literals), (by_pattern, patterns)].prop_map(|(op, (name, value))| {
        Matcher::new(op, name, value).expect("the patterns are valid")
    })
}

/// The series that match, found by testing each series.
pub(crate) fn matching(sets: &[Labels], matchers: &[Matcher]) -> RoaringBitmap {
    (0..).zip(sets).filter(|(_, set)| Matcher::all_match(matchers, set)).map(|(id, _)| id).collect()
}
