//! Reduces histograms with a schema above 8 to schema 8.
//!
//! Each step merges two neighbouring buckets: index `i` becomes `ceil(i / 2^steps)`. The result has the fewest spans
//! possible. Adding counts never fails: validated counts cannot overflow, and others wrap.

use super::native::{Counts, Histogram, Span, counts_of};

/// The highest schema that is stored.
const MAX_SCHEMA: i32 = 8;

impl Histogram {
    /// Reduces schemas above 8 to 8; other histograms stay as they are. Call it after
    /// [`Histogram::validate`].
    pub fn reduce_resolution(&mut self) {
        if self.schema <= MAX_SCHEMA {
            return;
        }
        // After 31 steps every 32-bit index is -1, 0 or 1.
        let steps = (self.schema - MAX_SCHEMA) as u32;
        self.schema = MAX_SCHEMA;
        match &mut self.counts {
            Counts::Integer { positive, negative, .. } => {
                reduce_deltas(&mut self.positive_spans, positive, steps);
                reduce_deltas(&mut self.negative_spans, negative, steps);
            }
            Counts::Float { positive, negative, .. } => {
                *positive = reduce(&mut self.positive_spans, positive, steps, |a, b| a + b);
                *negative = reduce(&mut self.negative_spans, negative, steps, |a, b| a + b);
            }
        }
    }
}

fn reduce_deltas(spans: &mut Vec<Span>, deltas: &mut Vec<i64>, steps: u32) {
    let counts: Vec<i64> = counts_of(deltas).collect();
    let mut before = 0i64;
    *deltas = reduce(spans, &counts, steps, i64::wrapping_add);
    for count in deltas {
        (*count, before) = (count.wrapping_sub(before), *count);
    }
}

/// Merges buckets and returns their counts; `spans` becomes the spans of the result.
fn reduce<T: Copy>(
    spans: &mut Vec<Span>,
    counts: &[T],
    steps: u32,
    add: impl Fn(T, T) -> T,
) -> Vec<T> {
    let mut reduced: Vec<Span> = Vec::new();
    let mut merged: Vec<T> = Vec::new();
    let mut last: Option<i64> = None;
    for (index, &count) in bucket_indexes(spans).zip(counts) {
        // Rounds up for negative indexes too: the shift rounds down.
        let target = (index.wrapping_sub(1) >> steps.min(63)) + 1;
        match (last, merged.last_mut()) {
            (Some(before), Some(sum)) if before == target => *sum = add(*sum, count),
            _ => {
                merged.push(count);
                push_bucket(&mut reduced, last, target);
            }
        }
        last = Some(target);
    }
    *spans = reduced;
    merged
}

fn bucket_indexes(spans: &[Span]) -> impl Iterator<Item = i64> {
    let mut next = 0i64;
    spans.iter().flat_map(move |span| {
        let first = next + i64::from(span.offset);
        next = first + i64::from(span.length);
        first..next
    })
}

/// Appends the bucket `index` to `spans`, whose last bucket so far is `last`.
fn push_bucket(spans: &mut Vec<Span>, last: Option<i64>, index: i64) {
    let gap = index - last.map_or(0, |last| last + 1);
    match spans.last_mut() {
        Some(span) if gap == 0 => span.length += 1,
        // At least one step halves the 32-bit index, so the gap fits.
        _ => spans.push(Span { offset: gap as i32, length: 1 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ResetHint;

    fn float(schema: i32, positive: &[(i32, u32)], counts: &[f64]) -> Histogram {
        let span = |&(offset, length): &(i32, u32)| Span { offset, length };
        Histogram {
            schema,
            zero_threshold: 0.001,
            sum: 1.0,
            reset_hint: ResetHint::Unknown,
            positive_spans: positive.iter().map(span).collect(),
            negative_spans: Vec::new(),
            custom_values: Vec::new(),
            counts: Counts::Float {
                count: counts.iter().sum(),
                zero_count: 0.0,
                positive: counts.to_vec(),
                negative: Vec::new(),
            },
        }
    }

    #[test]
    fn two_neighbours_become_one() {
        // Indexes -2 -1 0 1 2 3 and 6 become -1 0 0 1 1 2 and 3.
        let mut histogram = float(9, &[(-2, 6), (2, 1)], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
        histogram.reduce_resolution();
        assert_eq!(histogram, float(8, &[(-1, 5)], &[1.0, 5.0, 9.0, 6.0, 7.0]));
        let same = histogram.clone();
        histogram.reduce_resolution();
        assert_eq!(histogram, same);
    }

    #[test]
    fn integer_counts_stay_deltas() {
        let mut histogram = float(10, &[(0, 2), (10, 3)], &[]);
        histogram.counts = Counts::Integer {
            count: 14,
            zero_count: 0,
            positive: vec![1, 1, 2, -1, 0],
            negative: Vec::new(),
        };
        histogram.validate().expect_err("count is 12");
        histogram.counts = Counts::Integer {
            count: 13,
            zero_count: 0,
            positive: vec![1, 1, 2, -1, 0],
            negative: Vec::new(),
        };
        histogram.validate().expect("1 + 2 + 4 + 3 + 3");
        histogram.reduce_resolution();
        // Indexes 0 1 12 13 14 become 0 1 3 4 4.
        let mut want = float(8, &[(0, 2), (1, 2)], &[]);
        want.counts = Counts::Integer {
            count: 13,
            zero_count: 0,
            positive: vec![1, 1, 2, 2],
            negative: Vec::new(),
        };
        assert_eq!(histogram, want);
        histogram.validate().expect("still valid");
    }

    #[test]
    fn the_widest_indexes_and_the_highest_schema() {
        let ends = [(i32::MIN + 1, 1), (i32::MAX, 1), (i32::MAX - 3, 1)];
        for schema in [9, 20, 39, 40, 52] {
            let mut histogram = float(schema, &ends, &[1.0, 2.0, 3.0]);
            histogram.validate().expect("valid");
            histogram.reduce_resolution();
            histogram.validate().expect("still valid");
            assert_eq!(histogram.schema, 8);
        }
    }

    #[test]
    fn contradictions_do_no_harm() {
        let mut histogram = float(20, &[(i32::MAX, u32::MAX), (i32::MIN, 7)], &[1.0]);
        histogram.reduce_resolution();
        assert_eq!(histogram.schema, 8);
        let mut histogram = float(20, &[], &[1.0]);
        histogram.counts = Counts::Integer {
            count: 0,
            zero_count: 0,
            positive: vec![i64::MAX, i64::MAX, i64::MIN],
            negative: vec![1],
        };
        histogram.positive_spans = vec![Span { offset: 1, length: 3 }];
        histogram.reduce_resolution();
    }
}
