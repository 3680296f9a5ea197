//! Label sets that are hard to sort, for tests. Other crates include this file.

use proptest::prelude::*;

use super::Labels;

fn set(pairs: &[(&str, &str)]) -> Labels {
    Labels::from_pairs(pairs.iter().copied()).expect("valid")
}

/// Sets with few labels: some with zero bytes, some long, some with common prefixes.
pub(crate) fn sets() -> impl Strategy<Value = Vec<Labels>> {
    let name = prop_oneof![3 => "[a-c]{1,2}", 1 => "a{9,12}[ab]{0,2}"];
    let value =
        prop_oneof!["[ab]{1,3}", "a{6,9}[ab\\x00]{0,3}", "a{120,130}[ab]{1,12}", "(a|é){1,9}"];
    let pairs = prop::collection::btree_map(name, value, 0..5);
    let set = pairs.prop_map(|pairs| Labels::from_pairs(pairs).expect("valid"));
    prop::collection::vec(set, 0..60)
}

/// `count` label sets of a fleet, of which `distinct` are distinct; plus two shorter sets.
pub(crate) fn fleet(count: u32, distinct: u32) -> Vec<Labels> {
    let mut sets = Vec::new();
    for at in 0..count {
        let at = at.wrapping_mul(2_654_435_761) % distinct;
        let (name, instance) = (format!("metric_{}_total", at % 7), format!("host-{at}:9100"));
        sets.push(set(&[("__name__", &name), ("env", "prod"), ("instance", &instance)]));
    }
    sets.push(set(&[("__name__", "metric_3_total")]));
    sets.push(Labels::default());
    sets
}

/// Values that are each a prefix of the next one; and the same with zero bytes in reverse order.
pub(crate) fn ever_longer() -> [Vec<Labels>; 2] {
    let (value, zeros) = ("x".repeat(4000), "\0".repeat(100));
    [
        (1..400).map(|at| set(&[("a", &value[..at * 10])])).collect(),
        (1..100).rev().map(|at| set(&[("a", &zeros[..at])])).collect(),
    ]
}
