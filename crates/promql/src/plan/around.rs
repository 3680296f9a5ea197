//! What the hints of a selector say of the query around it. The fields have the values that Prometheus gives them, so
//! that a store understands a query of promkairos and the hints of a remote read alike.

use promkairos_model::TimeRange;
use promkairos_storage::QueryHints;

use super::node::Lookup;
use crate::ast::{Aggregate, Grouping};
use crate::signature::Function;
use crate::steps::Steps;

/// The query around an expression.
#[derive(Debug, Clone, Copy)]
pub(super) struct Around<'a> {
    /// The times at which the expression is evaluated. Neither end need be a step, as in Prometheus.
    times: TimeRange,
    /// Milliseconds between two of them; 0 for an instant query.
    step: i64,
    /// The nearest function or aggregation, unless a binary operator is nearer.
    function: &'static str,
    /// The grouping of the aggregation directly around it.
    grouping: Option<&'a Grouping>,
}

impl Around<'_> {
    /// Around the whole query.
    pub(super) fn query(steps: Steps, interval: i64) -> Self {
        let times = TimeRange::new(steps.start, steps.end);
        Self { times, step: interval, function: "", grouping: None }
    }

    /// Inside parentheses, brackets or a sign.
    pub(super) fn inner(self) -> Self {
        Self { grouping: None, ..self }
    }

    /// Around the arguments of a call.
    pub(super) fn call(self, function: Function) -> Self {
        Self { function: function.signature().name, ..self.inner() }
    }

    /// Around the operands of a binary operator.
    pub(super) fn binary(self) -> Self {
        Self { function: "", ..self.inner() }
    }

    /// Around the vector and the parameter of an aggregation.
    pub(super) fn aggregate(self, aggregate: &Aggregate) -> Around<'_> {
        let Self { times, step, .. } = self;
        let grouping = Some(&aggregate.grouping);
        Around { times, step, function: aggregate.op.name(), grouping }
    }

    /// Around the expression of a subquery.
    pub(super) fn subquery(self, lookup: Lookup, range: i64, step: i64) -> Self {
        let TimeRange { start, end } = self.looks(lookup);
        Self { times: TimeRange::new(start.saturating_sub(range), end), step, ..self.inner() }
    }

    /// The hints of a selector with this range, which reads points from `before` (exclusive) to `after` milliseconds
    /// around the times of its lookup.
    pub(super) fn hints(
        self,
        lookup: Lookup,
        range: i64,
        (before, after): (i64, i64),
    ) -> QueryHints {
        let TimeRange { start, end } = self.looks(lookup);
        let (grouping, by) = match self.grouping {
            None => (Vec::new(), false),
            Some(Grouping::By(labels)) => (labels.clone(), true),
            Some(Grouping::Without(labels)) => (labels.clone(), false),
        };
        QueryHints {
            start: start.saturating_sub(before.saturating_sub(1)),
            end: end.saturating_add(after),
            step: self.step,
            function: self.function.into(),
            range,
            grouping,
            by,
        }
    }

    /// The times of a lookup at all times.
    fn looks(self, lookup: Lookup) -> TimeRange {
        TimeRange::new(lookup.time(self.times.start), lookup.time(self.times.end))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Query, plan};
    use super::*;
    use crate::{Features, parse};

    const MINUTE: i64 = 60_000;
    const HOUR: i64 = 60 * MINUTE;
    const LOOKBACK: i64 = 5 * MINUTE;
    /// A range query; the end is not a step.
    const RANGE: (Steps, i64) = (Steps { start: 100_000, end: 205_000, interval: 10_000 }, 10_000);

    /// The hints of each selection.
    fn hints((steps, interval): (Steps, i64), query: &str) -> Vec<Option<QueryHints>> {
        let expr = parse(query, Features::Experimental).expect(query);
        let times = Query { steps, interval, lookback: LOOKBACK, subquery_step: MINUTE };
        let plan = plan(&expr, &times).expect(query);
        plan.selections.iter().map(|one| one.hints.as_deref().cloned()).collect()
    }

    /// Checks start, end, step and range of the only selection.
    fn times(query: &str, want: (i64, i64, i64, i64)) {
        let got = hints(RANGE, query);
        let [Some(got)] = got.as_slice() else { panic!("{query}: {got:?}") };
        assert_eq!((got.start, got.end, got.step, got.range), want, "{query}");
    }

    #[test]
    fn times_are_those_of_prometheus() {
        let lookback = LOOKBACK - 1;
        times("x", (100_000 - lookback, 205_000, 10_000, 0));
        times("rate(x[1m])", (100_000 - 59_999, 205_000, 10_000, MINUTE));
        times("x offset 1h", (100_000 - HOUR - lookback, 205_000 - HOUR, 10_000, 0));
        times("x offset -1m", (160_000 - lookback, 265_000, 10_000, 0));
        times("rate(x[1m] offset 1h)", (100_000 - HOUR - 59_999, 205_000 - HOUR, 10_000, MINUTE));
        times("x @ 170", (170_000 - lookback, 170_000, 10_000, 0));
        times("x @ end()", (205_000 - lookback, 205_000, 10_000, 0));
        times("x @ 170 offset 1m", (110_000 - lookback, 110_000, 10_000, 0));
        times("rate(x[1m] anchored)", (40_000 - lookback, 205_000, 10_000, MINUTE));
        times("rate(x[1m] smoothed)", (40_000 - lookback, 205_000 + LOOKBACK, 10_000, MINUTE));
        times("x smoothed", (100_000 - lookback, 205_000 + LOOKBACK, 10_000, 0));
    }

    #[test]
    fn a_subquery_has_times_of_its_own() {
        let (lookback, start) = (LOOKBACK - 1, 100_000 - HOUR);
        let check = |query, want| times(&format!("max_over_time({query})"), want);
        check("x[1h:]", (start - lookback, 205_000, MINUTE, 0));
        check("rate(x[2m])[1h:30s]", (start - 119_999, 205_000, 30_000, 2 * MINUTE));
        check("(x offset 1h)[1h:30s]", (start - HOUR - lookback, 205_000 - HOUR, 30_000, 0));
        check("x[1h:30s] offset 1m", (start - MINUTE - lookback, 145_000, 30_000, 0));
        check("x[1h:30s] @ 170 offset 1m", (110_000 - HOUR - lookback, 110_000, 30_000, 0));
        check("(x @ 20)[1h:30s] offset 1m", (20_000 - lookback, 20_000, 30_000, 0));
        let inner = start - 11 * MINUTE - lookback;
        check("min_over_time(x[10m:2m] offset 1m)[1h:7m]", (inner, 145_000, 2 * MINUTE, 0));
        check(
            "min_over_time(x[10m:2m] @ 170)[1h:7m]",
            (170_000 - 10 * MINUTE - lookback, 170_000, 2 * MINUTE, 0),
        );
    }

    #[test]
    fn an_instant_query_has_no_step() {
        let check = |query, start, step, range| {
            let want = QueryHints { start, end: 100_000, step, range, ..QueryHints::default() };
            let mut got = hints((Steps::instant(100_000), 0), query);
            let got = got.pop().flatten().expect(query);
            assert_eq!(QueryHints { function: "".into(), ..got }, want, "{query}");
        };
        check("x", 100_001 - LOOKBACK, 0, 0);
        check("x[1m]", 40_001, 0, MINUTE);
        check("rate(x[1m])", 40_001, 0, MINUTE);
        check("max_over_time(x[1m:10s])", 40_001 - LOOKBACK, 10_000, 0);
    }

    #[test]
    fn the_nearest_function_and_the_grouping_directly_around() {
        let check = |query, want: &[(&str, &[&str], bool)]| {
            let got = hints(RANGE, query);
            let got: Vec<_> = got.iter().map(|one| one.as_ref().expect(query)).collect();
            let got: Vec<_> =
                got.iter().map(|one| (&*one.function, &*one.grouping, one.by)).collect();
            assert_eq!(got.len(), want.len(), "{query}");
            for ((function, grouping, by), want) in got.into_iter().zip(want) {
                let grouping: Vec<&str> = grouping.iter().map(String::as_str).collect();
                assert_eq!((function, grouping.as_slice(), by), *want, "{query}");
            }
        };
        check("x", &[("", &[], false)]);
        check("abs(x)", &[("abs", &[], false)]);
        check("-abs(-(x))", &[("abs", &[], false)]);
        check("abs(rate(x[1m]))", &[("rate", &[], false)]);
        check("info(x)", &[("info", &[], false)]);
        check("sum(x)", &[("sum", &[], true)]);
        check("sum by (b, a) (x)", &[("sum", &["b", "a"], true)]);
        check("sum without (a) (x)", &[("sum", &["a"], false)]);
        check("sum by (a) (x @ 100)", &[("sum", &["a"], true)]);
        check("topk by (a) (3, x)", &[("topk", &["a"], true)]);
        check("topk(scalar(y), x)", &[("topk", &[], true), ("scalar", &[], false)]);
        check("quantile by (a) (0.9, x)", &[("quantile", &["a"], true)]);
        // Not directly around.
        check("sum by (a) (rate(x[1m]))", &[("rate", &[], false)]);
        check("sum by (a) ((x))", &[("sum", &[], false)]);
        check("sum by (a) (-x)", &[("sum", &[], false)]);
        // The functions of a subquery.
        check("max_over_time(x[1h:])", &[("max_over_time", &[], false)]);
        check("max_over_time(rate(x[1m])[1h:])", &[("rate", &[], false)]);
        check("max_over_time(sum by (a) (x)[1h:])", &[("sum", &["a"], true)]);
        // An operator between them.
        check("x / y", &[("", &[], false), ("", &[], false)]);
        check("sum by (a) (x > 1)", &[("", &[], false)]);
        check("sum by (a) (x / rate(y[1m]))", &[("", &[], false), ("rate", &[], false)]);
    }

    #[test]
    fn a_selection_with_different_users_has_no_hints() {
        let check = |query, want: bool| {
            let got = hints(RANGE, query);
            assert_eq!((got.len(), got[0].is_some()), (1, want), "{query}");
        };
        check("rate(x[1m]) / rate(x[1m])", true);
        check("rate(x[1m]) / increase(x[1m])", false);
        check("rate(x[1m]) / rate(x[2m])", false);
        check("rate(x[1m]) / rate(x[1m] offset 10s)", false);
        check("sum by (a) (x) / sum by (b) (x)", false);
        check("(x + x) / sum(x) + x", false);
    }
}
