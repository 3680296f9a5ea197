//! A tree in one line.

use std::fmt::{self, Display, Formatter};

use super::super::ast::{
    Aggregate, At, Binary, Call, Cardinality, Comparison, Duration, DurationForm, Edges, Expr,
    Grouping, MatchLabels, Matching, MatrixSelector, Notation, Number, StringLiteral, Subquery,
    VectorSelector, When,
};
use super::super::format::{fixed, general};
use super::super::names::{NameRule, Names};
use super::super::numbers::format_duration;
use super::super::operator::Sign;
use super::super::strings::quoted;
use super::super::strings::quoted_bytes;
use promkairos_model::{METRIC_NAME, Matcher};

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(node) => node.fmt(f),
            Self::String(node) => node.fmt(f),
            Self::Selector(node) => node.fmt(f),
            Self::Matrix(node) => node.fmt(f),
            Self::Subquery(node) => write!(f, "{}{}", node.expr, SubqueryRange(node)),
            Self::Call(node) => node.fmt(f),
            Self::Aggregate(node) => node.fmt(f),
            Self::Binary(node) => {
                write!(f, "{} {} {}", node.lhs, Operator(node), node.rhs)
            }
            Self::Unary(node) => write!(f, "{}{}", node.sign, node.expr),
            Self::Paren(node) => write!(f, "({})", node.expr),
        }
    }
}

impl Display for Number {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.notation {
            Notation::Plain => f.write_str(&fixed(self.value)),
            Notation::Duration => {
                let millis = (self.value.abs() * 1e9) as i64 / 1_000_000;
                let sign = if self.value < 0.0 { "-" } else { "" };
                write!(f, "{sign}{}", format_duration(millis))
            }
        }
    }
}

impl Display for StringLiteral {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&match &self.not_utf8 {
            None => quoted(&self.value),
            Some(bytes) => quoted_bytes(bytes),
        })
    }
}

impl Display for VectorSelector {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", Series(self), self.when.at())?;
        write!(f, "{}{}", edges(self.edges), self.when.offset())
    }
}

impl Display for MatrixSelector {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let when = &self.selector.when;
        write!(f, "{}[{}]", Series(&self.selector), Length(&self.range))?;
        write!(f, "{}{}{}", edges(self.selector.edges), when.at(), when.offset())
    }
}

/// The name and the matchers of a selector.
struct Series<'a>(&'a VectorSelector);

impl Display for Series<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name.as_deref().unwrap_or_default())?;
        let named = self.0.name.as_ref().map(|name| Matcher::equal(METRIC_NAME, name));
        let others = self.0.matchers.iter().filter(|matcher| Some(*matcher) != named.as_ref());
        let rule = NameRule::new(self.0.names);
        let mut others: Vec<String> = others.map(|matcher| condition(matcher, &rule)).collect();
        others.sort_unstable();
        if others.is_empty() { Ok(()) } else { write!(f, "{{{}}}", others.join(",")) }
    }
}

fn condition(matcher: &Matcher, rule: &NameRule) -> String {
    format!("{}{}{}", label(matcher.name(), rule), matcher.op().text(), quoted(matcher.value()))
}

/// The name of a label, quoted unless it is plain.
fn label(name: &str, rule: &NameRule) -> String {
    if rule.is_plain(name) { name.into() } else { quoted(name) }
}

fn labels(labels: &[String], names: Names) -> String {
    let rule = NameRule::new(names);
    labels.iter().map(|name| label(name, &rule)).collect::<Vec<_>>().join(", ")
}

impl When {
    fn at(&self) -> String {
        match self.at {
            None => String::new(),
            Some(At::Time(millis)) => format!(" @ {:.3}", millis as f64 / 1000.0),
            Some(At::Start) => " @ start()".into(),
            Some(At::End) => " @ end()".into(),
        }
    }

    fn offset(&self) -> String {
        match &self.offset {
            None => String::new(),
            Some(Duration::Literal(number)) if number.value < 0.0 => {
                let positive = number.signed(Sign::Minus, number.span);
                format!(" offset -{}", Length(&Duration::Literal(positive)))
            }
            Some(offset) => format!(" offset {}", Length(offset)),
        }
    }
}

