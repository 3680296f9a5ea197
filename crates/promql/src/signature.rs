//! The functions: their names, arguments and results.
//!
//! One table, from which the enum [`Function`] is made. The table also holds what the planner has to know of a
//! function. Its rows are sorted by name, because a name is found by binary search.
//!
//! The functions are computed elsewhere: those of a range by the kernels of `functions`, those of one value in
//! `operators::elementwise`, all others in `operators::build`. The compiler does not notice a row without code: a call
//! of that function is an error when the query runs.

use std::fmt;

use super::value_type::ValueType;

/// The signature of a function.
#[derive(Debug, PartialEq, Eq)]
pub struct Signature {
    /// Its name.
    pub name: &'static str,
    /// The types of its arguments.
    pub args: &'static [ValueType],
    /// 0: the function takes exactly these arguments. Otherwise the last argument is optional and
    /// may be repeated up to this number of times, or without limit if negative.
    pub variadic: i8,
    /// The type of its result.
    pub returns: ValueType,
    /// What it reads of native histograms.
    pub histograms: HistogramUse,
    /// Whether it needs the experimental features.
    pub experimental: bool,
    /// Whether its result depends on the time of the step even when its arguments do not.
    pub step_time: bool,
}

/// What a function reads of the native histograms in its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistogramUse {
    /// Only count and sum.
    Totals,
    /// The buckets, however the result is used.
    Buckets,
    /// What the calls around it read of its result.
    AsOfResult,
}

macro_rules! functions {
    ($($variant:ident =
        $name:ident($($arg:ident),* $(; $variadic:literal)?) $(reads $histograms:ident)?
            -> $returns:ident $(, $flag:ident)*;
    )*) => {
        /// A function of PromQL.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "named as in PromQL")]
        pub enum Function { $($variant),* }

        impl Function {
            /// All functions, sorted by name.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The signature.
            pub const fn signature(self) -> &'static Signature {
                match self {
                    $(Self::$variant => const { &Signature {
                        name: stringify!($name),
                        args: &[$(ValueType::$arg),*],
                        variadic: 0 $(+ $variadic)?,
                        returns: ValueType::$returns,
                        histograms: functions!(@histograms $($histograms)?),
                        experimental: false $(|| functions!(@experimental $flag))*,
                        step_time: false $(|| functions!(@step_time $flag))*,
                    } }),*
                }
            }
        }
    };
    (@experimental experimental) => { true };
    (@experimental step_time) => { false };
    (@step_time experimental) => { false };
    (@step_time step_time) => { true };
    (@histograms) => { HistogramUse::AsOfResult };
    (@histograms $histograms:ident) => { HistogramUse::$histograms };
}

