//! The data types that all other crates share: labels, matchers, samples, histograms, exemplars,
//! metadata, time ranges and batches of writes. Also what many of them need: [`limits`] and [`Cache`], the map of the
//! large caches in memory.
//!
//! Values here are valid by construction. No I/O, no serde, no protobuf types.

mod batch;
mod cache;
mod exemplar;
mod histogram;
mod label;
#[cfg(test)]
mod label_cases;
pub mod label_groups;
mod label_order;
mod label_sort;
mod label_subset;
mod label_texts;
mod labels;
pub mod limits;
mod matcher;
mod metadata;
mod pattern;
mod pattern_cache;
mod pattern_set;
mod printable;
mod re2;
mod sample;
mod sample_times;
mod secret;
mod shown;
mod shown_units;
mod stale;
mod time;
pub mod varint;

pub use batch::{
    Body, ExemplarEntry, HistogramSample, MAX_SAMPLE_LEAD, MetadataEntry, Protocol, Reject,
    RejectReason, Rejections, SeriesEntry, Target, WriteBatch, WriteOutcome, positions,
    samples_with_longs,
};
pub use cache::Cache;
pub use exemplar::Exemplar;
pub use histogram::{
    CUSTOM_BUCKETS_SCHEMA, Counts, Histogram, HistogramError, ResetHint, Span, counts_of,
};
pub use label::{Label, LabelRef};
pub use label_order::same_bytes;
pub use label_sort::{sorted_by_labels, sorted_places};
pub use label_texts::{LabelPlace, LabelTexts};
pub use labels::{
    LabelError, LabelLimits, Labels, LabelsRef, METRIC_NAME, METRIC_TYPE, METRIC_UNIT, RawLabels,
};
pub use matcher::{MatchOp, Matcher};
pub use metadata::{Metadata, MetricType, with_parts_joined};
pub use pattern_cache::PatternCache;
pub use pattern_set::{CHEAP_BYTES, CHEAP_TEXT, Missing, PatternSet};
pub use printable::{Printable, is_unprintable};
pub use re2::{RegexError, anchored as anchored_re2, compiled_bytes, translate as translate_re2};
pub use sample::{Point, Sample, Value};
pub use sample_times::{MAX_SAMPLE_AGE, RETENTION, SampleTimes, TimeLimits};
pub use secret::Secret;
pub use shown::{ShownLabel, ShownMetric, ShownSeries, ShownText};
pub use shown_units::ShownSize;
pub use stale::{STALE_NAN_BITS, is_stale};
pub use time::{MAX_TIMESTAMP, MIN_TIMESTAMP, ShownTime, TimeRange};
