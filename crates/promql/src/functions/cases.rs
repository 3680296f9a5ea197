//! Points, windows and notes for the tests of kernels.

use std::sync::Arc;

use super::window::{FloatPoint, HistogramPoint, Notes, Window};
use crate::annotations::{Annotations, Note};
use crate::histogram::FloatHistogram;
use crate::position::Span;

/// Points every 15 seconds from 0 on. The window is (−15 s, last point].
pub(crate) fn floats(values: &[f64]) -> Vec<FloatPoint> {
    values.iter().zip(0i64..).map(|(v, i)| FloatPoint { time: i * 15_000, value: *v }).collect()
}

pub(crate) fn histograms(values: &[FloatHistogram]) -> Vec<HistogramPoint> {
    let points = values.iter().zip(0i64..);
    points.map(|(h, i)| HistogramPoint { time: i * 15_000, value: Arc::new(h.clone()) }).collect()
}

pub(crate) fn window<'a>(
    start: i64,
    end: i64,
    floats: &'a [FloatPoint],
    histograms: &'a [HistogramPoint],
) -> Window<'a> {
    Window {
        start,
        end,
        floats,
        float_starts: &[],
        histograms,
        histogram_starts: &[],
        edges: None,
        lookback: 0,
    }
}

/// The result of `kernel`, and the texts of its notes.
pub(crate) fn noted<T>(kernel: impl FnOnce(&mut Notes<'_>) -> T) -> (T, Vec<String>) {
    let mut annotations = Annotations::default();
    let span = Span::default();
    let (metric, last_argument) = ("m", span);
    let annotations_of = &mut annotations;
    let result = kernel(&mut Notes { metric, span, last_argument, annotations: annotations_of });
    (result, annotations.notes().map(Note::to_string).collect())
}
