//! Random queries over the series of [`dataset`](super::dataset). The caller makes the choices: a
//! random generator, or the bytes of a fuzzer. Types are usually right, so that most queries can be
//! evaluated.

/// The part of the language that is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Words {
    #[allow(dead_code, reason = "of the tests that compare")]
    /// What Prometheus 3.5 supports without a flag and answers in only one way: no ties to break,
    /// no unspecified order.
    Common,
    /// Everything.
    Every,
}

/// Makes a query. `choose(n)` returns a number; numbers from `n` on count as `n - 1`.
pub(crate) fn expression(choose: &mut dyn FnMut(usize) -> usize, words: Words) -> String {
    let mut writer = Writer { choose, words, left: 24 };
    match writer.below(12) {
        0 => writer.scalar(),
        1 => writer.matrix(),
        _ => writer.vector(),
    }
}

const RANGES: &[&str] = &["1m", "30s", "2m", "5m", "16s", "10m0s"];
const NUMBERS: &[&str] =
    &["2", "0.5", "0", "-1", "1e3", "NaN", "Inf", "-Inf", "0.9", "1.5", "15", "-0.25", "1e-9"];
const LABELS: &[&str] = &["instance", "job", "room", "le", "side", "\"label.dots\"", "__name__"];

/// Functions that map each float of a vector.
const OF_VECTOR: &[&str] = &[
    "abs",
    "ceil",
    "floor",
    "exp",
    "ln",
    "log2",
    "log10",
    "sqrt",
    "sgn",
    "deg",
    "rad",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "timestamp",
    "minute",
    "hour",
    "day_of_month",
    "day_of_week",
    "day_of_year",
    "days_in_month",
    "month",
    "year",
    "absent",
    "round",
    "histogram_count",
    "histogram_sum",
    "histogram_avg",
    "histogram_stddev",
    "histogram_stdvar",
    "sort",
    "sort_desc",
];
const OF_MATRIX: &[&str] = &[
    "rate",
    "increase",
    "delta",
    "irate",
    "idelta",
    "deriv",
    "changes",
    "resets",
    "avg_over_time",
    "sum_over_time",
    "min_over_time",
    "max_over_time",
    "count_over_time",
    "last_over_time",
    "present_over_time",
    "stddev_over_time",
    "stdvar_over_time",
    "absent_over_time",
];
const EXPERIMENTAL_OF_MATRIX: &[&str] = &[
    "first_over_time",
    "mad_over_time",
    "ts_of_first_over_time",
    "ts_of_last_over_time",
    "ts_of_max_over_time",
    "ts_of_min_over_time",
];
const AGGREGATORS: &[&str] =
    &["sum", "avg", "count", "min", "max", "group", "stddev", "stdvar", "quantile", "count_values"];
const ARITHMETIC: &[&str] = &["+", "-", "*", "/", "%", "^", "atan2"];
const COMPARISONS: &[&str] = &["==", "!=", "<", "<=", ">", ">="];
const SETS: &[&str] = &["and", "or", "unless"];

struct Writer<'a> {
    choose: &'a mut dyn FnMut(usize) -> usize,
    words: Words,
    /// Number of further nodes allowed.
    left: usize,
}

