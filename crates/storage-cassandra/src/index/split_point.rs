//! Split points: where the rows of an index partition are split into slices. They have the clustering order.
//!
//! A split point is a list of digits that are compared one by one, so a point between two others can always be made.
//! Each has values for the clustering columns, and a later split point never has smaller values than an earlier one:
//! every row lies in exactly one of the slices between them, whatever its tags.
//!
//! Cassandra compares texts by their bytes, which is the order of their characters, and frozen maps pair by pair: name,
//! then value. A map that is a prefix of another comes first (`MapType.compareMaps`).

use scylla::value::{CqlTimestamp, CqlValue};

use crate::schema::tables::NameColumn;
use promkairos_kairos::DataType;

/// The digit between two texts, below each character.
const END: u32 = 0;
/// Most texts have no character beyond this: one cut shows that.
const ASCII: i64 = 0x80;
/// Parts that a slice is cut into. Most parts hold no dead rows and cost little. Each digit that the dead rows
/// share costs one or two failed reads; with halves it would be seven.
const PARTS: usize = 64;
/// Behind the last character.
const CHARACTERS: i64 = 0x11_0001;

/// The clustering columns by which a slice of an index is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// `row_keys`: type and tags.
    Tags,
    /// `tag_indexed_row_keys`: type and hash of the tags.
    Hashes,
    /// `string_index`: a name.
    Names(NameColumn),
    /// The legacy `row_key_index`: bytes.
    Bytes,
    /// `row_key_time_index` of one table name: a time.
    Times,
}

/// A point between two rows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SplitPoint(Vec<u32>);

impl SplitPoint {
    /// Before every row.
    pub(crate) const FIRST: Self = Self(Vec::new());

    /// Just before the row with this name.
    pub(crate) fn of_name(name: &str) -> Self {
        Self(name.chars().map(digit).collect())
    }

    /// Just before the row with this column.
    pub(crate) fn of_bytes(column: &[u8]) -> Self {
        Self(column.iter().map(|byte| u32::from(*byte)).collect())
    }

    /// Just behind the row with this column.
    pub(crate) fn behind_bytes(column: &[u8]) -> Self {
        Self::of_bytes(column).behind()
    }

    /// Just before the row with this time.
    pub(crate) fn of_time(time: CqlTimestamp) -> Self {
        let bits = time.0.cast_unsigned() ^ 1 << 63;
        Self([48, 32, 16, 0].map(|shift| (bits >> shift) as u32 & 0xffff).into())
    }

    /// Just behind the row with this time.
    pub(crate) fn behind_time(time: CqlTimestamp) -> Self {
        Self::of_time(time).behind()
    }

    /// Just before the rows of a type.
    fn of_type(data_type: &str) -> Self {
        let mut point = Self::of_name(data_type);
        point.0.push(END);
        point
    }

    /// Just behind the row that this is just before.
    fn behind(mut self) -> Self {
        self.0.push(0);
        self
    }
}

impl Order {
    /// Behind every row.
    pub(crate) fn last(self) -> SplitPoint {
        match self {
            // No text begins with 16 of the last character.
            Self::Tags | Self::Hashes | Self::Names(_) => SplitPoint(vec![u32::MAX; 16]),
            Self::Bytes => SplitPoint(vec![255; 64]),
            Self::Times => SplitPoint(vec![0x1_0000]),
        }
    }

