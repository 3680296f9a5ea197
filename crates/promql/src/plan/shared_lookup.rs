//! Whether all selectors of an expression are evaluated at the same time.
//!
//! Only the plan is examined. A vector without a selector, such as `vector(1)`, has the time of its step, which no
//! selector can share.

use super::node::{Lookup, Node, Operand, Source};
use crate::signature::Function;
use crate::value_type::ValueType;

impl Node {
    /// The evaluation time of its selectors, seen from outside, if all have the same and each of its vectors comes
    /// from a selector.
    pub(crate) fn shared_lookup(&self) -> Option<Lookup> {
        let mut search = Search { first: None, shared: true };
        search.look(self, Lookup { at: None, offset: 0 });
        search.first.filter(|_| search.shared)
    }

    /// Whether it gives series.
    fn gives_series(&self) -> bool {
        match self {
            Self::Number(_) | Self::String(_) | Self::Matchers(_) => false,
            Self::Selector(_) | Self::Range(_) | Self::Aggregate(_) => true,
            Self::Call(call) => {
                let returns = call.function.signature().returns;
                matches!(returns, ValueType::Vector | ValueType::Matrix)
            }
            Self::Binary(binary) => !(binary.lhs.scalar && binary.rhs.scalar),
            Self::Negate(node) | Self::Once(node) => node.gives_series(),
        }
    }
}

struct Search {
    first: Option<Lookup>,
    shared: bool,
}

impl Search {
    /// Visits a node that gives series, inside a subquery that is evaluated at `outer`. Returns whether it has a
    /// selector.
    fn look(&mut self, node: &Node, outer: Lookup) -> bool {
        let found = match node {
            Node::Selector(selector) => return self.note(within(selector.lookup, outer)),
            Node::Range(range) => match &range.source {
                Source::Selection { .. } => return self.note(within(range.lookup, outer)),
                Source::Subquery { node, .. } => self.look_if(node, within(range.lookup, outer)),
            },
            // The second argument only names the wanted labels.
            Node::Call(call) if call.function == Function::Info => {
                call.args.first().is_some_and(|arg| self.look_if(&arg.node, outer))
            }
            Node::Call(call) => {
                call.args.iter().fold(false, |found, arg| self.look_if(&arg.node, outer) | found)
            }
            Node::Aggregate(aggregate) => self.look_if(&aggregate.input.node, outer),
            Node::Binary(binary) => [&binary.lhs, &binary.rhs]
                .into_iter()
                .fold(false, |found, Operand { node, .. }| self.look_if(node, outer) | found),
            Node::Negate(node) | Node::Once(node) => return self.look_if(node, outer),
            Node::Number(_) | Node::String(_) | Node::Matchers(_) => false,
        };
        self.shared &= found;
        found
    }

    fn look_if(&mut self, node: &Node, outer: Lookup) -> bool {
        node.gives_series() && self.look(node, outer)
    }

    fn note(&mut self, lookup: Lookup) -> bool {
        let first = *self.first.get_or_insert(lookup);
        self.shared &= match (first.at, lookup.at) {
            (None, None) => first.offset == lookup.offset,
            (Some(_), Some(_)) => first.time(0) == lookup.time(0),
            _ => false,
        };
        true
    }
}

/// The evaluation time `inner` inside a subquery at `outer`: offsets add up until `@` sets a time.
fn within(inner: Lookup, outer: Lookup) -> Lookup {
    match inner.at {
        Some(_) => inner,
        None => Lookup { at: outer.at, offset: inner.offset.saturating_add(outer.offset) },
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Query, plan};
    use crate::steps::Steps;
    use crate::{Features, parse};

    fn check(query: &str, want: Option<(Option<i64>, i64)>) {
        let expr = parse(query, Features::Experimental).expect(query);
        let steps = Steps { start: 100_000, end: 200_000, interval: 10_000 };
        let query_of = Query { steps, interval: 10_000, lookback: 300_000, subquery_step: 60_000 };
        let plan = plan(&expr, &query_of).expect(query);
        let got = plan.root.shared_lookup().map(|lookup| (lookup.at, lookup.offset));
        assert_eq!(got, want, "{query}");
    }

    #[test]
    fn selectors_share_a_time_or_do_not() {
        check("m", Some((None, 0)));
        check("m offset 1m", Some((None, 60_000)));
        check("rate(m[1m] offset 1m) + m offset 60s", Some((None, 60_000)));
        check("m + m offset 1m", None);
        check("m @ 100 offset 10s + m @ 90", Some((Some(100_000), 10_000)));
        check("m @ 100 + m", None);
        check("max_over_time(m[1m:10s] offset 1m) + m offset 1m", Some((None, 60_000)));
        check("max_over_time((m offset 10s)[1m:10s] offset 1m)", Some((None, 70_000)));
        check("max_over_time((m offset 10s)[1m:10s] @ 50)", Some((Some(50_000), 10_000)));
        check("max_over_time((m @ 20)[1m:10s] @ 50 offset 1m)", Some((Some(20_000), 0)));
        check("info(m offset 1m, {a=\"b\"})", Some((None, 60_000)));
    }

    #[test]
    fn vectors_without_selectors_look_at_their_step() {
        check("vector(1)", None);
        check("vector(scalar(m))", None);
        check("m or vector(1)", None);
        check("m + 1", Some((None, 0)));
        check("m * scalar(n offset 1m)", Some((None, 0)));
        check("m + hour()", None);
        check("topk(scalar(n offset 1m), m)", Some((None, 0)));
        check("label_replace(m, \"a\", \"b\", \"c\", \"\")", Some((None, 0)));
    }
}
