//! The aggregators of a metric: which properties each has, their defaults and their rules.

use super::bean::Bean;
use super::feature::Feature;
use crate::error::QueryError;
use crate::java_text;
use crate::json::Json;
use crate::limits::exceeded;
use crate::plan::{
    Aggregator, Boundary, Deviation, Filter, FilterOperation, Fold, Range, SaveAs, Score,
    ScoreOrder, Threshold, ThresholdValue, Trim,
};
use crate::time::{self, Sampling, TimeUnit, Zone};

/// What aggregators take from their metric.
pub(super) struct Around {
    /// Start of the query.
    pub(super) start: i64,
    /// End of the query, at most now.
    pub(super) end: i64,
    /// The time.
    pub(super) now: i64,
    /// The zone of the query.
    pub(super) zone: Zone,
    /// Of [`Limits`](crate::Limits).
    pub(super) max_sma_size: u32,
}

/// A class of aggregators: its name in queries, its class in KairosDB, its properties.
type Class = (&'static str, &'static str, &'static [&'static str]);

/// Classes that aggregate ranges of time, which have the properties of [`RANGE`] too.
const RANGES: [Class; 11] = [
    ("avg", "AvgAggregator", &[]),
    ("count", "CountAggregator", &[]),
    ("dev", "StdAggregator", &["dev_count", "return_type"]),
    ("first", "FirstAggregator", &[]),
    ("gaps", "DataGapsMarkingAggregator", &[]),
    ("last", "LastAggregator", &[]),
    ("least_squares", "LeastSquaresAggregator", &[]),
    ("max", "MaxAggregator", &[]),
    ("min", "MinAggregator", &[]),
    ("percentile", "PercentileAggregator", &["percentile"]),
    ("sum", "SumAggregator", &[]),
];

/// Classes that do not.
const OTHERS: [Class; 10] = [
    ("diff", "DiffAggregator", &[]),
    ("div", "DivideAggregator", &["divisor"]),
    ("filter", "FilterAggregator", &["filter_op", "threshold"]),
    ("rate", "RateAggregator", &["sampling", "time_zone", "unit"]),
    ("sampler", "SamplerAggregator", &["time_zone", "unit"]),
    ("save_as", "SaveAsAggregator", &["add_saved_from", "metric_name", "tags", "ttl"]),
    ("scale", "ScaleAggregator", &["factor"]),
    ("score", "ScoreAggregator", &["order", "thresholds"]),
    ("sma", "SmaAggregator", &["size"]),
    ("trim", "TrimAggregator", &["trim"]),
];

/// Properties of all classes of [`RANGES`].
const RANGE: [&str; 8] = [
    "align_end_time",
    "align_sampling",
    "align_start_time",
    "end_time",
    "sampling",
    "start_time",
    "time_zone",
    "trim",
];

/// The properties that an aggregator has, with KairosDB's defaults.
struct Draft {
    sampling: Sampling,
    start: i64,
    end: i64,
    zone: Zone,
    align_sampling: bool,
    align_start_time: bool,
    align_end_time: bool,
    trim_ranges: bool,
    /// Of `percentile`, `div` and `scale`.
    number: f64,
    deviation: Deviation,
    dev_count: i32,
    operation: Option<FilterOperation>,
    threshold: ThresholdValue,
    save_as: SaveAs,
    thresholds: Option<Vec<Threshold>>,
    order: ScoreOrder,
    size: i32,
    trim: Option<Trim>,
}

impl Draft {
    fn new(around: &Around) -> Self {
        Self {
            sampling: Sampling { value: 1, unit: TimeUnit::Milliseconds },
            start: around.start,
            end: around.end,
            zone: around.zone.clone(),
            align_sampling: true,
            align_start_time: false,
            align_end_time: false,
            trim_ranges: false,
            number: 0.0,
            deviation: Deviation::Value,
            dev_count: 1,
            operation: None,
            threshold: ThresholdValue::Number(0.0),
            save_as: SaveAs {
                metric_name: String::new(),
                tags: Vec::new(),
                kept_tags: Vec::new(),
                ttl: 0,
                add_saved_from: true,
            },
            thresholds: None,
            order: ScoreOrder::Ascending,
            size: 0,
            trim: None,
        }
    }

