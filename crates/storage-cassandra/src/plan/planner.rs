//! Makes a plan of points. Pure.
//!
//! Finite floats become `kairos_double` cells and integers become `kairos_long` cells. Everything else becomes rows of
//! our own types. Of
//! several points of a series for one cell only the winner is planned, so no write ever holds two
//! values for one cell. A series that the schema cannot hold is refused as a whole; a histogram
//! without a valid cell is refused alone. Refused points are kept aside, and the rest is planned.

use std::collections::HashMap;
use std::ops::Range;

use crate::identity::Identity;
use crate::plan::{
    CellValue, Plan, PlannedCell, PlannedRow, PlannedSeries, Unplaced, UnplacedValue, timestamp,
};
use promkairos_chunk::StampedPoint;
use promkairos_kairos::{
    DataType, EncodeError, MAX_KEY_BYTES, RowKey, RowSpec, RowTime, Tags, cell,
};
use promkairos_model::limits::LABEL_LIMITS;
use promkairos_model::{
    Histogram, Labels, LabelsRef, METRIC_NAME, Point, RejectReason, STALE_NAN_BITS, Value,
    WriteBatch, WriteOutcome, samples_with_longs,
};

/// Plans a batch; invalid series are reported in `outcome`.
pub(crate) fn plan_batch(
    batch: &WriteBatch<'_>,
    spec: RowSpec,
    outcome: &mut WriteOutcome,
) -> Plan {
    let mut planner = Planner::new(spec);
    for entry in &batch.series {
        let slot = match entry.labels.to_series(&LABEL_LIMITS) {
            Ok(labels) => planner.series(labels, entry.index),
            Err(error) => {
                let (index, points) = (entry.index, entry.points());
                let describe = || entry.labels.describe();
                outcome.rejections.push_series(index, points, error.into(), describe);
                continue;
            }
        };
        let range = |r: &Range<u32>| r.start as usize..r.end as usize;
        for index in range(&entry.histograms) {
            let sample = &batch.histograms[index];
            let times = (sample.timestamp, sample.start_timestamp);
            planner.histogram(slot, times, &sample.histogram, index as u32);
        }
        for (sample, long) in samples_with_longs(&batch.samples, &batch.longs, &entry.samples) {
            match long {
                Some(long) => planner.long(slot, sample.timestamp, long),
                None => planner.float(slot, sample.timestamp, sample.value),
            }
        }
        for exemplar in &batch.exemplars[range(&entry.exemplars)] {
            // Malformed ones were refused when the batch was decoded.
            let Ok(labels) = exemplar.labels.to_labels() else { continue };
            planner.exemplar(slot, exemplar.timestamp, &labels, exemplar.value);
        }
    }
    planner.finish()
}

/// The cell of a stale marker.
const STALE: [u8; 8] = STALE_NAN_BITS.to_be_bytes();

/// Collects points and makes a [`Plan`] of them.
pub(crate) struct Planner {
    spec: RowSpec,
    plan: Plan,
    slots: HashMap<Identity, u32>,
    items: Vec<Item>,
    /// The stamp of the items that follow.
    stamp: i64,
}

/// A cell before it is assigned to a row.
struct Item {
    series: u32,
    row_time: RowTime,
    /// The offset, which begins the column.
    offset: [u8; 4],
    kind: Kind,
    /// Of two items for one cell the greater order wins.
    order: u32,
    stamp: i64,
    value: CellValue,
}

/// The kind of an item, which decides its data type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Histogram,
    Special,
    Long,
    Finite,
    /// Hash of its labels. Competes only with exemplars of the same hash.
    Exemplar(u64),
}

impl Item {
    fn unplaced(self, spec: RowSpec) -> Unplaced {
        Unplaced {
            series: self.series,
            timestamp: timestamp(spec, self.row_time, &self.offset),
            data_type: self.kind.data_type(),
            stamp: self.stamp,
            value: UnplacedValue::Cell(self.value),
        }
    }
}

impl Kind {
    fn data_type(self) -> DataType {
        match self {
            Self::Histogram => DataType::PromHistogram,
            Self::Special => DataType::PromDouble,
            Self::Long => DataType::Long,
            Self::Finite => DataType::Double,
            Self::Exemplar(_) => DataType::PromExemplar,
        }
    }