    /// The values of a point for the clustering columns.
    pub(crate) fn values(self, point: &SplitPoint) -> Vec<CqlValue> {
        match self {
            Self::Tags => {
                let mut texts = point.0.split(|digit| *digit == END).map(text);
                let data_type = texts.next().unwrap_or_default();
                vec![CqlValue::Text(data_type), CqlValue::Map(tags(texts))]
            }
            Self::Hashes => {
                let end = point.0.iter().position(|digit| *digit == END);
                let (data_type, rest) = match end {
                    Some(end) => (&point.0[..end], &point.0[end + 1..]),
                    None => (&point.0[..], &[][..]),
                };
                let hash = rest.first().map_or(i32::MIN, |hash| (hash ^ 1 << 31).cast_signed());
                vec![CqlValue::Text(text(data_type)), CqlValue::Int(hash)]
            }
            Self::Names(NameColumn::Blob) if *point == self.last() => {
                vec![CqlValue::Blob(vec![u8::MAX; 64])]
            }
            Self::Names(column) => {
                let mut texts = point.0.split(|digit| *digit == END).map(text);
                let mut name = texts.next().unwrap_or_default();
                if texts.next().is_some() {
                    name.push('\0');
                }
                vec![column.value(&name)]
            }
            Self::Bytes => {
                let bytes = point.0.iter().map(|digit| u8::try_from(*digit).unwrap_or(u8::MAX));
                vec![CqlValue::Blob(bytes.collect())]
            }
            Self::Times => vec![CqlValue::Timestamp(time(&point.0))],
        }
    }

    /// The split point just behind a row with these clustering columns. None where the order does not say.
    pub(crate) fn behind(self, row: &[Option<CqlValue>]) -> Option<SplitPoint> {
        match (self, row) {
            (Self::Tags, [Some(CqlValue::Text(data_type)), Some(CqlValue::Map(tags)), ..]) => {
                let mut point = SplitPoint::of_type(data_type);
                for part in tags.iter().flat_map(|(name, value)| [name, value]) {
                    point.0.extend(part.as_text()?.chars().map(digit));
                    point.0.push(END);
                }
                Some(point.behind())
            }
            (Self::Names(_), [Some(CqlValue::Text(name)), ..]) => {
                Some(SplitPoint::of_name(name).behind())
            }
            (Self::Names(_), [Some(CqlValue::Blob(name)), ..]) => {
                Some(SplitPoint::of_name(std::str::from_utf8(name).ok()?).behind())
            }
            (Self::Bytes, [Some(CqlValue::Blob(column)), ..]) => {
                Some(SplitPoint::behind_bytes(column))
            }
            (Self::Times, [Some(CqlValue::Timestamp(time)), ..]) => {
                Some(SplitPoint::behind_time(*time))
            }
            _ => None,
        }
    }

    /// Split points between two others, in order: first at the known types.
    pub(crate) fn between(self, start: &SplitPoint, end: &SplitPoint) -> Vec<SplitPoint> {
        if matches!(self, Self::Tags | Self::Hashes) && start.0.is_empty() && *end == self.last() {
            let types = DataType::KNOWN.iter().map(|known| SplitPoint::of_type(known.as_str()));
            let mut points: Vec<SplitPoint> = types
                .flat_map(|begin| {
                    let mut behind = begin.clone();
                    *behind.0.last_mut().expect("not empty") = END + 1;
                    [begin, behind]
                })
                .collect();
            points.sort_unstable();
            return points;
        }
        self.points_between(&start.0, &end.0)
    }

    /// Split points between two others, by the first digit with room between both.
    fn points_between(self, start: &[u32], end: &[u32]) -> Vec<SplitPoint> {
        let same = start.iter().zip(end).take_while(|(a, b)| a == b).count();
        let of_start = |at: usize| start.get(at).map_or(-1, |digit| i64::from(*digit));
        if start.len() > same + 2 {
            // The following rows share a prefix of these digits; its length is unknown.
            let lengths = (same + 1..start.len() - 1).rev();
            let step = lengths.len().div_ceil(PARTS);
            let points = lengths.step_by(step).filter_map(|at| {
                let next = self.digit(&start[..at], of_start(at) + 1);
                (next < self.top(&start[..at])).then(|| with(&start[..at], next))
            });
            let points: Vec<SplitPoint> = points.collect();
            if !points.is_empty() {
                return points;
            }
        }
        let Some(high) = end.get(same) else { return Vec::new() };
        let points = self.points(&start[..same], of_start(same), i64::from(*high));
        if !points.is_empty() {
            return points;
        }
        if end.len() > same + 1 {
            return vec![SplitPoint(end[..=same].to_vec())];
        }
        let behind = (same..start.len()).map(|at| {
            let before = &start[..=at];
            self.points(before, of_start(at + 1), self.top(before))
        });
        behind.into_iter().find(|points| !points.is_empty()).unwrap_or_default()
    }

