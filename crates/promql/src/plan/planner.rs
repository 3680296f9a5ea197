//! Makes the plan of a syntax tree.

use super::around::Around;
use super::invariance::{Invariance, once};
use super::node::{
    Aggregate, Argument, Binary, Call, Lookup, Node, Operand, Plan, Range, ResetHints, Selector,
    Source,
};
use super::selection::Selections;
use crate::ast::{self, At, Edges, Expr, Grouping, When};
use crate::duration::{Allowed, Duration, DurationError, QueryTimes};
use crate::operator::{Aggregator, BinaryOp, Sign};
use crate::signature::{Function, HistogramUse};
use crate::steps::Steps;
use crate::value_type::ValueType;
use promkairos_model::TimeRange;

/// The times of a query, and the defaults where its text names none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Query {
    /// When it is evaluated.
    pub steps: Steps,
    /// Milliseconds between two steps as the client asked; 0 for an instant query.
    pub interval: i64,
    /// The lookback delta in milliseconds.
    pub lookback: i64,
    /// Step of a subquery that names none, in milliseconds.
    pub subquery_step: i64,
}

/// Plans an expression.
pub(crate) fn plan(expr: &Expr, query: &Query) -> Result<Plan, DurationError> {
    let selections = Selections::default();
    let mut planner = Planner { query, selections, only_totals: 0, whole: 0 };
    let node = planner.node(expr, query.steps, Around::query(query.steps, query.interval))?;
    Ok(Plan { root: once(node), selections: planner.selections })
}

struct Planner<'a> {
    query: &'a Query,
    selections: Selections,
    /// Calls around the current node that read only count and sum of a histogram.
    only_totals: usize,
    /// Nodes around the current one that need whole histograms.
    whole: usize,
}

type Planned = Result<(Node, Invariance), DurationError>;

