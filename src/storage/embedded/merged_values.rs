//! The values of several parts as those of the part that they become.
//!
//! Each part is read from its first value to its last, all side by side, so memory has the new numbers of rows, a
//! block of each part, and the series of one value. What was deleted with all its points is in no row any more.

use roaring::RoaringBitmap;

use crate::storage::StoreError;
use crate::storage::codec::Damage;

use super::part::Part;
use super::value_writer::ValueWriter;
use super::values_in_order::{Posted, ValuesInOrder};

/// The row that an input's row has become a part of, by its number.
#[derive(Default)]
pub(super) struct NewRows(Vec<u32>);

/// No row.
const GONE: u32 = u32::MAX;

impl NewRows {
    /// Notes what the next row has become: the first of the rows of its series.
    pub(super) fn note(&mut self, first: Option<u32>) {
        self.0.push(first.unwrap_or(GONE));
    }
}

/// Parts that are merged.
pub(super) struct MergedValues<'a> {
    inputs: Vec<Input<'a>>,
    /// Rows that have more of the series of the row before.
    continued: &'a RoaringBitmap,
}

struct Input<'a> {
    part: &'a Part,
    rows: &'a NewRows,
    values: ValuesInOrder<'a>,
    head: Option<Posted>,
}

impl<'a> MergedValues<'a> {
    pub(super) fn new(
        parts: impl IntoIterator<Item = (&'a Part, &'a NewRows)>,
        continued: &'a RoaringBitmap,
    ) -> Result<Self, StoreError> {
        let mut inputs = Vec::new();
        for (part, rows) in parts {
            let mut values = ValuesInOrder::new(part.reader()?);
            let head = values.next()?;
            inputs.push(Input { part, rows, values, head });
        }
        Ok(Self { inputs, continued })
    }

    /// Writes all of them. Calls `keep` after each.
    pub(super) fn write(
        mut self,
        out: &mut ValueWriter<'_>,
        keep: &mut dyn FnMut(),
    ) -> Result<(), StoreError> {
        let label = |posted: &Posted| (posted.name.clone(), posted.value.clone());
        loop {
            let heads = self.inputs.iter().filter_map(|input| input.head.as_ref());
            let least = heads.min_by(|a, b| (&a.name, &a.value).cmp(&(&b.name, &b.value)));
            let Some((name, value)) = least.map(label) else { return Ok(()) };
            let mut series = RoaringBitmap::new();
            for input in &mut self.inputs {
                if let Some(head) = &input.head
                    && head.name == name
                    && head.value == value
                {
                    input.add(&head.series, self.continued, &mut series)?;
                    input.head = input.values.next()?;
                }
            }
            if !series.is_empty() {
                out.put(&name, &value, series)?;
            }
            keep();
        }
    }
}

impl Input<'_> {
    /// Adds what rows of this part have become.
    fn add(
        &self,
        rows: &RoaringBitmap,
        continued: &RoaringBitmap,
        series: &mut RoaringBitmap,
    ) -> Result<(), StoreError> {
        let mut last = None;
        let mut new = Vec::new();
        for row in rows {
            let first = self.rows.0.get(row as usize).copied();
            let first =
                first.ok_or_else(|| self.part.damage(0, Damage("postings of no series")))?;
            if first == GONE || last == Some(first) {
                continue;
            }
            last = Some(first);
            new.push(first);
            let more = continued.range(first + 1..).zip(first + 1..);
            new.extend(more.take_while(|(is, next)| is == next).map(|(_, next)| next));
        }
        // Both sides are in order of labels.
        let new = RoaringBitmap::from_sorted_iter(new)
            .map_err(|_| self.part.damage(0, Damage("series are not in order")))?;
        *series |= new;
        Ok(())
    }
}