    fn exemplar(self) -> Option<u64> {
        match self {
            Self::Exemplar(hash) => Some(hash),
            Self::Histogram | Self::Special | Self::Long | Self::Finite => None,
        }
    }

    fn is_number(self) -> bool {
        matches!(self, Self::Special | Self::Long | Self::Finite)
    }
}

impl Planner {
    pub(crate) fn new(spec: RowSpec) -> Self {
        Self { spec, plan: Plan::default(), slots: HashMap::new(), items: Vec::new(), stamp: 0 }
    }

    /// How many points are planned or kept aside so far.
    pub(crate) fn len(&self) -> usize {
        self.items.len() + self.plan.unplaced.len()
    }

    /// The slot of a series at position `index` in the request.
    pub(crate) fn series(&mut self, labels: Labels, index: u32) -> u32 {
        let identity = Identity::of(&[labels.as_bytes()]);
        if let Some(slot) = self.slots.get(&identity) {
            self.plan.again.push((*slot, index));
            return *slot;
        }
        let slot = self.plan.series.len() as u32;
        let refused = refusal(&labels);
        self.slots.insert(identity, slot);
        let series = PlannedSeries::new(labels, identity, index);
        self.plan.series.push(PlannedSeries { refused, ..series });
        slot
    }

    /// Adds a point with the time of its acceptance.
    pub(crate) fn point(&mut self, slot: u32, entry: &StampedPoint) {
        self.stamp = entry.stamp;
        let Point { timestamp, start_timestamp, value } = &entry.point;
        match (entry.long, value) {
            (Some(long), _) => self.long(slot, *timestamp, long),
            (None, Value::Float(value)) => self.float(slot, *timestamp, *value),
            (None, Value::Histogram(histogram)) => {
                self.histogram(slot, (*timestamp, *start_timestamp), histogram, 0);
            }
        }
    }

    fn float(&mut self, slot: u32, timestamp: i64, value: f64) {
        self.plan.series[slot as usize].samples += 1;
        let kind = if value.is_finite() { Kind::Finite } else { Kind::Special };
        self.push(slot, timestamp, kind, CellValue::Double(cell::encode_double(value)));
    }

    fn long(&mut self, slot: u32, timestamp: i64, long: i64) {
        self.plan.series[slot as usize].samples += 1;
        self.push(slot, timestamp, Kind::Long, CellValue::Bytes(cell::encode_long(long)));
    }

    /// `times` are the timestamp and the start timestamp, `index` is the position in the request.
    fn histogram(&mut self, slot: u32, times: (i64, i64), histogram: &Histogram, index: u32) {
        let (timestamp, start) = times;
        match cell::encode_histogram(histogram, start) {
            Ok(bytes) => {
                self.plan.series[slot as usize].histograms += 1;
                self.push(slot, timestamp, Kind::Histogram, CellValue::Bytes(bytes));
            }
            Err(why) => self.plan.unplaced.push(Unplaced {
                series: slot,
                timestamp,
                data_type: DataType::PromHistogram,
                stamp: self.stamp,
                value: UnplacedValue::Histogram {
                    text: format!("start_timestamp: {start}, {histogram:?}"),
                    why,
                    index,
                },
            }),
        }
    }

    pub(crate) fn exemplar(&mut self, slot: u32, timestamp: i64, labels: &Labels, value: f64) {
        self.plan.series[slot as usize].exemplars += 1;
        let kind = Kind::Exemplar(cell::exemplar_hash(labels));
        self.push(slot, timestamp, kind, CellValue::Bytes(cell::encode_exemplar(labels, value)));
    }

    fn push(&mut self, series: u32, timestamp: i64, kind: Kind, value: CellValue) {
        let (row_time, offset) = self.spec.split(timestamp);
        if self.spec.timestamp(row_time, offset) != timestamp {
            self.plan.floored += 1;
        }
        if kind.exemplar().is_none() {
            let first = &mut self.plan.series[series as usize].first;
            *first = timestamp.min(*first);
        }
        let order = self.items.len() as u32;
        let offset = offset.to_bytes();
        self.items.push(Item { series, row_time, offset, kind, order, stamp: self.stamp, value });
    }

    /// The rows of everything that was added. A float or an integer wins over a histogram, a later item over an earlier
    /// one.
    pub(crate) fn finish(self) -> Plan {
        self.finish_by(|item| (item.kind.is_number(), item.order))
    }

