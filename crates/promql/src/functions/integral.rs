//! `integral`: the area under the floats of a window, with time in seconds.
//!
//! The area between two samples is a rectangle with the height of the earlier or the later sample,
//! or a trapezium. NaN counts as 0. The areas are summed with compensation. Histograms are ignored.

use super::window::{FloatPoint, Notes, Window};
use crate::annotations::Note;
use crate::histogram::Kahan;

/// The height of the area between two samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strategy {
    /// The value of the earlier sample.
    Before,
    /// The value of the later sample.
    After,
    /// The mean of both.
    Mean,
}

impl Strategy {
    /// The strategy with this number.
    fn numbered(number: f64) -> Option<Self> {
        [Self::Before, Self::After, Self::Mean]
            .into_iter()
            .zip([0.0, 1.0, 2.0])
            .find_map(|(strategy, its)| (number == its).then_some(strategy))
    }

    /// The value between two samples.
    fn between(self, before: f64, after: f64) -> Kahan {
        let (a, b) = match self {
            Self::Before => return Kahan { sum: before, error: 0.0 },
            Self::After => return Kahan { sum: after, error: 0.0 },
            Self::Mean => (before, after),
        };
        let mut sum = Kahan { sum: a, error: 0.0 };
        sum.add(b);
        if sum.sum.is_infinite() && a.is_finite() && b.is_finite() {
            let mut halves = Kahan { sum: a / 2.0, error: 0.0 };
            halves.add(b / 2.0);
            return halves;
        }
        Kahan { sum: sum.sum / 2.0, error: sum.error / 2.0 }
    }
}

/// `integral`. An unknown strategy adds a note and counts as the mean.
pub(super) fn integral(number: f64, window: &Window<'_>, notes: &mut Notes<'_>) -> Option<f64> {
    if window.floats.is_empty() {
        return None;
    }
    window.note_ignored(notes);
    let strategy = Strategy::numbered(number).unwrap_or_else(|| {
        notes.add_about_argument(Note::invalid_strategy(number));
        Strategy::Mean
    });
    let value = |point: &FloatPoint| if point.value.is_nan() { 0.0 } else { point.value };
    let mut area = Kahan::default();
    for pair in window.floats.windows(2) {
        let height = strategy.between(value(&pair[0]), value(&pair[1]));
        if height.sum != 0.0 || height.error != 0.0 {
            let seconds = (pair[1].time - pair[0].time) as f64 / 1000.0;
            area.error += height.error * seconds;
            area.add(height.sum * seconds);
        }
    }
    Some(if area.sum.is_infinite() { area.sum } else { area.sum + area.error })
}

#[cfg(test)]
mod tests {
    use super::super::cases::{floats, histograms, noted, window};
    use super::*;
    use crate::histogram::cases::positive;

    fn of(number: f64, values: &[f64]) -> (Option<f64>, usize) {
        let points = floats(values);
        let (area, notes) =
            noted(|notes| integral(number, &window(0, 60_000, &points, &[]), notes));
        (area, notes.len())
    }

    #[test]
    fn areas_of_all_strategies() {
        // Samples at 0, 15, 30, 45 s.
        let values = [2.0, 4.0, f64::NAN, 8.0];
        assert_eq!(of(0.0, &values), (Some(15.0 * 6.0), 0));
        assert_eq!(of(1.0, &values), (Some(15.0 * 12.0), 0));
        assert_eq!(of(2.0, &values), (Some(15.0 * 9.0), 0));
        assert_eq!(of(2.0, &[3.0]), (Some(0.0), 0));
        assert_eq!(of(2.0, &[]), (None, 0));
        let huge = of(2.0, &[f64::MAX, f64::MAX]).0.expect("two samples");
        assert_eq!(huge, f64::INFINITY, "15 s of it");
    }

    #[test]
    fn other_strategies_are_told() {
        for number in [-1.0, 0.5, 3.0, f64::NAN, f64::INFINITY] {
            assert_eq!(of(number, &[2.0, 4.0]), (Some(45.0), 1), "{number}");
        }
        assert_eq!(of(-0.0, &[2.0, 4.0]), (Some(30.0), 0));
    }

    #[test]
    fn histograms_are_left_out() {
        let (f, h) = (floats(&[1.0, 2.0]), histograms(&[positive(0, 0, &[1.0], 1.0)]));
        let (area, notes) = noted(|notes| integral(0.0, &window(0, 60_000, &f, &h), notes));
        assert_eq!((area, notes.len()), (Some(15.0), 1));
        let (area, notes) = noted(|notes| integral(0.0, &window(0, 60_000, &[], &h), notes));
        assert_eq!((area, notes.len()), (None, 0));
    }
}
