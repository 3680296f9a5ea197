//! Merges the values of several parts into the part that they become.
//!
//! All parts are read side by side, from first value to last. Memory holds the new numbers of rows, a block of each
//! part, and the series of one value. A series whose points are all deleted has no row any more.

use roaring::RoaringBitmap;

use promkairos_storage::StoreError;
use promkairos_storage::codec::Damage;

use super::part::Part;
use super::value_writer::ValueWriter;
use super::values_in_order::{Posted, ValuesInOrder};

/// The new row that each row of an input became part of.
#[derive(Default)]
pub(super) struct NewRows(Vec<u32>);

/// The row has no new row.
const GONE: u32 = u32::MAX;

impl NewRows {
    /// Records what the next row became: the first row of its series.
    pub(super) fn note(&mut self, first: Option<u32>) {
        self.0.push(first.unwrap_or(GONE));
    }
}

/// The values of the parts that are merged.
pub(super) struct MergedValues<'a> {
    inputs: Vec<Input<'a>>,
    /// Rows that continue the series of the row before.
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

    /// Writes all values. Calls `keep` after each.
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
    /// Adds the new rows of `rows`.
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