    /// The rows of everything that was added; a later item wins over an earlier one, whatever their kinds.
    pub(crate) fn finish_in_order(self) -> Plan {
        self.finish_by(|item| (false, item.order))
    }

    fn finish_by(self, rank: impl Fn(&Item) -> (bool, u32)) -> Plan {
        let Self { spec, mut plan, mut items, .. } = self;
        plan.again.sort_unstable();
        let cell = |i: &Item| (i.series, i.row_time, i.offset, i.kind.exemplar());
        let refused = |item: &mut Item| plan.series[item.series as usize].refused.is_some();
        let unplaced: Vec<_> = items.extract_if(.., refused).collect();
        plan.unplaced.extend(unplaced.into_iter().map(|item| item.unplaced(spec)));
        items.sort_unstable_by_key(|item| (cell(item), rank(item)));
        let mut winners: Vec<Item> = Vec::with_capacity(items.len());
        for item in items {
            match winners.last_mut() {
                Some(last) if cell(last) == cell(&item) => *last = item,
                _ => winners.push(item),
            }
        }
        let row = |i: &Item| (i.series, i.row_time, i.kind.data_type());
        winners.sort_by_key(row);
        for item in winners {
            let data_type = item.kind.data_type();
            let same = plan.rows.last().is_some_and(|row| {
                (row.series, row.row_time, &row.data_type)
                    == (item.series, item.row_time, &data_type)
            });
            if same || plan.start_row(item.series, item.row_time, data_type) {
                plan.push_cell(item);
            } else {
                plan.unplaced.push(item.unplaced(spec));
            }
        }
        plan
    }
}

impl Plan {
    /// Starts a row. Returns whether it can be written.
    fn start_row(&mut self, series: u32, row_time: RowTime, data_type: DataType) -> bool {
        let start = self.keys.len();
        let planned = &mut self.series[series as usize];
        if planned.refused.is_some() {
            return false;
        }
        if let Err(error) = push_key(&mut self.keys, &planned.labels, row_time, &data_type) {
            planned.refused = Some(error);
            self.keys.truncate(start);
            return false;
        }
        let cells = self.cells.len()..self.cells.len();
        let key = start..self.keys.len();
        self.rows.push(PlannedRow { series, row_time, data_type, is_live: false, cells, key });
        true
    }

    fn push_cell(&mut self, item: Item) {
        let mut column = [0; 12];
        column[..4].copy_from_slice(&item.offset);
        let offset = i64::from(u32::from_be_bytes(item.offset));
        let time = item.row_time.millis().wrapping_add(offset);
        let mut identity = self.series[item.series as usize].identity.with(time);
        let mut column_len = 4;
        if let Kind::Exemplar(hash) = item.kind {
            column[4..].copy_from_slice(&hash.to_be_bytes());
            column_len = 12;
            identity = identity.with(hash.cast_signed());
        }
        self.identities.push(identity);
        let is_stale = matches!(item.value, CellValue::Double(bytes) if bytes == STALE);
        self.cells.push(PlannedCell { column, column_len, value: item.value, stamp: item.stamp });
        if let Some(row) = self.rows.last_mut() {
            row.cells.end = self.cells.len();
            row.is_live |= !is_stale;
        }
    }
}

/// Appends the partition key of a series.
fn push_key(
    out: &mut Vec<u8>,
    labels: &Labels,
    row_time: RowTime,
    data_type: &DataType,
) -> Result<(), EncodeError> {
    let key = RowKey {
        metric: labels.get(METRIC_NAME).into(),
        row_time,
        data_type: data_type.clone(),
        tags: Tags::from_labels(labels.as_ref()),
    };
    out.extend_from_slice(&key.encode()?);
    Ok(())
}

/// Why no row of this series could be written, if so.
pub(crate) fn refusal(labels: &Labels) -> Option<EncodeError> {
    if labels.get(METRIC_NAME).contains('\0') {
        return Some(EncodeError::NulInMetric);
    }
    // Escaping at most doubles the labels; the rest of the key is short.
    const REST: usize = 64;
    if labels.as_bytes().len() * 2 + REST <= MAX_KEY_BYTES {
        return None;
    }
    let row_time = RowTime::from_stored(0);
    push_key(&mut Vec::new(), labels, row_time, &DataType::PromHistogram).err()
}

