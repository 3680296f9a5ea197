//! Kernels of functions: computations on the points of one series in one window, and on sets of
//! floats.
//!
//! Pure: no series, no steps, no storage. Notes about a result are added to [`Notes`]. Functions
//! of one value at a step are in `operators`.

#[cfg(test)]
mod cases;
mod changes;
mod extended;
mod growth;
mod histogram_rate;
mod instant_rate;
mod integral;
mod interpolate;
mod over_time;
mod quantile;
mod rate;
mod start_time;
mod sums;
mod trend;
mod window;

pub use growth::{Growth, Metric};
pub use interpolate::{float_between, histogram_between};
pub use quantile::{nan_first, quantile};
pub use rate::{Extrapolation, each};
pub use sums::Average;
pub use trend::check_smoothing;
pub use window::{FloatPoint, HistogramPoint, Notes, Window};

use super::points::Value;
use super::signature::Function;
use over_time::{best, seconds};

/// The arguments of a range function in addition to its window.
#[derive(Debug, Clone, Copy, Default)]
pub struct Arguments {
    /// The time of the step, in milliseconds since 1970.
    pub time: i64,
    /// The scalar arguments in their order; 0 where there is none.
    pub scalars: [f64; 2],
}

/// Computes a range function in one window; `None` where it has no value.
pub type RangeKernel = fn(&Window<'_>, &Arguments, &mut Notes<'_>) -> Option<Value>;

/// The kernel of a function of a range vector. `None` for other functions, and for
/// `absent_over_time`, which depends on all series.
pub fn range_kernel(function: Function) -> Option<RangeKernel> {
    macro_rules! kernels {
        ($($value:ident: $name:ident => |$w:pat_param, $a:pat_param, $n:pat_param| $call:expr;)*) => {
            match function {
                $(Function::$name => |$w, $a, $n| kernels!(@$value $call),)*
                _ => return None,
            }
        };
        (@float $call:expr) => { $call.map(Value::Float) };
        (@value $call:expr) => { $call };
    }
    Some(kernels! {
        value: Rate => |w, _, n| rate::growth(Growth::Rate, w, n);
        value: Increase => |w, _, n| rate::growth(Growth::Increase, w, n);
        value: Delta => |w, _, n| rate::growth(Growth::Delta, w, n);
        value: Irate => |w, _, n| instant_rate::last_two(w, true, n);
        value: Idelta => |w, _, n| instant_rate::last_two(w, false, n);
        float: Changes => |w, _, _| changes::changes(w);
        float: Resets => |w, _, _| changes::resets(w);
        float: Deriv => |w, _, n| trend::deriv(w, n);
        float: PredictLinear => |w, a, n| trend::predict_linear(a.scalars[0], a.time, w, n);
        float: DoubleExponentialSmoothing => |w, a, n| {
            trend::double_exponential_smoothing(a.scalars[0], a.scalars[1], w, n)
        };
        float: Integral => |w, a, n| integral::integral(a.scalars[0], w, n);
        value: SumOverTime => |w, _, n| sums::sum_over_time(w, n);
        value: AvgOverTime => |w, _, n| sums::avg_over_time(w, n);
        value: FirstOverTime => |w, _, _| w.first();
        value: LastOverTime => |w, _, _| w.last();
        float: CountOverTime => |w, _, _| over_time::count_over_time(w);
        float: PresentOverTime => |w, _, _| (!w.is_empty()).then_some(1.0);
        float: MaxOverTime => |w, _, n| best(w, n, |a, b| a > b).map(|best| best.value);
        float: MinOverTime => |w, _, n| best(w, n, |a, b| a < b).map(|best| best.value);
        float: StddevOverTime => |w, _, n| over_time::stdvar_over_time(w, n).map(f64::sqrt);
        float: StdvarOverTime => |w, _, n| over_time::stdvar_over_time(w, n);
        float: MadOverTime => |w, _, n| over_time::mad_over_time(w, n);
        float: QuantileOverTime => |w, a, n| over_time::quantile_over_time(a.scalars[0], w, n);
        float: TsOfFirstOverTime => |w, _, _| over_time::ts_of_first_over_time(w);
        float: TsOfLastOverTime => |w, _, _| over_time::ts_of_last_over_time(w);
        float: TsOfMaxOverTime => |w, _, n| best(w, n, |a, b| a >= b).map(|best| seconds(best.time));
        float: TsOfMinOverTime => |w, _, n| best(w, n, |a, b| a <= b).map(|best| seconds(best.time));
    })
}
