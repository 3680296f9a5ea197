//! Aggregations: `sum by (label) (expression)`, with the grouping on either side of the body.
//!
//! The number of arguments is checked here, because it decides which argument is the parameter.
//! Types are checked later.

use super::super::ast::{Aggregate, Expr, Grouping};
use super::super::features::Features;
use super::super::operator::Aggregator;
use super::super::position::Span;
use super::super::token::{Keyword, Kind};
use super::{Context, Parsed, Parser};

const IN_AGGREGATION: Context = Context::new("aggregation", "");

impl Parser<'_> {
    /// An aggregation, or a metric of that name; the name is the next token.
    pub(super) fn aggregation_or_metric(&mut self, op: Aggregator) -> Parsed<Box<Expr>> {
        let name = self.advance()?;
        match self.peek()?.kind {
            Kind::LeftParen | Kind::Keyword(Keyword::By | Keyword::Without) => {}
            _ => return self.metric(name),
        }
        let outer = std::mem::replace(&mut self.context, IN_AGGREGATION);
        let before = self.grouping()?;
        let args = self.arguments()?;
        self.context = outer;
        let grouping = match before {
            Some(grouping) => Some(grouping),
            None => self.grouping()?,
        };
        let span = Span::new(name.span.start, self.last_end);
        self.aggregation(op, grouping.unwrap_or(Grouping::By(Vec::new())), args, span)
    }

    fn aggregation(
        &mut self,
        op: Aggregator,
        grouping: Grouping,
        args: Vec<Expr>,
        span: Span,
    ) -> Parsed<Box<Expr>> {
        if args.is_empty() {
            let message = "no arguments for aggregate expression provided";
            return Err(self.error(span, message));
        }
        if op.is_experimental() && self.syntax.features == Features::Stable {
            let message = format!(
                "{op}() is experimental and must be enabled with \
                 --enable-feature=promql-experimental-functions"
            );
            return Err(self.error(span, message));
        }
        self.grow(span)?;
        let (got, wanted) = (args.len(), 1 + usize::from(op.has_param()));
        let mut args = args.into_iter().map(Box::new);
        let param = if op.has_param() { args.next() } else { None };
        match (args.next(), args.next()) {
            (Some(expr), None) => {
                let names = self.syntax.names;
                let aggregate = Aggregate { op, param, expr, grouping, names, span };
                Ok(Box::new(Expr::Aggregate(aggregate)))
            }
            _ => {
                let message = format!(
                    "wrong number of arguments for aggregate expression provided, \
                     expected {wanted}, got {got}"
                );
                Err(self.error(span, message))
            }
        }
    }

    /// `by (…)` or `without (…)`, if one is next.
    fn grouping(&mut self) -> Parsed<Option<Grouping>> {
        let by = self.keyword(Keyword::By)?;
        if !by && !self.keyword(Keyword::Without)? {
            return Ok(None);
        }
        let labels = self.labels()?;
        Ok(Some(if by { Grouping::By(labels) } else { Grouping::Without(labels) }))
    }

    /// Names of labels in parentheses.
    pub(super) fn labels(&mut self) -> Parsed<Vec<String>> {
        const OPEN: Context = Context::new("grouping opts", "\"(\"");
        const LABEL: Context = Context::new("grouping opts", "label");
        const NEXT: Context = Context::new("grouping opts", "\",\" or \")\"");
        self.within(OPEN, |parser| parser.expect(Kind::LeftParen))?;
        let label = |parser: &mut Self| parser.within(LABEL, Self::grouping_label);
        self.list(Kind::RightParen, NEXT, label).map(|(labels, _)| labels)
    }
}