functions! {
    Abs = abs(Vector) -> Vector;
    Absent = absent(Vector) reads Totals -> Vector;
    AbsentOverTime = absent_over_time(Matrix) -> Vector;
    Acos = acos(Vector) -> Vector;
    Acosh = acosh(Vector) -> Vector;
    Asin = asin(Vector) -> Vector;
    Asinh = asinh(Vector) -> Vector;
    Atan = atan(Vector) -> Vector;
    Atanh = atanh(Vector) -> Vector;
    AvgOverTime = avg_over_time(Matrix) -> Vector;
    Ceil = ceil(Vector) -> Vector;
    Changes = changes(Matrix) reads Buckets -> Vector;
    Clamp = clamp(Vector, Scalar, Scalar) -> Vector;
    ClampMax = clamp_max(Vector, Scalar) -> Vector;
    ClampMin = clamp_min(Vector, Scalar) -> Vector;
    Cos = cos(Vector) -> Vector;
    Cosh = cosh(Vector) -> Vector;
    CountOverTime = count_over_time(Matrix) -> Vector;
    DayOfMonth = day_of_month(Vector; 1) -> Vector, step_time;
    DayOfWeek = day_of_week(Vector; 1) -> Vector, step_time;
    DayOfYear = day_of_year(Vector; 1) -> Vector, step_time;
    DaysInMonth = days_in_month(Vector; 1) -> Vector, step_time;
    Deg = deg(Vector) -> Vector;
    Delta = delta(Matrix) -> Vector;
    Deriv = deriv(Matrix) -> Vector;
    DoubleExponentialSmoothing =
        double_exponential_smoothing(Matrix, Scalar, Scalar) -> Vector, experimental;
    End = end() -> Scalar, experimental;
    Exp = exp(Vector) -> Vector;
    FirstOverTime = first_over_time(Matrix) -> Vector;
    Floor = floor(Vector) -> Vector;
    HistogramAvg = histogram_avg(Vector) reads Totals -> Vector;
    HistogramCount = histogram_count(Vector) reads Totals -> Vector;
    HistogramFraction = histogram_fraction(Scalar, Scalar, Vector) reads Buckets -> Vector;
    HistogramQuantile = histogram_quantile(Scalar, Vector) reads Buckets -> Vector;
    HistogramQuantiles =
        histogram_quantiles(Vector, String, Scalar, Scalar; 9) reads Buckets
            -> Vector, experimental;
    HistogramStddev = histogram_stddev(Vector) reads Buckets -> Vector;
    HistogramStdvar = histogram_stdvar(Vector) reads Buckets -> Vector;
    HistogramSum = histogram_sum(Vector) reads Totals -> Vector;
    Hour = hour(Vector; 1) -> Vector, step_time;
    Idelta = idelta(Matrix) -> Vector;
    Increase = increase(Matrix) -> Vector;
    Info = info(Vector, Vector; 1) -> Vector, experimental;
    Integral = integral(Matrix, Scalar; 1) -> Vector, experimental;
    Irate = irate(Matrix) -> Vector;
    LabelJoin = label_join(Vector, String, String, String; -1) -> Vector;
    LabelReplace = label_replace(Vector, String, String, String, String) -> Vector;
    LastOverTime = last_over_time(Matrix) -> Vector;
    Ln = ln(Vector) -> Vector;
    Log10 = log10(Vector) -> Vector;
    Log2 = log2(Vector) -> Vector;
    MadOverTime = mad_over_time(Matrix) -> Vector, experimental;
    MaxOf = max_of(Scalar, Scalar) -> Scalar, experimental;
    MaxOverTime = max_over_time(Matrix) -> Vector;
    MinOf = min_of(Scalar, Scalar) -> Scalar, experimental;
    MinOverTime = min_over_time(Matrix) -> Vector;
    Minute = minute(Vector; 1) -> Vector, step_time;
    Month = month(Vector; 1) -> Vector, step_time;
    Pi = pi() -> Scalar;
    PredictLinear = predict_linear(Matrix, Scalar) -> Vector, step_time;
    PresentOverTime = present_over_time(Matrix) -> Vector;
    QuantileOverTime = quantile_over_time(Scalar, Matrix) -> Vector;
    Rad = rad(Vector) -> Vector;
    Range = range() -> Scalar, experimental;
    Rate = rate(Matrix) -> Vector;
    Resets = resets(Matrix) -> Vector;
    Round = round(Vector, Scalar; 1) -> Vector;
    Scalar = scalar(Vector) -> Scalar;
    Sgn = sgn(Vector) -> Vector;
    Sin = sin(Vector) -> Vector;
    Sinh = sinh(Vector) -> Vector;
    Sort = sort(Vector) -> Vector;
    SortByLabel = sort_by_label(Vector, String; -1) -> Vector, experimental;
    SortByLabelDesc = sort_by_label_desc(Vector, String; -1) -> Vector, experimental;
    SortDesc = sort_desc(Vector) -> Vector;
    Sqrt = sqrt(Vector) -> Vector;
    Start = start() -> Scalar, experimental;
    StartTimestamp = start_timestamp(Vector) reads Totals -> Vector, experimental;
    StddevOverTime = stddev_over_time(Matrix) -> Vector;
    StdvarOverTime = stdvar_over_time(Matrix) -> Vector;
    Step = step() -> Scalar, experimental;
    SumOverTime = sum_over_time(Matrix) -> Vector;
    Tan = tan(Vector) -> Vector;
    Tanh = tanh(Vector) -> Vector;
    Time = time() -> Scalar, step_time;
    Timestamp = timestamp(Vector) reads Totals -> Vector, step_time;
    TsOfFirstOverTime = ts_of_first_over_time(Matrix) -> Vector, experimental;
    TsOfLastOverTime = ts_of_last_over_time(Matrix) -> Vector, experimental;
    TsOfMaxOverTime = ts_of_max_over_time(Matrix) -> Vector, experimental;
    TsOfMinOverTime = ts_of_min_over_time(Matrix) -> Vector, experimental;
    Vector = vector(Scalar) -> Vector;
    Year = year(Vector; 1) -> Vector, step_time;
}

impl Function {
    /// The function with this name; names are in lower case.
    pub fn named(name: &str) -> Option<Self> {
        let at = Self::ALL.binary_search_by(|function| function.name().cmp(name)).ok()?;
        Some(Self::ALL[at])
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        self.signature().name
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_is_found_by_its_name() {
        for &function in Function::ALL {
            assert_eq!(Function::named(function.name()), Some(function));
        }
        assert_eq!(Function::named("Rate"), None);
        assert_eq!(Function::named("sum"), None);
    }

    #[test]
    fn what_may_be_left_out_is_the_last() {
        let round = Function::Round.signature();
        assert_eq!((round.args.len(), round.variadic), (2, 1));
        assert_eq!(Function::LabelJoin.signature().variadic, -1);
        assert!(Function::Info.signature().experimental);
        assert!(!Function::Rate.signature().experimental);
    }

    #[test]
    fn flags_do_not_stand_for_each_other() {
        let flags = |function: Function| {
            let signature = function.signature();
            (signature.experimental, signature.step_time)
        };
        assert_eq!(flags(Function::Rate), (false, false));
        assert_eq!(flags(Function::Step), (true, false));
        assert_eq!(flags(Function::Hour), (false, true));
    }

    #[test]
    fn what_is_read_of_histograms_depends_on_the_result_unless_said() {
        let reads = |function: Function| function.signature().histograms;
        assert_eq!(reads(Function::StartTimestamp), HistogramUse::Totals);
        assert_eq!(reads(Function::HistogramQuantiles), HistogramUse::Buckets);
        assert_eq!(reads(Function::Rate), HistogramUse::AsOfResult);
    }
}
