//! Checks the types of a tree.
//!
//! Children are checked before their parent; the first error ends the check. Set operators get
//! their cardinality here, and operators that are not between two vectors lose their matching. The
//! checks run in the order of Prometheus, because only the first error is returned.

use super::ast::{
    Aggregate, Binary, Call, Cardinality, Comparison, Expr, MatchLabels, Unary, VectorSelector,
};
use super::operator::Aggregator;
use super::parse_error::ParseError;
use super::position::Span;
use super::signature::Function;
use super::strings::quoted;
use super::value_type::ValueType;
use promkairos_model::{METRIC_NAME, Matcher};

type Checked = Result<(), Box<ParseError>>;

/// Checks a tree of this query.
pub(crate) fn check(query: &str, expr: &mut Expr) -> Checked {
    Checker { query }.expr(expr)
}

struct Checker<'a> {
    query: &'a str,
}

impl Checker<'_> {
    fn expr(&self, expr: &mut Expr) -> Checked {
        match expr {
            Expr::Number(_) | Expr::String(_) => Ok(()),
            Expr::Selector(selector) => self.selector(selector),
            Expr::Matrix(matrix) => self.selector(&matrix.selector),
            Expr::Subquery(subquery) => {
                self.expr(&mut subquery.expr)?;
                let inner = subquery.expr.value_type();
                self.ensure(inner == ValueType::Vector, subquery.span, || {
                    format!("subquery is only allowed on instant vector, got {inner} instead")
                })
            }
            Expr::Call(call) => self.call(call),
            Expr::Aggregate(aggregate) => self.aggregate(aggregate),
            Expr::Binary(binary) => {
                self.expr(&mut binary.lhs)?;
                self.expr(&mut binary.rhs)?;
                self.binary(binary)
            }
            Expr::Unary(unary) => {
                self.expr(&mut unary.expr)?;
                self.unary(unary)
            }
            Expr::Paren(paren) => self.expr(&mut paren.expr),
        }
    }

    fn unary(&self, unary: &Unary) -> Checked {
        let inner = unary.expr.value_type();
        self.ensure(is_number(inner), unary.span, || {
            format!(
                "unary expression only allowed on expressions of type scalar \
                 or instant vector, got \"{}\"",
                inner.documented()
            )
        })
    }

    fn selector(&self, selector: &VectorSelector) -> Checked {
        if let (Some(name), [inside @ .., _]) = (&selector.name, &*selector.matchers) {
            let Some(second) = inside.iter().find(|matcher| matcher.name() == METRIC_NAME) else {
                return Ok(());
            };
            let (name, second) = (quoted(name), quoted(second.value()));
            let message = format!("metric name must not be set twice: {name} or {second}");
            return Err(self.error(selector.span, message));
        }
        let selects_all = selector.matchers.iter().all(Matcher::matches_empty);
        self.ensure(!selects_all, selector.span, || {
            "vector selector must contain at least one non-empty matcher".into()
        })
    }

    fn aggregate(&self, aggregate: &mut Aggregate) -> Checked {
        self.typed(&mut aggregate.expr, ValueType::Vector, "aggregation expression")?;
        let wanted = match aggregate.op {
            Aggregator::CountValues => ValueType::String,
            _ => ValueType::Scalar,
        };
        match &mut aggregate.param {
            Some(param) => self.typed(param, wanted, "aggregation parameter"),
            None => Ok(()),
        }
    }

    fn call(&self, call: &mut Call) -> Checked {
        let signature = call.function.signature();
        let context = format!("call to function \"{}\"", signature.name);
        self.argument_count(call)?;
        // The second argument of info() selects labels: a selector that may select everything.
        let checked = if call.function == Function::Info { 1 } else { call.args.len() };
        if let Some(labels) = call.args.get(checked) {
            self.info_labels(labels, call.span, &context)?;
        }
        for (at, arg) in call.args.iter_mut().enumerate().take(checked) {
            let wanted = signature.args[at.min(signature.args.len() - 1)];
            self.typed(arg, wanted, &context)?;
        }
        Ok(())
    }

    fn info_labels(&self, labels: &Expr, call: Span, context: &str) -> Checked {
        let got = labels.value_type();
        self.ensure(got == ValueType::Vector, call, || {
            format!("expected type instant vector in {context}, got {}", got.documented())
        })?;
        let message = match labels {
            Expr::Selector(VectorSelector { name: None, .. }) => return Ok(()),
            Expr::Selector(_) => "expected label selectors only, got vector selector instead",
            _ => "expected label selectors only",
        };
        Err(self.error(labels.span(), message))
    }

    fn argument_count(&self, call: &Call) -> Checked {
        let signature = call.function.signature();
        let (got, all) = (call.args.len(), signature.args.len());
        let (least, most) = match signature.variadic {
            0 => (all, all),
            repeats => {
                (all - 1, usize::try_from(repeats).map_or(usize::MAX, |more| all - 1 + more))
            }
        };
        let (wanted, count) = match (least == most, got) {
            (true, _) => ("", all),
            (false, _) if got < least => ("at least ", least),
            (false, _) => ("at most ", most),
        };
        self.ensure((least..=most).contains(&got), call.span, || {
            let name = signature.name;
            format!("expected {wanted}{count} argument(s) in call to \"{name}\", got {got}")
        })
    }

    fn binary(&self, binary: &mut Binary) -> Checked {
        let sides = (binary.lhs.value_type(), binary.rhs.value_type());
        self.comparison(binary, sides)?;
        self.included_labels(binary)?;
        for side in [&binary.lhs, &binary.rhs] {
            self.ensure(is_number(side.value_type()), side.span(), || {
                "binary expression must contain only scalar and instant vector types".into()
            })?;
        }
        if sides == (ValueType::Vector, ValueType::Vector) {
            self.set_operation(binary)
        } else {
            self.without_matching(binary)
        }
    }

    fn comparison(&self, binary: &Binary, sides: (ValueType, ValueType)) -> Checked {
        let is_comparison = binary.op.is_comparison();
        let bool = binary.comparison == Comparison::Bool;
        self.ensure(!bool || is_comparison, self.operator_span(binary), || {
            "bool modifier can only be used on comparison operators".into()
        })?;
        let scalars = sides == (ValueType::Scalar, ValueType::Scalar);
        self.ensure(bool || !is_comparison || !scalars, self.operator_span(binary), || {
            "comparisons between scalars must use BOOL modifier".into()
        })
    }

    fn included_labels(&self, binary: &Binary) -> Checked {
        let Some(matching) = &binary.matching else { return Ok(()) };
        let MatchLabels::On(on) = &matching.labels else { return Ok(()) };
        let both = on.iter().find(|label| matching.include.contains(label));
        self.ensure(both.is_none(), self.operator_span(binary), || {
            let label = both.map(|label| quoted(label)).unwrap_or_default();
            format!("label {label} must not occur in ON and GROUP clause at once")
        })
    }

    fn set_operation(&self, binary: &mut Binary) -> Checked {
        let (op, span) = (binary.op, binary.span);
        let Some(matching) = binary.matching.as_mut().filter(|_| op.is_set()) else {
            return Ok(());
        };
        self.ensure(matching.cardinality == Cardinality::OneToOne, span, || {
            format!("no grouping allowed for \"{op}\" operation")
        })?;
        matching.cardinality = Cardinality::ManyToMany;
        self.ensure(!matching.has_fill(), span, || {
            "filling in missing series not allowed for set operators".into()
        })
    }

    fn without_matching(&self, binary: &mut Binary) -> Checked {
        let (op, span) = (binary.op, binary.span);
        if let Some(matching) = binary.matching.take() {
            let (MatchLabels::On(labels) | MatchLabels::Ignoring(labels)) = &matching.labels;
            self.ensure(labels.is_empty(), span, || {
                "vector matching only allowed between instant vectors".into()
            })?;
            self.ensure(!matching.has_fill(), span, || {
                "filling in missing series only allowed between instant vectors".into()
            })?;
        }
        self.ensure(!op.is_set(), span, || {
            format!("set operator \"{op}\" not allowed in binary scalar expression")
        })
    }

    /// Checks an expression, and that it has the type `wanted`.
    fn typed(&self, expr: &mut Expr, wanted: ValueType, context: &str) -> Checked {
        self.expr(expr)?;
        let got = expr.value_type();
        self.ensure(got == wanted, expr.span(), || {
            let (wanted, got) = (wanted.documented(), got.documented());
            format!("expected type {wanted} in {context}, got {got}")
        })
    }

    /// From the operator to the start of the right side.
    fn operator_span(&self, binary: &Binary) -> Span {
        let (start, end) = (binary.lhs.span().end, binary.rhs.span().start);
        let between = self.query.get(start..end).unwrap_or_default();
        let blanks = between.len() - between.trim_start_matches([' ', '\t', '\n', '\r']).len();
        Span::new(start + blanks, end)
    }

    fn ensure(&self, holds: bool, span: Span, message: impl FnOnce() -> String) -> Checked {
        if holds { Ok(()) } else { Err(self.error(span, message())) }
    }

    fn error(&self, span: Span, message: impl Into<String>) -> Box<ParseError> {
        ParseError::at(self.query, span, message)
    }
}

fn is_number(value_type: ValueType) -> bool {
    matches!(value_type, ValueType::Scalar | ValueType::Vector)
}