impl Planner<'_> {
    fn node(&mut self, expr: &Expr, steps: Steps, around: Around<'_>) -> Planned {
        let around = if matches!(expr, Expr::Paren(_)) { around.inner() } else { around };
        Ok(match expr.without_parens() {
            Expr::Number(number) => (Node::Number(number.value), Invariance::Plain),
            Expr::String(text) => (Node::String(text.clone()), Invariance::Plain),
            Expr::Selector(selector) => self.selector(selector, steps, around)?,
            Expr::Matrix(matrix) => self.matrix(matrix, steps, around)?,
            Expr::Subquery(subquery) => self.subquery(subquery, steps, around)?,
            Expr::Call(call) => self.call(call, steps, around)?,
            Expr::Aggregate(aggregate) => self.aggregate(aggregate, steps, around)?,
            Expr::Binary(binary) => self.binary(binary, steps, around)?,
            Expr::Unary(unary) => {
                let (node, invariance) = self.node(&unary.expr, steps, around.inner())?;
                match unary.sign {
                    Sign::Plus => (node, invariance),
                    Sign::Minus => (Node::Negate(Box::new(node)), invariance),
                }
            }
            Expr::Paren(_) => unreachable!("parentheses are taken off"),
        })
    }

    fn selector(
        &mut self,
        selector: &ast::VectorSelector,
        steps: Steps,
        around: Around<'_>,
    ) -> Planned {
        let lookup = self.lookup(&selector.when)?;
        let smoothed = selector.edges == Some(Edges::Smoothed);
        let lookback = self.query.lookback;
        let ahead = if smoothed { lookback } else { 0 };
        let reach = reach(lookup, steps, lookback, ahead);
        let matchers = selector.matchers.clone();
        let hints = around.hints(lookup, 0, (lookback, ahead));
        let selection = self.selections.request(&matchers, reach, hints);
        let span = selector.span;
        let node = Node::Selector(Selector {
            selection,
            reach,
            matchers,
            lookup,
            smoothed,
            hints: self.hints(),
            span,
        });
        let fixed = lookup.at.is_some();
        Ok((node, if fixed { Invariance::Invariant } else { Invariance::Varying }))
    }

    fn matrix(
        &mut self,
        matrix: &ast::MatrixSelector,
        steps: Steps,
        around: Around<'_>,
    ) -> Planned {
        let selector = &matrix.selector;
        // Of several invalid durations, the error names the one that Prometheus computes first.
        let range = self.duration(&matrix.range, Allowed::Positive)?;
        let lookup = self.lookup(&selector.when)?;
        let lookback = self.query.lookback;
        let (before, after) = match selector.edges {
            None => (0, 0),
            Some(Edges::Anchored) => (lookback, 0),
            Some(Edges::Smoothed) => (lookback, lookback),
        };
        let before = range.saturating_add(before);
        let reach = reach(lookup, steps, before, after);
        let matchers = selector.matchers.clone();
        let hints = around.hints(lookup, range, (before, after));
        let selection = self.selections.request(&matchers, reach, hints);
        let source = Source::Selection { selection, reach, matchers };
        let (edges, hints) = (selector.edges, self.hints());
        Ok(window(Range { source, lookup, range, edges, hints }))
    }

    fn subquery(&mut self, subquery: &ast::Subquery, steps: Steps, around: Around<'_>) -> Planned {
        let lookup = self.lookup(&subquery.when)?;
        let interval = match &subquery.step {
            Some(step) => self.duration(step, Allowed::Positive)?,
            None => self.query.subquery_step,
        };
        let range = self.duration(&subquery.range, Allowed::Positive)?;
        // A literal of less than a millisecond is 0.
        let interval = interval.max(1);
        let outer = lookup.steps(steps);
        // The first multiple of the step inside the first window.
        let before = outer.start.saturating_sub(range);
        let start = before.div_euclid(interval).saturating_add(1).saturating_mul(interval);
        let inner = Steps { start, end: outer.last(), interval };
        let around = around.subquery(lookup, range, interval);
        self.whole += 1;
        let (node, invariance) = self.node(&subquery.expr, inner, around)?;
        self.whole -= 1;
        let node = Box::new(if invariance.holds() { Node::Once(Box::new(node)) } else { node });
        let source = Source::Subquery { node, steps: inner };
        Ok(window(Range { source, lookup, range, edges: None, hints: ResetHints::AsStored }))
    }

    fn call(&mut self, call: &ast::Call, steps: Steps, around: Around<'_>) -> Planned {
        if let Some(value) = self.constant(call.function) {
            return Ok((Node::Number(value), Invariance::Plain));
        }
        let reads = call.function.signature().histograms;
        let (totals, whole) = (reads == HistogramUse::Totals, reads == HistogramUse::Buckets);
        self.only_totals += usize::from(totals);
        self.whole += usize::from(whole);
        let around = around.call(call.function);
        let mut args = Vec::with_capacity(call.args.len());
        for arg in &call.args {
            if let (Function::Info, [_], Expr::Selector(labels)) =
                (call.function, args.as_slice(), arg.without_parens())
            {
                let node = Node::Matchers(labels.matchers.clone());
                args.push(((node, Invariance::Varying), (labels.span, labels.span)));
                continue;
            }
            args.push((self.node(arg, steps, around)?, (arg.span(), arg.without_parens().span())));
        }
        self.only_totals -= usize::from(totals);
        self.whole -= usize::from(whole);
        // The second argument of info() is not evaluated.
        let evaluated = if call.function == Function::Info { 1 } else { args.len() };
        let mut all = args.iter().take(evaluated).all(|((_, invariance), _)| invariance.holds());
        if let (Function::Info, [((base, _), _), ..]) = (call.function, args.as_slice()) {
            all &= base.shared_lookup().is_some();
        }
        // `timestamp` of a selector with `@` is fixed; any other `timestamp` is the time of a step.
        let of_selector = matches!(args.as_slice(), [((Node::Selector(_), _), _)]);
        let fixed = match call.function {
            Function::Timestamp => of_selector,
            function => !function.signature().step_time,
        };
        let same = all && fixed;
        // Annotations have the span of the parentheses if Prometheus evaluates the argument once.
        let argument = |(planned, (outer, inner)): ((Node, Invariance), _)| Argument {
            span: if !same && planned.1 == Invariance::Invariant { outer } else { inner },
            node: if same { planned.0 } else { once(planned) },
        };
        let args = args.into_iter().map(argument).collect();
        let node = Node::Call(Call { function: call.function, args, span: call.span });
        Ok((node, if same { Invariance::Invariant } else { Invariance::Varying }))
    }

    fn aggregate(
        &mut self,
        aggregate: &ast::Aggregate,
        steps: Steps,
        around: Around<'_>,
    ) -> Planned {
        let around = around.aggregate(aggregate);
        // As in Prometheus, the vector alone decides: if it is the same at all steps, the
        // parameter is taken at the first step.
        let whole = aggregate.op == Aggregator::CountValues;
        self.whole += usize::from(whole);
        let (input, invariance) = self.node(&aggregate.expr, steps, around)?;
        self.whole -= usize::from(whole);
        let param = match &aggregate.param {
            Some(param) => {
                let span = param.without_parens().span();
                let planned = self.node(param, steps, around)?;
                let node = if invariance.holds() { planned.0 } else { once(planned) };
                Some(Box::new(Argument { node, span }))
            }
            None => None,
        };
        let span = aggregate.expr.span();
        let input = Box::new(Argument { node: input, span });
        let mut grouping = aggregate.grouping.clone();
        match &mut grouping {
            Grouping::By(labels) | Grouping::Without(labels) => labels.sort(),
        }
        let (op, span) = (aggregate.op, aggregate.span);
        Ok((Node::Aggregate(Aggregate { op, param, input, grouping, span }), invariance))
    }

    fn binary(&mut self, binary: &ast::Binary, steps: Steps, around: Around<'_>) -> Planned {
        let around = around.binary();
        let whole =
            binary.op.is_trim() || matches!(binary.op, BinaryOp::Equal | BinaryOp::NotEqual);
        self.whole += usize::from(whole);
        let lhs = self.node(&binary.lhs, steps, around)?;
        let rhs = self.node(&binary.rhs, steps, around)?;
        self.whole -= usize::from(whole);
        let same = lhs.1.holds() && rhs.1.holds();
        let operand = |planned: (Node, Invariance), expr: &Expr| Operand {
            node: Box::new(if same { planned.0 } else { once(planned) }),
            scalar: expr.value_type() == ValueType::Scalar,
        };
        let node = Node::Binary(Binary {
            op: binary.op,
            lhs: operand(lhs, &binary.lhs),
            rhs: operand(rhs, &binary.rhs),
            matching: binary.matching.clone(),
            comparison: binary.comparison,
            span: binary.span,
        });
        Ok((node, if same { Invariance::Invariant } else { Invariance::Varying }))
    }

    fn hints(&self) -> ResetHints {
        let totals = self.only_totals > 0 && self.whole == 0;
        if totals { ResetHints::Found } else { ResetHints::AsStored }
    }

    /// The value of a function of the query's own times.
    fn constant(&self, function: Function) -> Option<f64> {
        let steps = self.query.steps;
        let millis = match function {
            Function::Start => steps.start,
            Function::End => steps.end,
            Function::Range => steps.end.saturating_sub(steps.start),
            Function::Step if steps.is_instant() => 0,
            Function::Step => self.query.interval,
            _ => return None,
        };
        Some(millis as f64 / 1000.0)
    }

    fn lookup(&self, when: &When) -> Result<Lookup, DurationError> {
        let at = when.at.map(|at| match at {
            At::Time(time) => time,
            At::Start => self.query.steps.start,
            At::End => self.query.steps.end,
        });
        let offset = when.offset.as_ref();
        let offset = offset.map_or(Ok(0), |offset| self.duration(offset, Allowed::Any))?;
        Ok(Lookup { at, offset })
    }

    fn duration(&self, duration: &Duration, allowed: Allowed) -> Result<i64, DurationError> {
        let steps = self.query.steps;
        let range = steps.end.saturating_sub(steps.start);
        duration.resolve(QueryTimes { step: self.query.interval, range }, allowed)
    }
}

fn window(range: Range) -> (Node, Invariance) {
    let fixed = range.lookup.at.is_some();
    (Node::Range(range), if fixed { Invariance::Plain } else { Invariance::Varying })
}

/// The times read for windows that begin `before` milliseconds (exclusive) before the evaluation
/// time and end `after` milliseconds after it.
fn reach(lookup: Lookup, steps: Steps, before: i64, after: i64) -> TimeRange {
    if steps.count() == 0 {
        return TimeRange::new(1, 0);
    }
    let looks = lookup.steps(steps);
    let start = looks.start.saturating_sub(before.saturating_sub(1));
    TimeRange::new(start, looks.last().saturating_add(after))
}
