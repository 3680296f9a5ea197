//! Further ways to ask an instant query of a script: pinned to its time by `@` and evaluated at
//! other times, and as the middle of a range.

use promkairos::model::Labels;
use promkairos::promql::ast::{At, Expr};
use promkairos::promql::{Function, Syntax, parse};

use super::compare::{Answer, Sample};
use super::{Eval, When};

/// A query and the time at which it is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variant {
    pub(crate) expr: String,
    pub(crate) time: i64,
}

/// The query itself, and the query with every selector pinned to its time, at other times. The
/// latter is left out if the query depends on the time otherwise. An error is a parse error.
pub(crate) fn pinned(eval: &Eval) -> Result<Vec<Variant>, String> {
    let When::Instant(time) = eval.when else { return Ok(Vec::new()) };
    let mut all = vec![Variant { expr: eval.expr.clone(), time }];
    let mut expr = match parse(&eval.expr, Syntax::ALL) {
        Ok(expr) => expr,
        Err(_) if eval.expected.failure.is_some() => return Ok(all),
        Err(error) => return Err(error.to_string()),
    };
    if pin(&mut expr, time) {
        let others = match time {
            0 => vec![-1000, 0, 1000],
            _ => vec![-10 * time, 0, time / 5, time, 10 * time],
        };
        let expr = expr.to_string();
        all.extend(others.into_iter().map(|time| Variant { expr: expr.clone(), time }));
    }
    Ok(all)
}

/// Pins selectors and subqueries. Returns whether nothing else depends on the time.
fn pin(expr: &mut Expr, time: i64) -> bool {
    let pinned = |at: &mut Option<At>| {
        at.get_or_insert(At::Time(time));
    };
    match expr {
        Expr::Number(_) | Expr::String(_) => true,
        Expr::Selector(selector) => {
            pinned(&mut selector.when.at);
            true
        }
        Expr::Matrix(matrix) => {
            pinned(&mut matrix.selector.when.at);
            true
        }
        Expr::Subquery(subquery) => {
            // The inner times of a pinned subquery follow from its own time.
            pinned(&mut subquery.when.at);
            true
        }
        Expr::Call(call) => {
            let mut timeless = !looks_at_time(call.function);
            for arg in &mut call.args {
                timeless &= pin(arg, time);
            }
            timeless
        }
        Expr::Aggregate(aggregate) => {
            let param = aggregate.param.as_mut().is_none_or(|param| pin(param, time));
            pin(&mut aggregate.expr, time) && param
        }
        Expr::Binary(binary) => {
            let left = pin(&mut binary.lhs, time);
            pin(&mut binary.rhs, time) && left
        }
        Expr::Unary(unary) => pin(&mut unary.expr, time),
        Expr::Paren(paren) => pin(&mut paren.expr, time),
    }
}

/// Whether the result of a function depends on the time, whatever its arguments.
fn looks_at_time(function: Function) -> bool {
    matches!(
        function,
        Function::DaysInMonth
            | Function::DayOfMonth
            | Function::DayOfWeek
            | Function::DayOfYear
            | Function::Hour
            | Function::Minute
            | Function::Month
            | Function::Year
            | Function::PredictLinear
            | Function::Time
            | Function::Timestamp
            | Function::Start
            | Function::End
            | Function::Step
            | Function::Range
    )
}

/// A range with the same query in its middle, if there is one: start, end and step.
pub(crate) fn as_range(eval: &Eval, variant: &Variant) -> Option<(i64, i64, i64)> {
    const MINUTE: i64 = 60_000;
    let asks_for_times =
        ["start()", "end()", "range()", "step()"].iter().any(|call| variant.expr.contains(call));
    let expected = &eval.expected;
    let other = expected.ordered || expected.string.is_some() || expected.range.is_some();
    let usual = !asks_for_times && !other && expected.failure.is_none();
    usual.then_some((variant.time - MINUTE, variant.time + MINUTE, MINUTE))
}

/// The middle of the answer to that range as an answer at `time`; of a scalar query as a scalar.
pub(crate) fn middle(series: Vec<(Labels, Vec<(i64, Sample)>)>, time: i64, scalar: bool) -> Answer {
    let at = |(labels, values): (Labels, Vec<(i64, Sample)>)| {
        let value = values.into_iter().find(|(at, _)| *at == time);
        Some((labels, value?.1))
    };
    let vector: Vec<_> = series.into_iter().filter_map(at).collect();
    match &vector[..] {
        [(_, Sample::Float(value))] if scalar => Answer::Scalar(*value),
        _ => Answer::Vector(vector),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Command, parse as script};
    use super::*;

    fn eval(text: &str) -> Eval {
        match script(text).expect("valid").pop() {
            Some(Command::Eval(eval)) => *eval,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn selectors_are_pinned() {
        let eval = eval("eval instant at 10s rate(a[1m]) + sum(b offset 5s) + c @ 3\n");
        let all = pinned(&eval).expect("valid");
        let times: Vec<i64> = all.iter().map(|variant| variant.time).collect();
        assert_eq!(times, [10_000, -100_000, 0, 2_000, 10_000, 100_000]);
        assert_eq!(all[1].expr, "rate(a[1m] @ 10.000) + sum(b @ 10.000 offset 5s) + c @ 3.000");
    }

    #[test]
    fn what_looks_at_the_time_is_asked_once() {
        assert_eq!(pinned(&eval("eval instant at 10s timestamp(a)\n")).expect("valid").len(), 1);
        let inside = eval("eval instant at 10s max_over_time(timestamp(a)[1m:1s])\n");
        let all = pinned(&inside).expect("valid");
        assert_eq!(all[1].expr, "max_over_time(timestamp(a)[1m:1s] @ 10.000)");
        assert_eq!(pinned(&eval("eval instant at 0 a\n")).expect("valid")[1].time, -1000);
    }

    #[test]
    fn ranges_around() {
        let plain = eval("eval instant at 10s a\n  a 1\n");
        let variant = Variant { expr: "a".to_owned(), time: 10_000 };
        assert_eq!(as_range(&plain, &variant), Some((-50_000, 70_000, 60_000)));
        let ordered = eval("eval instant at 10s a\n  expect ordered\n  a 1\n");
        assert_eq!(as_range(&ordered, &variant), None);
        let variant = Variant { expr: "a + step()".to_owned(), time: 10_000 };
        assert_eq!(as_range(&plain, &variant), None);
    }
}