    /// Sets a property that the class has.
    fn set(&mut self, bean: Bean<'_>, is_range: bool, now: i64) -> Result<(), QueryError> {
        let value = bean;
        match bean.property {
            "align_end_time" => self.align_end_time = value.required(bean.boolean()?)?,
            "align_sampling" => self.align_sampling = value.required(bean.boolean()?)?,
            "align_start_time" => self.align_start_time = value.required(bean.boolean()?)?,
            "end_time" => self.end = value.required(bean.long()?)?.min(now),
            "sampling" => self.sampling = value.required(bean.sampling()?)?,
            "start_time" => self.start = value.required(bean.long()?)?,
            "time_zone" => self.zone = value.required(bean.zone()?)?,
            "trim" if is_range => self.trim_ranges = value.required(bean.boolean()?)?,
            "trim" => self.trim = Some(value.required(bean.one_of(&TRIMS)?)?),
            "unit" => {
                self.sampling = Sampling { value: 1, unit: value.required(bean.unit()?)? };
            }
            "percentile" | "divisor" | "factor" => self.number = value.required(bean.double()?)?,
            "return_type" => self.deviation = value.required(bean.lowercase(&DEVIATIONS)?)?,
            "dev_count" => self.dev_count = value.required(bean.int()?)?,
            "filter_op" => {
                self.operation = Some(value.required(bean.one_of(&OPERATIONS)?)?);
            }
            "threshold" => self.threshold = threshold_value(bean)?,
            "add_saved_from" => self.save_as.add_saved_from = value.required(bean.boolean()?)?,
            "metric_name" => self.save_as.metric_name = value.required(bean.text()?)?,
            "tags" => self.save_as.tags = value.required(bean.map()?)?,
            "ttl" => self.save_as.ttl = value.required(bean.int()?)?,
            "order" => self.order = value.required(bean.lowercase(&ORDERS)?)?,
            "thresholds" => self.thresholds = Some(thresholds(bean)?),
            "size" => self.size = value.required(bean.int()?)?,
            _ => return Err(bean.invalid("is no property")),
        }
        Ok(())
    }

    fn range(self, fold: Fold) -> Range {
        let Self { sampling, start, end, zone, .. } = self;
        let aligned = match self.align_sampling {
            true => time::align(sampling.unit, &zone, start),
            false => start,
        };
        Range {
            fold,
            sampling,
            start: aligned,
            query_start: start,
            query_end: end,
            zone,
            align_start_time: self.align_start_time,
            align_end_time: self.align_end_time,
            trim: self.trim_ranges,
        }
    }
}

const TRIMS: [(&str, Trim); 3] =
    [("first", Trim::First), ("last", Trim::Last), ("both", Trim::Both)];
const DEVIATIONS: [(&str, Deviation); 3] =
    [("pos_sd", Deviation::Above), ("neg_sd", Deviation::Below), ("value", Deviation::Value)];
const OPERATIONS: [(&str, FilterOperation); 6] = [
    ("lte", FilterOperation::Lte),
    ("lt", FilterOperation::Lt),
    ("gte", FilterOperation::Gte),
    ("gt", FilterOperation::Gt),
    ("equal", FilterOperation::Equal),
    ("ne", FilterOperation::Ne),
];
const ORDERS: [(&str, ScoreOrder); 2] =
    [("ascending", ScoreOrder::Ascending), ("descending", ScoreOrder::Descending)];
const BOUNDARIES: [(&str, Boundary); 2] =
    [("superior", Boundary::Superior), ("inferior", Boundary::Inferior)];

/// Reads an aggregator.
pub(super) fn read(feature: &Feature<'_>, around: &Around) -> Result<Aggregator, QueryError> {
    let is_it = |class: &&Class| class.0 == feature.name;
    let (class, is_range) = match RANGES.iter().find(is_it) {
        Some(class) => (class, true),
        None => {
            let class = OTHERS.iter().find(is_it);
            (class.ok_or_else(|| feature.unknown("aggregators"))?, false)
        }
    };
    let mut draft = Draft::new(around);
    for bean in feature.properties() {
        let property = &bean.property;
        let has = class.2.contains(property) || (is_range && RANGE.contains(property));
        if !has {
            let class = format!("class org.kairosdb.core.aggregator.{}", class.1);
            return Err(feature.no_setter(bean.property, &class));
        }
        draft.set(bean, is_range, around.now)?;
    }
    let invalid =
        |violation: &str| QueryError::Invalid(vec![format!("{}.{violation}", feature.context)]);
    match is_range {
        true => Ok(Aggregator::Range(range(&feature.name, draft, invalid)?)),
        false => other(&feature.name, draft, around.max_sma_size, invalid),
    }
}