    /// The bound above the digits that may follow these.
    fn top(self, before: &[u32]) -> i64 {
        match self {
            Self::Hashes if is_behind_type(before) => i64::from(u32::MAX) + 1,
            Self::Bytes => 256,
            Self::Times => 0x1_0000,
            _ => CHARACTERS,
        }
    }

    /// Split points that begin with these digits, then one digit between two others.
    fn points(self, before: &[u32], low: i64, high: i64) -> Vec<SplitPoint> {
        let high = high.min(self.top(before));
        let below = if self.is_text(before) && low < ASCII - 2 { high.min(ASCII) } else { high };
        let count = usize::try_from(below - low - 1).unwrap_or(0).min(PARTS - 1);
        let mut digits: Vec<i64> = (1..=count)
            .map(|n| low + (below - low) * n as i64 / (count as i64 + 1))
            .map(|digit| self.digit(before, digit))
            .filter(|digit| *digit < below)
            .collect();
        digits.dedup();
        digits.into_iter().map(|digit| with(before, digit)).collect()
    }

    /// This digit, or the next one that may follow these.
    fn digit(self, before: &[u32], digit: i64) -> i64 {
        // Surrogates are not characters.
        if self.is_text(before) && (0xd801..0xe001).contains(&digit) { 0xe001 } else { digit }
    }

    fn is_text(self, before: &[u32]) -> bool {
        match self {
            Self::Bytes | Self::Times => false,
            Self::Hashes => !is_behind_type(before),
            Self::Tags | Self::Names(_) => true,
        }
    }
}

fn is_behind_type(before: &[u32]) -> bool {
    before.contains(&END)
}

/// A value that is not a digit becomes the greatest one.
fn with(before: &[u32], digit: i64) -> SplitPoint {
    SplitPoint([before, &[u32::try_from(digit).unwrap_or(u32::MAX)]].concat())
}

fn digit(character: char) -> u32 {
    u32::from(character) + 1
}

/// The text with these digits; a digit without a character becomes the last character.
fn text(digits: &[u32]) -> String {
    digits.iter().map(|digit| char::from_u32(digit - 1).unwrap_or(char::MAX)).collect()
}

/// The time with these digits: the first time that is not before the split point.
fn time(digits: &[u32]) -> CqlTimestamp {
    let mut bits = 0_u128;
    for at in 0..4 {
        bits = bits << 16 | u128::from(digits.get(at).copied().unwrap_or(0).min(0x1_0000));
    }
    bits += u128::from(digits.len() > 4);
    let bits = u64::try_from(bits).unwrap_or(u64::MAX);
    CqlTimestamp((bits ^ 1 << 63).cast_signed())
}

