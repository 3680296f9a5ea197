//! Metadata of metric families: type, help and unit, and the suffixes of their series names.

use std::collections::BTreeMap;

/// The type of a metric family, with the numbers of both remote-write protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum MetricType {
    /// Not given.
    #[default]
    Unknown = 0,
    /// Only rises, except for resets.
    Counter = 1,
    /// Goes up and down.
    Gauge = 2,
    /// Counts in buckets.
    Histogram = 3,
    /// Buckets that may fall.
    GaugeHistogram = 4,
    /// Quantiles computed by the client.
    Summary = 5,
    /// Constant 1 with labels.
    Info = 6,
    /// One series per state.
    StateSet = 7,
}

impl MetricType {
    /// All types by their numbers, with their names in the Prometheus HTTP API.
    const ALL: [(Self, &'static str); 8] = [
        (Self::Unknown, "unknown"),
        (Self::Counter, "counter"),
        (Self::Gauge, "gauge"),
        (Self::Histogram, "histogram"),
        (Self::GaugeHistogram, "gaugehistogram"),
        (Self::Summary, "summary"),
        (Self::Info, "info"),
        (Self::StateSet, "stateset"),
    ];

    /// The type with this wire number; unknown numbers are [`MetricType::Unknown`].
    pub fn from_number(number: u64) -> Self {
        let known = usize::try_from(number).ok().and_then(|number| Self::ALL.get(number));
        known.map_or(Self::Unknown, |(kind, _)| *kind)
    }

    /// The name in the Prometheus HTTP API.
    pub const fn as_str(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// The suffixes of the names of a family's series that are not native histograms, by the exposition formats of
    /// Prometheus and OpenMetrics; empty = a series has the name of its family.
    pub const fn parts(self) -> &'static [&'static str] {
        match self {
            Self::Histogram => &["_bucket", "_sum", "_count", "_created"],
            Self::GaugeHistogram => &["_bucket", "_sum", "_count", "_gsum", "_gcount"],
            Self::Summary => &["_sum", "_count", "_created"],
            Self::Info => &["_info"],
            // A counter is called `x_total` in one format, and `x` in the other.
            Self::Unknown | Self::Counter | Self::Gauge | Self::StateSet => &[],
        }
    }
}

/// Type, help and unit of a metric family. The last write wins.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Metadata {
    /// Its type.
    pub kind: MetricType,
    /// Help text; empty = none.
    pub help: String,
    /// Unit; empty = none.
    pub unit: String,
}

/// Replaces series names that were stored as families by their actual family. A name that may belong to a native
/// histogram stays: a histogram name is replaced only if the `_bucket` name of a classic histogram exists too.
pub fn with_parts_joined(all: BTreeMap<String, Metadata>) -> BTreeMap<String, Metadata> {
    let family = |name: &str, kind: MetricType| {
        let family = kind.parts().iter().find_map(|part| name.strip_suffix(part))?;
        let has_buckets = || all.contains_key(&format!("{family}_bucket"));
        let is_made_of_parts =
            matches!(kind, MetricType::Summary | MetricType::Info) || has_buckets();
        let is_part = !family.is_empty() && is_made_of_parts;
        is_part.then(|| family.to_owned())
    };
    let (mut families, mut parts) = (BTreeMap::new(), Vec::new());
    for (name, metadata) in &all {
        match family(name, metadata.kind) {
            Some(family) => parts.push((family, metadata.clone())),
            None => drop(families.insert(name.clone(), metadata.clone())),
        }
    }
    for (family, metadata) in parts {
        families.entry(family).or_insert(metadata);
    }
    families
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_joined_and_what_may_be_a_family_stays() {
        use MetricType::{Counter, Histogram, Info, Summary};
        let of = |names: &[(&str, MetricType, &str)]| -> BTreeMap<String, Metadata> {
            let entry = |&(name, kind, help): &(&str, MetricType, &str)| {
                (name.to_owned(), Metadata { kind, help: help.to_owned(), unit: String::new() })
            };
            names.iter().map(entry).collect()
        };
        let joined = with_parts_joined(of(&[
            ("a_bucket", Histogram, "a"),
            ("a_sum", Histogram, "a"),
            ("a_count", Histogram, "a"),
            // The family itself was stored too.
            ("b", Summary, "new"),
            ("b_sum", Summary, "old"),
            ("c_count", Summary, "c"),
            ("sheep_count", Counter, "sheep"),
            ("native_count", Histogram, "native"),
            ("build_info", Info, "build"),
            ("_sum", Summary, "nameless"),
        ]));
        let want = of(&[
            ("a", Histogram, "a"),
            ("b", Summary, "new"),
            ("c", Summary, "c"),
            ("sheep_count", Counter, "sheep"),
            ("native_count", Histogram, "native"),
            ("build", Info, "build"),
            ("_sum", Summary, "nameless"),
        ]);
        assert_eq!(joined, want);
    }
}