fn edges(edges: Option<Edges>) -> String {
    edges.map_or_else(String::new, |edges| format!(" {}", edges.name()))
}

/// A window, a step or an offset. A literal is printed as a duration, whatever its notation.
struct Length<'a>(&'a Duration);

impl Display for Length<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0.literal_millis() {
            Some(millis) => f.write_str(&format_duration(millis)),
            None => self.0.fmt(f),
        }
    }
}

impl Display for Duration {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(number) => number.fmt(f),
            Self::Expr(expr) if expr.wrapped => write!(f, "({})", expr.form),
            Self::Expr(expr) => expr.form.fmt(f),
        }
    }
}

impl Display for DurationForm {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step => f.write_str("step()"),
            Self::Range => f.write_str("range()"),
            Self::MinOf(a, b) => write!(f, "min_of({a}, {b})"),
            Self::MaxOf(a, b) => write!(f, "max_of({a}, {b})"),
            Self::Signed(Sign::Plus, a) => a.fmt(f),
            Self::Signed(Sign::Minus, a) => write!(f, "-{a}"),
            Self::Arithmetic(op, a, b) => write!(f, "{a} {} {b}", op.name()),
        }
    }
}

/// The window of a subquery, with `@` and `offset`.
pub(super) struct SubqueryRange<'a>(pub(super) &'a Subquery);

impl Display for SubqueryRange<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Subquery { range, step, when, .. } = self.0;
        write!(f, "[{}:", Length(range))?;
        if let Some(step) = step {
            Length(step).fmt(f)?;
        }
        write!(f, "]{}{}", when.at(), when.offset())
    }
}

impl Display for Call {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.function)?;
        for (at, arg) in self.args.iter().enumerate() {
            write!(f, "{}{arg}", if at > 0 { ", " } else { "" })?;
        }
        f.write_str(")")
    }
}

impl Display for Aggregate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", Head(self))?;
        if let Some(param) = &self.param {
            write!(f, "{param}, ")?;
        }
        write!(f, "{})", self.expr)
    }
}

/// The operator and the grouping of an aggregation.
pub(super) struct Head<'a>(pub(super) &'a Aggregate);

impl Display for Head<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Aggregate { op, names, .. } = *self.0;
        match &self.0.grouping {
            Grouping::By(by) if by.is_empty() => write!(f, "{op}"),
            Grouping::By(by) => write!(f, "{op} by ({}) ", labels(by, names)),
            Grouping::Without(without) => write!(f, "{op} without ({}) ", labels(without, names)),
        }
    }
}

/// An operator with its modifiers.
pub(super) struct Operator<'a>(pub(super) &'a Binary);

impl Display for Operator<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.op.name())?;
        if self.0.comparison == Comparison::Bool {
            f.write_str(" bool")?;
        }
        self.0.matching.iter().try_for_each(|matching| matching.fmt(f))
    }
}

impl Display for Matching {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let side = match self.cardinality {
            Cardinality::ManyToOne => Some("left"),
            Cardinality::OneToMany => Some("right"),
            Cardinality::OneToOne | Cardinality::ManyToMany => None,
        };
        match &self.labels {
            MatchLabels::On(on) => write!(f, " on ({})", labels(on, self.names))?,
            MatchLabels::Ignoring(ignored) if ignored.is_empty() && side.is_none() => {}
            MatchLabels::Ignoring(ignored) => {
                write!(f, " ignoring ({})", labels(ignored, self.names))?;
            }
        }
        if let Some(side) = side {
            write!(f, " group_{side} ({})", labels(&self.include, self.names))?;
        }
        match (self.fill_left, self.fill_right) {
            // Unlike upstream, not when they are 0 and -0.
            (Some(left), Some(right)) if left == right && left.signum() == right.signum() => {
                write!(f, " fill ({})", general(left))
            }
            (left, right) => {
                let sides = [("left", left), ("right", right)];
                let mut given = sides.into_iter().filter_map(|(side, value)| Some((side, value?)));
                given.try_for_each(|(side, value)| write!(f, " fill_{side} ({})", general(value)))
            }
        }
    }
}