/// Tags from alternating names and values. Names must rise, as in every map: a name that does not is replaced by
/// the next possible one.
fn tags(mut texts: impl Iterator<Item = String>) -> Vec<(CqlValue, CqlValue)> {
    let mut tags: Vec<(String, String)> = Vec::new();
    while let Some(name) = texts.next() {
        let value = texts.next();
        if value.is_none() && name.is_empty() {
            // The end of the text before.
            break;
        }
        if let Some((last, _)) = tags.last().filter(|(last, _)| name <= *last) {
            tags.push((format!("{last}\0"), String::new()));
            break;
        }
        tags.push((name, value.unwrap_or_default()));
    }
    let text = |(name, value)| (CqlValue::Text(name), CqlValue::Text(value));
    tags.into_iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::cql::cuts::Cuts;

    type Row = (String, Vec<(String, String)>);

    fn row(values: &[CqlValue]) -> Row {
        let [CqlValue::Text(data_type), CqlValue::Map(tags)] = values else { panic!("{values:?}") };
        let text = |value: &CqlValue| value.as_text().expect("a text").clone();
        (data_type.clone(), tags.iter().map(|(name, value)| (text(name), text(value))).collect())
    }

    fn behind(row: &Row) -> SplitPoint {
        let text = |text: &String| CqlValue::Text(text.clone());
        let tags = row.1.iter().map(|(name, value)| (text(name), text(value))).collect();
        let columns = [Some(text(&row.0)), Some(CqlValue::Map(tags))];
        Order::Tags.behind(&columns).expect("a row")
    }

    fn rows() -> impl Strategy<Value = BTreeSet<Row>> {
        let tags = prop::collection::btree_map("[a-c\0é]{0,2}", "[ab1\u{10ffff}]{0,3}", 0..3);
        let row = (
            prop::sample::select(vec!["", "kairos_double", "kairos_long", "prom_double", "zz"]),
            tags,
        );
        let row =
            row.prop_map(|(data_type, tags)| (data_type.to_owned(), tags.into_iter().collect()));
        prop::collection::btree_set(row, 0..60)
    }

    proptest! {
        #[test]
        fn every_row_is_read_once_however_few_dead_ones_a_server_bears(
            rows in rows(),
            is_dead in prop::collection::vec(any::<bool>(), 60),
            (most, page) in (1_usize..6, 1_usize..4),
        ) {
            let order = Order::Tags;
            let rows: Vec<(&Row, bool)> = rows.iter().zip(is_dead).collect();
            let mut found = Vec::new();
            let mut cuts = Cuts::of(SplitPoint::FIRST, order.last(), [], 5_000);
            while let Some([start, end]) = cuts.next() {
                let (start, end) = (row(&order.values(start)), row(&order.values(end)));
                let (mut dead, mut last, mut of_page) = (0, None, Vec::new());
                let slice = rows.iter().filter(|(row, _)| start <= **row && **row < end);
                for (row, is_dead) in slice {
                    dead += usize::from(*is_dead);
                    if dead > most {
                        break;
                    }
                    of_page.extend((!is_dead).then_some(*row));
                    if of_page.len() == page {
                        dead = 0;
                        last = of_page.last().map(|row| behind(row));
                        found.append(&mut of_page);
                    }
                }
                if dead <= most {
                    found.append(&mut of_page);
                    cuts.finish_slice();
                } else {
                    let now = format!("{:?} {start:?} {end:?}", cuts.now());
                    let is_cut = cuts.cut(last, |start, end| order.between(start, end));
                    prop_assert!(is_cut, "{now}");
                }
            }
            let want: Vec<&Row> = rows.iter().filter(|(_, dead)| !dead).map(|(row, _)| *row).collect();
            prop_assert_eq!(found, want);
        }

        #[test]
        fn a_later_split_point_has_no_earlier_values(
            a in prop::collection::vec(prop::sample::select(vec![0, 1, 98, 99, 0xd800, 0xe001, 0x11_0000]), 0..9),
            b in prop::collection::vec(prop::sample::select(vec![0, 1, 98, 99, 0xd800, 0xe001, 0x11_0000]), 0..9),
        ) {
            let (a, b) = if a <= b { (a, b) } else { (b, a) };
            let (a, b) = (SplitPoint(a), SplitPoint(b));
            let values = |point| row(&Order::Tags.values(point));
            prop_assert!(values(&a) <= values(&b), "{a:?} {b:?}");
            prop_assert!(values(&b) < values(&Order::Tags.last()), "{b:?}");
            let points = Order::Tags.between(&a, &b);
            let all = [std::slice::from_ref(&a), &points, std::slice::from_ref(&b)].concat();
            prop_assert!(a == b || all.is_sorted_by(|a, b| a < b), "{all:?}");
        }
    }

    #[test]
    fn hashes_are_cut_evenly() {
        let order = Order::Hashes;
        let start = SplitPoint::of_type("kairos_double");
        let mut end = start.clone();
        *end.0.last_mut().expect("not empty") = 1;
        let points = order.between(&start, &end);
        assert_eq!(points.len(), PARTS - 1);
        let want = [CqlValue::Text("kairos_double".into()), CqlValue::Int(-1)];
        assert_eq!(order.values(&points[PARTS / 2 - 1]), want);
        assert_eq!(order.values(&end)[0], CqlValue::Text("kairos_double\0".into()));
        let points = order.between(&points[0], &points[1]);
        assert_eq!(points.len(), PARTS - 1);
    }

    #[test]
    fn names_and_columns_are_cut_by_their_bytes() {
        let text = Order::Names(NameColumn::Text);
        let name = |point: &SplitPoint| text.values(point)[0].as_text().expect("a text").clone();
        let after = text.behind(&[Some(CqlValue::Text("up".into()))]).expect("a name");
        assert_eq!(name(&after), "up\0");
        assert_eq!(
            (name(&SplitPoint::FIRST), name(&SplitPoint::of_name("u"))),
            (String::new(), "u".into())
        );
        assert!(name(&text.last()) > char::MAX.to_string());
        let blob = Order::Names(NameColumn::Blob);
        assert_eq!(blob.values(&SplitPoint::of_name("u")), [CqlValue::Blob(b"u".to_vec())]);
        let bytes = Order::Bytes;
        let points = bytes.between(&SplitPoint::of_bytes(&[1, 2]), &SplitPoint::of_bytes(&[1, 9]));
        let columns: Vec<_> = points.iter().flat_map(|point| bytes.values(point)).collect();
        assert_eq!(columns, (3..9).map(|last| CqlValue::Blob(vec![1, last])).collect::<Vec<_>>());
        assert!(
            bytes.between(&SplitPoint::of_bytes(&[1]), &SplitPoint::of_bytes(&[1, 0])).is_empty()
        );
    }

    #[test]
    fn times_are_cut_in_their_order() {
        let order = Order::Times;
        let value =
            |point: &SplitPoint| order.values(point)[0].as_cql_timestamp().expect("a time").0;
        for time in [i64::MIN, -1, 0, 1, 1 << 48, i64::MAX - 1] {
            let (point, time) = (SplitPoint::of_time(CqlTimestamp(time)), CqlTimestamp(time));
            assert_eq!(value(&point), time.0);
            assert_eq!(value(&SplitPoint::behind_time(time)), time.0 + 1);
            let behind = order.behind(&[Some(CqlValue::Timestamp(time))]);
            assert_eq!(behind, Some(SplitPoint::behind_time(time)));
        }
        assert_eq!((value(&SplitPoint::FIRST), value(&order.last())), (i64::MIN, i64::MAX));
        // A month of rows of one minute each, somewhere in all of time.
        let (first, last) = (1_700_000_000_000, 1_702_592_000_000);
        let (mut start, mut end, mut cuts) = (SplitPoint::FIRST, order.last(), 0);
        while value(&end).saturating_sub(value(&start)) > 60_000 {
            let points = order.between(&start, &end);
            assert!(points.is_sorted_by(|a, b| a < b) && points.len() < PARTS, "{points:?}");
            let all = [vec![start.clone()], points, vec![end.clone()]].concat();
            assert!(all.is_sorted_by(|a, b| value(a) <= value(b)), "{all:?}");
            let at = all.windows(2).find(|slice| value(&slice[1]) > (first + last) / 2);
            let [a, b] = at.expect("one of them") else { unreachable!("two each") };
            (start, end) = (a.clone(), b.clone());
            cuts += 1;
        }
        assert!(cuts <= 10, "{cuts}");
    }
}