fn range(
    name: &str,
    draft: Draft,
    invalid: impl Fn(&str) -> QueryError,
) -> Result<Range, QueryError> {
    let fold = match name {
        "avg" => Fold::Avg,
        "count" => Fold::Count,
        "dev" => Fold::Dev { deviation: draft.deviation, count: draft.dev_count },
        "first" => Fold::First,
        "gaps" => Fold::Gaps,
        "last" => Fold::Last,
        "least_squares" => Fold::LeastSquares,
        "max" => Fold::Max,
        "min" => Fold::Min,
        "percentile" if draft.number == 0.0 => return Err(invalid("percentile may not be zero")),
        "percentile" if !(0.0..=1.0).contains(&draft.number) => {
            let number = java_text::double(draft.number);
            return Err(invalid(&format!("percentile {number} is not in [0..1]")));
        }
        "percentile" => Fold::Percentile(draft.number),
        _ => Fold::Sum,
    };
    match draft.sampling.value {
        0 => Err(invalid("sampling.value must be greater than 0")),
        _ => Ok(draft.range(fold)),
    }
}

fn other(
    name: &str,
    draft: Draft,
    max_sma_size: u32,
    invalid: impl Fn(&str) -> QueryError,
) -> Result<Aggregator, QueryError> {
    Ok(match name {
        "diff" => Aggregator::Diff,
        "div" if draft.number == 0.0 => return Err(invalid("m_divisor may not be zero")),
        "div" => Aggregator::Divide(draft.number),
        "filter" => {
            let operation = draft.operation.ok_or_else(|| invalid("filter_op may not be null"))?;
            Aggregator::Filter(Filter { operation, threshold: draft.threshold })
        }
        "rate" => Aggregator::Rate(draft.sampling, draft.zone),
        "sampler" => Aggregator::Sampler(draft.sampling, draft.zone),
        "save_as" if draft.save_as.metric_name.is_empty() => {
            return Err(invalid("metric_name may not be empty"));
        }
        "save_as" => Aggregator::SaveAs(draft.save_as),
        "scale" => Aggregator::Scale(draft.number),
        "score" => {
            let thresholds =
                draft.thresholds.ok_or_else(|| invalid("thresholds may not be null"))?;
            Aggregator::Score(Score { thresholds, order: draft.order })
        }
        "sma" => match u32::try_from(draft.size) {
            Ok(size) if size > max_sma_size => {
                return Err(exceeded("size of sma", max_sma_size.into(), "max_sma_size"));
            }
            Ok(size) if size > 0 => Aggregator::Sma(size),
            _ => return Err(invalid("size must be greater than or equal to 1")),
        },
        _ => Aggregator::Trim(draft.trim),
    })
}

fn threshold_value(bean: Bean<'_>) -> Result<ThresholdValue, QueryError> {
    Ok(match bean.value {
        Json::Null => return Err(bean.invalid("may not be null")),
        Json::Number(_) => ThresholdValue::Number(bean.required(bean.double()?)?),
        Json::Text(text) => ThresholdValue::Text(text.clone()),
        Json::Bool(_) | Json::List(_) | Json::Object(_) => ThresholdValue::Other,
    })
}

fn thresholds(bean: Bean<'_>) -> Result<Vec<Threshold>, QueryError> {
    let read = |value| {
        let bean = Bean { value, ..bean };
        let mut threshold = Threshold { value: 0.0, boundary: Boundary::Superior };
        for (name, value) in bean.required(bean.object()?)? {
            let member = Bean { value, ..bean };
            match name.as_str() {
                "value" => threshold.value = member.double()?.unwrap_or(0.0),
                "boundary" => {
                    threshold.boundary = member.required(member.lowercase(&BOUNDARIES)?)?;
                }
                _ => {}
            }
        }
        Ok(threshold)
    };
    let mut thresholds = bean.required(bean.list(read)?)?;
    // 0.0 and -0.0 are equal here.
    let key = |threshold: &Threshold| (threshold.value + 0.0, threshold.boundary);
    thresholds.sort_by(|a, b| {
        let (a, b) = (key(a), key(b));
        java_text::compare_doubles(a.0, b.0).then(a.1.cmp(&b.1))
    });
    Ok(thresholds)
}