impl Writer<'_> {
    fn below(&mut self, end: usize) -> usize {
        (self.choose)(end).min(end - 1)
    }

    fn pick(&mut self, of: &[&'static str]) -> &'static str {
        of[self.below(of.len())]
    }

    fn every(&self) -> bool {
        self.words == Words::Every
    }

    /// Whether another node is allowed.
    fn deeper(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left > 0
    }

    fn selector(&mut self) -> String {
        let (name, matchers) = match self.below(11) {
            0 => ("requests_total", ["instance=\"1\"", "job=~\"a.*\"", "instance!~\"0|3\""]),
            1 => ("temperature", ["room=\"a\"", "room=~\"a|b\"", "room!=\"c\""]),
            2 => ("flapping", ["side=\"left\"", "side!=\"left\"", "side=~\".+\""]),
            3 => ("latency_bucket", ["le=\"0.5\"", "instance=\"1\"", "le!=\"+Inf\""]),
            4 => ("latency_sum", ["instance=\"0\"", "instance=~\"1\"", "instance!=\"\""]),
            5 => ("latency_count", ["instance=\"0\"", "instance=~\"1\"", "instance!=\"\""]),
            6 => ("native", ["instance=\"0\"", "instance=~\"1\"", "instance!=\"1\""]),
            7 => ("native_gauge", ["instance=\"0\"", "instance=~\"1\"", "instance!=\"1\""]),
            8 => ("native_custom", ["instance=\"0\"", "instance=~\"1\"", "instance!=\"1\""]),
            9 => return self.braced(),
            _ => ("requests_total", ["job=\"web\"", "job!=\"web\"", "instance=~\"[12]\""]),
        };
        match self.below(3) {
            0 => format!("{name}{{{}}}", self.pick(&matchers)),
            _ => name.to_owned(),
        }
    }

    /// A selector without a name before the braces.
    fn braced(&mut self) -> String {
        let inner = self.pick(&[
            "\"utf8.metric\"",
            "\"utf8.metric\", \"label.dots\"=~\"x|y\"",
            "__name__=~\"requests_total|temperature\"",
            "__name__=~\"native.*\"",
            "__name__=\"absent\"",
            "job=\"api\", instance!=\"2\"",
        ]);
        format!("{{{inner}}}")
    }

    /// `@` and offset.
    fn when(&mut self) -> &'static str {
        match self.below(5) {
            0 => self.pick(&[
                " offset 1m",
                " offset -45s",
                " @ 1700000600",
                " @ start()",
                " @ end() offset 30s",
                " offset 7s",
            ]),
            _ => "",
        }
    }

    fn matrix(&mut self) -> String {
        let when = self.when();
        if self.deeper() && self.below(4) == 0 {
            let inner = self.vector();
            let range = self.pick(&["2m:30s", "5m:1m", "3m:", "90s:7s"]);
            return format!("({inner})[{range}]{when}");
        }
        let (selector, range) = (self.selector(), self.pick(RANGES));
        let edges = match self.every() && self.below(6) == 0 {
            true => self.pick(&[" anchored", " smoothed"]),
            false => "",
        };
        format!("{selector}[{range}]{edges}{when}")
    }

    fn scalar(&mut self) -> String {
        if !self.deeper() {
            return self.pick(NUMBERS).to_owned();
        }
        match self.below(if self.every() { 9 } else { 7 }) {
            0..=2 => self.pick(NUMBERS).to_owned(),
            3 => format!("scalar({})", self.vector()),
            4 => "time()".to_owned(),
            5 => "pi()".to_owned(),
            6 => {
                let (left, op, right) = (self.scalar(), self.pick(ARITHMETIC), self.scalar());
                format!("({left} {op} {right})")
            }
            7 => self.pick(&["start()", "end()", "step()", "range()"]).to_owned(),
            _ => format!("max_of({}, {})", self.scalar(), self.scalar()),
        }
    }

    fn vector(&mut self) -> String {
        if !self.deeper() {
            return self.selector();
        }
        match self.below(16) {
            0 | 1 => format!("{}{}", self.selector(), self.when()),
            2..=4 => self.of_matrix(),
            5 => format!("{}({})", self.pick(OF_VECTOR), self.vector()),
            6 | 7 => self.aggregation(),
            8 | 9 => self.between_vectors(),
            10 => self.with_scalar(),
            11 => self.of_histograms(),
            12 => self.of_labels(),
            13 => format!("(-{})", self.vector()),
            14 => self.tops(),
            _ if self.every() => self.experimental(),
            _ => format!("vector({})", self.scalar()),
        }
    }

    fn of_matrix(&mut self) -> String {
        match self.below(8) {
            0 => format!("quantile_over_time({}, {})", self.scalar(), self.matrix()),
            1 => format!("predict_linear({}, {})", self.matrix(), self.scalar()),
            2 if self.every() => {
                format!("{}({})", self.pick(EXPERIMENTAL_OF_MATRIX), self.matrix())
            }
            _ => format!("{}({})", self.pick(OF_MATRIX), self.matrix()),
        }
    }

    fn grouping(&mut self) -> String {
        let word = self.pick(&["by", "without"]);
        let first = self.pick(LABELS);
        match self.below(4) {
            0 => String::new(),
            1 => format!(" {word} ()"),
            2 => format!(" {word} ({first}, {})", self.pick(LABELS)),
            _ => format!(" {word} ({first})"),
        }
    }

    fn aggregation(&mut self) -> String {
        let (name, grouping) = (self.pick(AGGREGATORS), self.grouping());
        let argument = match name {
            "quantile" => format!("{}, ", self.scalar()),
            "count_values" => "\"value\", ".to_owned(),
            _ => String::new(),
        };
        format!("{name}{grouping} ({argument}{})", self.vector())
    }

    /// The order of equal series is unspecified: so of few that are equal.
    fn tops(&mut self) -> String {
        let inner = match self.every() {
            true => self.vector(),
            false => self.pick(&["temperature", "rate(requests_total[1m])"]).to_owned(),
        };
        let count = self.pick(&["1", "2", "5", "0"]);
        let (name, grouping) = (self.pick(&["topk", "bottomk"]), self.grouping());
        format!("{name}{grouping} ({count}, {inner})")
    }

    fn between_vectors(&mut self) -> String {
        let op = match self.below(3) {
            0 => self.pick(ARITHMETIC),
            1 => self.pick(COMPARISONS),
            _ => self.pick(SETS),
        };
        let bool = COMPARISONS.contains(&op) && self.below(3) == 0;
        let word = self.pick(&["on", "ignoring"]);
        let mut matching = match self.below(3) {
            0 => String::new(),
            1 => format!(" {word} ({})", self.pick(LABELS)),
            _ => format!(" {word} (instance, job)"),
        };
        if !matching.is_empty() && !SETS.contains(&op) && self.below(3) == 0 {
            let side = self.pick(&["group_left", "group_right"]);
            matching += &format!(" {side} ({})", self.pick(&["", "job", "room"]));
        }
        if self.every() && !SETS.contains(&op) && self.below(6) == 0 {
            matching += self.pick(&[" fill(0)", " fill_left(1) fill_right(2)", " fill_right(NaN)"]);
        }
        let bool = if bool { " bool" } else { "" };
        let (left, right) = match self.below(2) {
            0 => {
                // The same on both sides, so that something matches.
                let one = self.vector();
                (one.clone(), one)
            }
            _ => (self.vector(), self.vector()),
        };
        format!("({left} {op}{bool}{matching} {right})")
    }

    fn with_scalar(&mut self) -> String {
        let (vector, scalar) = (self.vector(), self.scalar());
        let op = match self.below(2) {
            0 => self.pick(ARITHMETIC).to_owned(),
            _ => {
                let op = self.pick(COMPARISONS);
                op.to_owned() + if self.below(3) == 0 { " bool" } else { "" }
            }
        };
        match self.below(if self.every() { 3 } else { 2 }) {
            0 => format!("({scalar} {op} {vector})"),
            1 => format!("({vector} {op} {scalar})"),
            _ => format!("({vector} {} {scalar})", self.pick(&["</", ">/"])),
        }
    }

    fn of_histograms(&mut self) -> String {
        let kind = self.below(5);
        let histograms = match kind {
            0 => "sum by (le) (rate(latency_bucket[2m]))".to_owned(),
            1 => "native".to_owned(),
            2 => "native_custom".to_owned(),
            3 => "latency_bucket".to_owned(),
            _ => self.vector(),
        };
        match self.below(if self.every() { 3 } else { 2 }) {
            0 => format!("histogram_quantile({}, {histograms})", self.scalar()),
            1 => {
                // 3.5 returns NaN for classic histograms and custom bounds if the range begins in the first bucket.
                let lower: &[&str] = match self.every() || kind == 1 {
                    true => &["0.2", "-1", "-Inf", "0"],
                    false => &["0.2", "0.5", "0.1"],
                };
                let (lower, upper) = (self.pick(lower), self.pick(&["0.7", "2", "+Inf", "0.1"]));
                format!("histogram_fraction({lower}, {upper}, {histograms})")
            }
            _ => format!("histogram_quantiles({histograms}, \"q\", 0.5, {})", self.scalar()),
        }
    }

    fn of_labels(&mut self) -> String {
        let vector = self.vector();
        match self.below(6) {
            0 => format!("label_join({vector}, \"to\", \"-\", \"job\", \"instance\")"),
            1 => format!("label_replace({vector}, \"room\", \"$1\", \"instance\", \"([0-2])\")"),
            2 => format!("label_replace({vector}, \"to\", \"x$2\", \"job\", \"(.)(.*)\")"),
            3 => format!("clamp({vector}, {}, {})", self.scalar(), self.scalar()),
            4 => format!("clamp_max({vector}, {})", self.scalar()),
            _ => format!("round({vector}, {})", self.scalar()),
        }
    }

    fn experimental(&mut self) -> String {
        let vector = self.vector();
        match self.below(7) {
            0 => format!("info({vector})"),
            1 => format!("limitk{} (2, {vector})", self.grouping()),
            2 => format!("limit_ratio{} (-0.5, {vector})", self.grouping()),
            3 => format!("sort_by_label({vector}, \"instance\")"),
            4 => format!("double_exponential_smoothing({}, 0.5, 0.5)", self.matrix()),
            5 => format!("start_timestamp({})", self.selector()),
            _ => format!("rate({}[step() + 1m])", self.selector()),
        }
    }
}
