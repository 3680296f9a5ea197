//! `load_with_nhcb`: also loads classic histograms as native ones with custom buckets.

use std::collections::BTreeMap;
use std::sync::Arc;

use promkairos::model::{CUSTOM_BUCKETS_SCHEMA, Labels, METRIC_NAME, Point, Value};
use promkairos::promql::histogram::FloatHistogram;

use super::histogram::stored;

/// The data of a classic histogram at one time.
#[derive(Debug, Default)]
struct Classic {
    /// Bounds and cumulative counts.
    buckets: Vec<(f64, f64)>,
    count: Option<f64>,
    sum: f64,
}

/// The native series of all classic histograms.
pub(super) fn from_classic(
    series: &[(Labels, Vec<Point>)],
) -> Result<Vec<(Labels, Vec<Point>)>, String> {
    let mut found: BTreeMap<Labels, BTreeMap<i64, Classic>> = BTreeMap::new();
    for (labels, points) in series {
        let name = labels.get(METRIC_NAME);
        let parts = ["_bucket", "_count", "_sum"].map(|part| name.strip_suffix(part));
        let Some(base) = parts.iter().flatten().next() else { continue };
        let bound = labels.get("le").parse::<f64>();
        let others = labels.iter().filter(|(name, _)| !["le", METRIC_NAME].contains(name));
        let key = Labels::from_pairs(others.chain([(METRIC_NAME, *base)]));
        let times = found.entry(key.map_err(|error| error.to_string())?).or_default();
        for point in points {
            let Value::Float(value) = point.value else { continue };
            let classic = times.entry(point.timestamp).or_default();
            match (&parts, &bound) {
                ([Some(_), ..], Ok(bound)) => classic.buckets.push((*bound, value)),
                ([Some(_), ..], Err(_)) => {}
                ([_, Some(_), _], _) => classic.count = Some(value),
                _ => classic.sum = value,
            }
        }
    }
    let convert = |(labels, times): (Labels, BTreeMap<i64, Classic>)| {
        let points = times.into_iter().map(|(timestamp, classic)| {
            let value = Value::Histogram(Arc::new(stored(&native(classic)?)));
            Ok(Point { timestamp, start_timestamp: 0, value })
        });
        Ok((labels, points.collect::<Result<_, String>>()?))
    };
    found.into_iter().map(convert).collect()
}

fn native(Classic { mut buckets, count, sum }: Classic) -> Result<FloatHistogram, String> {
    buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
    buckets.dedup_by(|next, kept| next.0 == kept.0);
    let highest = buckets.last().map_or(0.0, |bucket| bucket.1);
    let count = count.unwrap_or(highest);
    if buckets.last().is_none_or(|bucket| bucket.0 != f64::INFINITY) {
        buckets.push((f64::INFINITY, count));
    }
    let falls = buckets.windows(2).any(|pair| pair[1].1 < pair[0].1);
    if falls || buckets.last().is_some_and(|bucket| bucket.1 != count) {
        return Err(format!("no classic histogram: {buckets:?} with count {count}"));
    }
    let bounds: Arc<[f64]> = buckets[..buckets.len() - 1].iter().map(|bucket| bucket.0).collect();
    let mut h = FloatHistogram::empty(CUSTOM_BUCKETS_SCHEMA, Some(bounds));
    let mut below = 0.0;
    h.positive = (0..)
        .zip(&buckets)
        .map(|(index, (_, cumulative))| {
            let count = cumulative - below;
            below = *cumulative;
            (index, count)
        })
        .collect();
    (h.count, h.sum) = (count, sum);
    h.compact();
    Ok(h)
}

#[test]
fn classic_series_become_one_native() {
    let series = |text: &str| {
        let (labels, items) = super::series::parse(text).expect(text);
        let [super::Item::Float(value)] = items[..] else { panic!("{items:?}") };
        (labels, vec![Point { timestamp: 5, start_timestamp: 0, value: Value::Float(value) }])
    };
    let loaded = [
        series("x_bucket{le=\"2\", a=\"b\"} 3"),
        series("x_bucket{le=\"1\", a=\"b\"} 1"),
        series("x_bucket{le=\"+Inf\", a=\"b\"} 3"),
        series("x_count{a=\"b\"} 3"),
        series("x_sum{a=\"b\"} 4.5"),
        series("y 1"),
    ];
    let got = from_classic(&loaded).expect("a histogram");
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].0.to_string(), "{__name__=\"x\", a=\"b\"}");
    let Value::Histogram(histogram) = &got[0].1[0].value else { panic!("{got:?}") };
    let h = FloatHistogram::from(&**histogram);
    assert_eq!((h.count, h.sum, h.custom_bounds()), (3.0, 4.5, &[1.0, 2.0][..]));
    assert_eq!(h.positive.iter().collect::<Vec<_>>(), [(0, 1.0), (1, 2.0)]);
}