/// Why no row can hold a series; known before a log in front acknowledges it.
pub fn refuse(labels: LabelsRef<'_>) -> Option<RejectReason> {
    refusal(&labels.to_owned()).map(|error| RejectReason::Store(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use promkairos_kairos::TimeUnit;
    use promkairos_model::{RawLabels, STALE_NAN_BITS, Sample, SeriesEntry, Target};

    const WIDTH: i64 = 1_814_400_000;

    fn raw(pairs: &[(&str, &str)]) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, value) in pairs {
            RawLabels::push(&mut out, name.as_bytes(), value.as_bytes());
        }
        out
    }

    /// Labels and points.
    type Series<'a> = (&'a [u8], &'a [(i64, f64)]);

    fn plan(spec: RowSpec, series: &[Series<'_>]) -> (Plan, WriteOutcome) {
        let mut batch = WriteBatch::default();
        for (index, (labels, points)) in series.iter().enumerate() {
            let start = batch.samples.len() as u32;
            batch.samples.extend(points.iter().map(|(timestamp, value)| Sample {
                timestamp: *timestamp,
                start_timestamp: 0,
                value: *value,
            }));
            batch.series.push(SeriesEntry {
                labels: RawLabels(labels),
                index: index as u32,
                samples: start..batch.samples.len() as u32,
                histograms: 0..0,
                exemplars: 0..0,
            });
        }
        let mut outcome = WriteOutcome::default();
        let plan = plan_batch(&batch, spec, &mut outcome);
        plan.account(&HashMap::new(), &mut outcome);
        (plan, outcome)
    }

    /// One line per row: key with control characters escaped, then the columns and values in hex.
    fn lines(plan: &Plan) -> Vec<String> {
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        plan.rows
            .iter()
            .map(|row| {
                let cells: Vec<_> = plan.cells[row.cells.clone()]
                    .iter()
                    .map(|cell| format!("{}={}", hex(cell.column()), hex(cell.value())))
                    .collect();
                format!("{} {}", plan.key(row).escape_ascii(), cells.join(" "))
            })
            .collect()
    }

    #[test]
    fn finite_floats_are_kairos_double_and_the_rest_goes_through_our_door() {
        let up = raw(&[("__name__", "up"), ("job", "a:b")]);
        let stale = f64::from_bits(STALE_NAN_BITS);
        let (plan, outcome) =
            plan(RowSpec::DEFAULT, &[(&up, &[(1, 1.0), (2, stale), (WIDTH + 3, -0.0)])]);
        assert_eq!(
            lines(&plan),
            [
                "up\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\rkairos_doublejob=a=:b: \
                 00000001=3ff0000000000000",
                "up\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x0bprom_doublejob=a=:b: \
                 00000002=7ff0000000000002",
                "up\\x00\\x00\\x00\\x00\\x00l%\\x8c\\x00\\x00\\rkairos_doublejob=a=:b: \
                 00000003=8000000000000000",
            ]
        );
        assert_eq!(outcome.samples, 3);
    }

    #[test]
    fn one_cell_once_even_where_the_unit_rounds() {
        let up = raw(&[("__name__", "up")]);
        let (at, bits) = (1_000_000, |v: f64| format!("{:016x}", v.to_bits()));
        let twice: &[(i64, f64)] = &[(at, 1.0), (at, 2.0)];
        let (milli, outcome) = plan(RowSpec::DEFAULT, &[(&up, twice), (&up, &[(at, f64::NAN)])]);
        assert_eq!((milli.cells.len(), milli.series.len(), outcome.samples), (1, 1, 3));
        assert!(lines(&milli)[0].contains("prom_double"));
        let seconds = RowSpec::new(TimeUnit::Seconds, 1_814_400).expect("valid");
        let (plan, _) = plan(seconds, &[(&up, &[(at, 1.0), (at + 999, 2.0), (at + 1000, 3.0)])]);
        let line = &lines(&plan)[0];
        assert!(
            line.ends_with(&format!("000003e8={} 000003e9={}", bits(2.0), bits(3.0))),
            "{line}"
        );
    }

    #[test]
    fn what_has_no_row_or_no_cell_is_kept_aside() {
        let nameless = Labels::from_pairs([("job", "a")]).expect("labels");
        let up = Labels::from_pairs([(METRIC_NAME, "up")]).expect("labels");
        let misshapen = Histogram {
            positive_spans: vec![promkairos_model::Span { offset: 0, length: 9 }],
            schema: 0,
            zero_threshold: 0.0,
            sum: 0.0,
            reset_hint: promkairos_model::ResetHint::Unknown,
            negative_spans: vec![],
            custom_values: vec![],
            counts: promkairos_model::Counts::Integer {
                count: 0,
                zero_count: 0,
                positive: vec![],
                negative: vec![],
            },
        };
        let mut planner = Planner::new(RowSpec::DEFAULT);
        let slots = [planner.series(nameless, 0), planner.series(up, 1)];
        let values = [Value::Float(1.5), Value::Histogram(misshapen.into())];
        for (slot, value) in slots.into_iter().flat_map(|s| values.clone().map(|v| (s, v))) {
            let point = Point { timestamp: 10, start_timestamp: 0, value };
            planner.point(slot, &StampedPoint { point, long: None, stamp: 77 });
        }
        assert_eq!(planner.len(), 4);
        let plan = planner.finish_in_order();
        assert_eq!((plan.rows.len(), plan.cells.len()), (1, 1));
        let mut aside: Vec<_> = plan
            .unplaced
            .iter()
            .map(|point| match &point.value {
                UnplacedValue::Cell(cell) => (point.series, point.stamp, cell.bytes().len()),
                UnplacedValue::Histogram { text, .. } => {
                    assert!(text.contains("length: 9"), "{text}");
                    (point.series, point.stamp, 0)
                }
            })
            .collect();
        aside.sort_unstable();
        assert_eq!(aside, [(0, 77, 0), (0, 77, 8), (1, 77, 0)]);
        let mut outcome = WriteOutcome::default();
        plan.account(&HashMap::new(), &mut outcome);
        assert_eq!((outcome.samples, outcome.histograms), (1, 0));
        let (first, second) = (Target::Histogram(0), Target::Series(0));
        assert_eq!(outcome.rejections.targets(), [first, first, second]);
    }

    #[test]
    fn refused_series_that_occur_again_are_told_each_with_its_own() {
        let named = |name: &str| Labels::from_pairs([(METRIC_NAME, name)]).expect("labels");
        let mut planner = Planner::new(RowSpec::DEFAULT);
        for (index, name) in (0..).zip(["a\0", "b", "c\0", "b", "a\0", "c\0", "a\0"]) {
            let slot = planner.series(named(name), index);
            planner.float(slot, i64::from(index), 1.0);
        }
        let mut outcome = WriteOutcome::default();
        planner.finish().account(&HashMap::new(), &mut outcome);
        assert_eq!(outcome.samples, 2);
        assert_eq!(outcome.rejections.targets(), [0, 4, 6, 2, 5].map(Target::Series));
        assert_eq!(outcome.rejections.points(), [("store", 5)]);
    }

    /// If each of them searched all repeated series, this would take hours.
    #[test]
    fn many_refused_series_that_occur_again_are_told_in_one_go() {
        const COUNT: u32 = 1 << 19;
        let mut planner = Planner::new(RowSpec::DEFAULT);
        for index in 0..2 * COUNT {
            let name = format!("\0{}", index % COUNT);
            planner.series(Labels::from_pairs([(METRIC_NAME, &*name)]).expect("labels"), index);
        }
        let mut outcome = WriteOutcome::default();
        planner.finish().account(&HashMap::new(), &mut outcome);
        assert_eq!(outcome.rejections.len(), 2 * COUNT as usize);
        assert_eq!(outcome.rejections.targets()[..2], [0, COUNT].map(Target::Series));
    }

    #[test]
    fn what_no_row_can_hold_is_refused_alone() {
        let good = raw(&[("__name__", "up")]);
        let nul = raw(&[("__name__", "a\0b")]);
        let (long, longer) = ("=".repeat(16_370), "=".repeat(16_384));
        let wide = raw(&[("__name__", "m"), ("a", &longer), ("b", &long)]);
        let points: &[(i64, f64)] = &[(1, 1.0)];
        let cases = [(&nul[..], points), (&good, points), (&wide, points), (b"", points)];
        let (plan, outcome) = plan(RowSpec::DEFAULT, &cases);
        assert_eq!((outcome.samples, plan.rows.len()), (1, 1));
        let mut targets = outcome.rejections.targets().to_vec();
        targets.sort();
        assert_eq!(targets, [Target::Series(0), Target::Series(2), Target::Series(3)]);
    }
}
