//! From the settings of a keyspace to findings: `spec`, and the compaction of its tables. Pure.

use crate::doctor::finding::{Finding, Fix};
use crate::doctor::kind::Kind;
use promkairos_kairos::{DataType, RowKey, RowSpec};

/// Judges a keyspace without `spec` by some of its columns.
pub(super) fn judge_spec(sample: &[(Vec<u8>, Vec<u8>)]) -> Option<Finding> {
    // Chance alone does not make this many offsets even.
    const ENOUGH: usize = 32;
    if sample.is_empty() {
        return None;
    }
    let (mut legacy, mut even, mut odd) = (0, 0, 0);
    for (key, column) in sample {
        let is_legacy = RowKey::decode(key).is_ok_and(|key| key.data_type == DataType::Legacy);
        match column.get(3) {
            _ if is_legacy => legacy += 1,
            Some(byte) if byte.is_multiple_of(2) => even += 1,
            _ => odd += 1,
        }
    }
    let (subject, fix) = if odd > 0 {
        let subject = "its columns are not those of LEGACY: write by hand what its writers used";
        (subject, None)
    } else if legacy > 0 || even >= ENOUGH {
        ("its columns are those of LEGACY", Some(Fix::WriteSpec(RowSpec::LEGACY)))
    } else {
        ("too few points to tell the unit: write by hand what its writers used", None)
    };
    let (metric, subject) = (String::new(), subject.to_owned());
    Some(Finding { kind: Kind::MissingSpec, metric, subject, fix })
}

/// What is wrong with the compaction of a table.
pub(super) fn judge_compaction(table: &str, options: &[(String, String)]) -> Option<Finding> {
    const RESOLUTION: &str = "timestamp_resolution";
    let get = |name: &str| options.iter().find(|(n, _)| n == name).map(|(_, value)| &**value);
    let class = get("class")?.rsplit('.').next()?;
    let by_time = ["TimeWindowCompactionStrategy", "DateTieredCompactionStrategy"];
    if !by_time.contains(&class) || get(RESOLUTION) == Some("MILLISECONDS") {
        return None;
    }
    let mut options: Vec<_> = options.iter().filter(|(n, _)| n != RESOLUTION).cloned().collect();
    options.push((RESOLUTION.into(), "MILLISECONDS".into()));
    let fix = Some(Fix::AlterCompaction { table: table.into(), options });
    let subject = format!("{table}: {class}");
    Some(Finding { kind: Kind::CompactionResolution, metric: String::new(), subject, fix })
}

#[cfg(test)]
mod tests {
    use super::*;
    use promkairos_kairos::{RowTime, Tags};

    fn key(data_type: DataType) -> RowKey {
        let tags = Tags::from_pairs([("host", "a")]).expect("one");
        RowKey { metric: "m".into(), row_time: RowTime::from_stored(0), data_type, tags }
    }

    #[test]
    fn spec_is_only_guessed_where_the_columns_say_so() {
        let typed = |offsets: &[u32]| {
            let key = key(DataType::Double).encode().expect("a key");
            let sample = offsets.iter().map(|offset| (key.clone(), offset.to_be_bytes().to_vec()));
            judge_spec(&sample.collect::<Vec<_>>()).map(|finding| finding.fix)
        };
        let even: Vec<u32> = (0..32).map(|n| n * 2).collect();
        let legacy = Some(Some(Fix::WriteSpec(RowSpec::LEGACY)));
        assert_eq!(typed(&[]), None);
        assert_eq!(typed(&even), legacy);
        assert_eq!(typed(&even[..31]), Some(None), "too few");
        assert_eq!(typed(&[&even[..], &[7]].concat()), Some(None));
        let old = key(DataType::Legacy).encode().expect("a key");
        assert_eq!(judge_spec(&[(old, vec![0, 0, 0, 1])]).map(|finding| finding.fix), legacy);
    }

    #[test]
    fn compaction_by_time_needs_milliseconds() {
        let judge = |options: &[(&str, &str)]| {
            let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            let options: Vec<_> = options.iter().map(own).collect();
            judge_compaction("t", &options).and_then(|finding| finding.fix)
        };
        let window = ("class", "org.apache.cassandra.db.compaction.TimeWindowCompactionStrategy");
        let resolution = |unit| ("timestamp_resolution", unit);
        assert_eq!(judge(&[("class", "SizeTieredCompactionStrategy")]), None);
        assert_eq!(judge(&[window, resolution("MILLISECONDS")]), None);
        for options in
            [&[window, ("a", "b")][..], &[window, resolution("MICROSECONDS"), ("a", "b")]]
        {
            let Some(Fix::AlterCompaction { table, options }) = judge(options) else {
                panic!("{options:?} is wrong")
            };
            let options: Vec<_> = options.iter().map(|(n, v)| (&**n, &**v)).collect();
            assert_eq!(
                (&*table, &options[1..]),
                ("t", &[("a", "b"), resolution("MILLISECONDS")][..])
            );
        }
    }
}
