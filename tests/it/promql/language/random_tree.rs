//! Random trees, as the parser could have made them.
//!
//! Operands that would otherwise be read differently are in parentheses, durations are whole
//! milliseconds, and types fit. Places in the text are not set.

use promkairos::model::{METRIC_NAME, MatchOp, Matcher};
use promkairos::promql::ast::*;
use promkairos::promql::{Aggregator, BinaryOp, Function, Names, Sign};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::round_trip::NOWHERE;

fn number(value: f64, notation: Notation) -> Number {
    Number { value, notation, span: NOWHERE }
}

fn paren(expr: Expr) -> Expr {
    Expr::Paren(Paren { expr: Box::new(expr), span: NOWHERE })
}

/// An operand that cannot be read as something else. Without parentheses, an operator after a
/// computed offset may belong to the offset, and a sign before a number belongs to the number.
fn operand(expr: Expr) -> Box<Expr> {
    let computed = |when: &When| matches!(when.offset, Some(Duration::Expr(_)));
    let open = match &expr {
        Expr::Binary(_) | Expr::Unary(_) => true,
        Expr::Number(node) => node.value.is_sign_negative() || node.value.is_infinite(),
        Expr::Selector(node) => computed(&node.when),
        Expr::Matrix(node) => computed(&node.selector.when),
        Expr::Subquery(node) => computed(&node.when),
        _ => false,
    };
    Box::new(if open { paren(expr) } else { expr })
}

fn any_text() -> impl Strategy<Value = String> {
    let odd = "[\"'`\\\\\n\t\u{0}\u{7f}é\u{301}😀\u{200b}]{0,4}";
    let text = prop_oneof!["[a-z]{1,3}", "\\PC{0,5}", odd];
    // The character that replaces invalid UTF-8 is refused when a text has it literally.
    text.prop_filter("no U+FFFD", |text| !text.contains(char::REPLACEMENT_CHARACTER))
}

fn any_label() -> impl Strategy<Value = String> {
    prop_oneof![
        select(vec!["by", "on", "le", "sum", "offset", "a b", "1a", "é", "a.b", "größe"])
            .prop_map(String::from),
        any_text().prop_filter("a label has a name", |name| !name.is_empty()),
    ]
}

fn any_number() -> impl Strategy<Value = Number> {
    let whole = (0..1_000_000_u32).prop_map(|seconds| number(seconds.into(), Notation::Duration));
    let special = select(vec![0.0, -0.0, 1.0, 1e21, 1e-7, f64::INFINITY, f64::NEG_INFINITY]);
    prop_oneof![
        any::<f64>().prop_map(|value| number(value, Notation::Plain)),
        special.prop_map(|value| number(value, Notation::Plain)),
        whole,
    ]
    .prop_map(|number| match number.value.is_nan() {
        true => Number { value: f64::NAN, ..number },
        false => number,
    })
}

fn any_string() -> impl Strategy<Value = Expr> {
    any_text()
        .prop_map(|value| Expr::String(StringLiteral { value, not_utf8: None, span: NOWHERE }))
}

/// Milliseconds as a literal in seconds, as the parser computes them.
pub(super) fn literal(millis: i64) -> Duration {
    let seconds = (millis / 1000) as f64 + (millis % 1000) as f64 / 1000.0;
    Duration::Literal(number(seconds, Notation::Duration))
}

fn computed(form: DurationForm, wrapped: bool) -> Duration {
    Duration::Expr(Box::new(DurationExpr { form, wrapped, span: NOWHERE }))
}

/// A computed duration, in parentheses.
fn any_duration_expr() -> impl Strategy<Value = Duration> {
    let leaf = prop_oneof![
        (1..1_000_000_i64).prop_map(|seconds| literal(seconds * 1000)),
        (1..1000_u32).prop_map(|n| Duration::Literal(number(n.into(), Notation::Plain))),
        Just(computed(DurationForm::Step, false)),
        Just(computed(DurationForm::Range, false)),
    ];
    let op = select(vec![
        DurationOp::Add,
        DurationOp::Sub,
        DurationOp::Mul,
        DurationOp::Div,
        DurationOp::Mod,
        DurationOp::Pow,
    ]);
    let inner = leaf.prop_recursive(3, 8, 2, move |inner| {
        let pair = (inner.clone(), inner.clone());
        prop_oneof![
            (op.clone(), pair.clone())
                .prop_map(|(op, (a, b))| computed(DurationForm::Arithmetic(op, a, b), true)),
            pair.clone().prop_map(|(a, b)| computed(DurationForm::MinOf(a, b), false)),
            pair.prop_map(|(a, b)| computed(DurationForm::MaxOf(a, b), true)),
            inner.prop_map(|a| match a {
                Duration::Expr(_) => computed(DurationForm::Signed(Sign::Minus, a), true),
                literal => computed(DurationForm::Signed(Sign::Plus, literal), true),
            }),
        ]
    });
    inner.prop_filter("a literal is no expression", |a| matches!(a, Duration::Expr(_)))
}

fn any_range() -> impl Strategy<Value = Duration> {
    prop_oneof![(1..10_000_000_i64).prop_map(literal), any_duration_expr()]
}

fn any_when() -> impl Strategy<Value = When> {
    let time = (-4_000_000_000_000..4_000_000_000_000_i64).prop_map(At::Time);
    let at = option::of(prop_oneof![time, Just(At::Start), Just(At::End)]);
    let literal = (-10_000_000..10_000_000_i64)
        .prop_filter("0 is no offset", |millis| *millis != 0)
        .prop_map(literal);
    let offset = option::of(prop_oneof![literal, any_duration_expr()]);
    (at, offset).prop_map(|(at, offset)| When { at, offset })
}

fn any_selector() -> impl Strategy<Value = VectorSelector> {
    let names = ["up", "a:b", "by", "sum", "offset", "start", "fill", "and", "job_total", "é.x"];
    let name = option::of(select(names.to_vec()).prop_map(String::from));
    let op = select(vec![MatchOp::Equal, MatchOp::NotEqual, MatchOp::Regex, MatchOp::NotRegex]);
    let matcher = (any_label(), op, any_text()).prop_map(|(label, op, value)| {
        Matcher::new(op, &label, &value).unwrap_or_else(|_| Matcher::equal(&label, &value))
    });
    let edges = option::of(select(vec![Edges::Anchored, Edges::Smoothed]));
    (name, vec(matcher, 0..3), any_when(), edges).prop_map(|(name, mut matchers, when, edges)| {
        let always = name.clone().unwrap_or_else(|| "é b".into());
        matchers.push(Matcher::equal(METRIC_NAME, &always));
        VectorSelector { name, matchers, when, edges, names: Names::Unicode, span: NOWHERE }
    })
}

fn any_matrix(vector: BoxedStrategy<Expr>) -> impl Strategy<Value = Expr> {
    let matrix = (any_selector(), any_range()).prop_map(|(selector, range)| {
        Expr::Matrix(MatrixSelector { selector, range, span: NOWHERE })
    });
    // The colon of a subquery is only accepted after a range that contains a number.
    let range =
        any_range().prop_filter("a number", |range| format!("{range:?}").contains("Literal"));
    let subquery = (vector, range, option::of(any_range()), any_when());
    let subquery = subquery.prop_map(|(expr, range, step, when)| {
        Expr::Subquery(Subquery { expr: operand(expr), range, step, when, span: NOWHERE })
    });
    prop_oneof![matrix, subquery]
}

const ARITHMETIC: [BinaryOp; 7] = [
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::Mul,
    BinaryOp::Div,
    BinaryOp::Mod,
    BinaryOp::Pow,
    BinaryOp::Atan2,
];
const OTHERS: [BinaryOp; 11] = [
    BinaryOp::Equal,
    BinaryOp::NotEqual,
    BinaryOp::Less,
    BinaryOp::LessOrEqual,
    BinaryOp::Greater,
    BinaryOp::GreaterOrEqual,
    BinaryOp::TrimUpper,
    BinaryOp::TrimLower,
    BinaryOp::And,
    BinaryOp::Or,
    BinaryOp::Unless,
];

fn any_matching() -> impl Strategy<Value = Matching> {
    let cardinality =
        select(vec![Cardinality::OneToOne, Cardinality::ManyToOne, Cardinality::OneToMany]);
    let fill = || option::of(any_number().prop_map(|number| number.value));
    let labels = (any::<bool>(), vec(any_label(), 0..3), vec(any_label(), 0..2));
    (cardinality, labels, fill(), fill()).prop_map(
        |(cardinality, (on, labels, mut include), fill_left, fill_right)| {
            include.retain(|label| !labels.contains(label));
            if cardinality == Cardinality::OneToOne {
                include.clear();
            }
            let labels = if on { MatchLabels::On(labels) } else { MatchLabels::Ignoring(labels) };
            let names = Names::Unicode;
            Matching { cardinality, labels, include, fill_left, fill_right, names }
        },
    )
}

fn between_vectors(vector: BoxedStrategy<Expr>) -> impl Strategy<Value = Expr> {
    let op = select([&ARITHMETIC[..], &OTHERS[..]].concat());
    (op, vector.clone(), vector, any_matching(), any::<bool>()).prop_map(
        |(op, lhs, rhs, mut matching, bool)| {
            if op.is_set() {
                matching.cardinality = Cardinality::ManyToMany;
                matching.include.clear();
                (matching.fill_left, matching.fill_right) = (None, None);
            }
            let bool = bool && op.is_comparison();
            Expr::Binary(Binary {
                op,
                lhs: operand(lhs),
                rhs: operand(rhs),
                matching: Some(matching),
                comparison: if bool { Comparison::Bool } else { Comparison::Filter },
                span: NOWHERE,
            })
        },
    )
}

fn with_scalar(vector: BoxedStrategy<Expr>) -> impl Strategy<Value = Expr> {
    (select(ARITHMETIC.to_vec()), vector, any_number(), any::<bool>()).prop_map(
        |(op, vector, number, left)| {
            let (lhs, rhs) = match left {
                true => (Expr::Number(number), vector),
                false => (vector, Expr::Number(number)),
            };
            Expr::Binary(Binary {
                op,
                lhs: operand(lhs),
                rhs: operand(rhs),
                matching: None,
                comparison: Comparison::Filter,
                span: NOWHERE,
            })
        },
    )
}

fn any_aggregate(vector: BoxedStrategy<Expr>) -> impl Strategy<Value = Expr> {
    let labels = (any::<bool>(), vec(any_label(), 0..3));
    (select(Aggregator::ALL.to_vec()), labels, any_number(), any_string(), vector).prop_map(
        |(op, (by, labels), number, text, expr)| {
            let param = match op {
                Aggregator::CountValues => Some(Box::new(text)),
                _ if op.has_param() => Some(Box::new(Expr::Number(number))),
                _ => None,
            };
            let grouping = if by { Grouping::By(labels) } else { Grouping::Without(labels) };
            let (expr, names, span) = (Box::new(expr), Names::Unicode, NOWHERE);
            Expr::Aggregate(Aggregate { op, param, expr, grouping, names, span })
        },
    )
}

fn any_call(vector: BoxedStrategy<Expr>) -> impl Strategy<Value = Expr> {
    let call = |function, args| Expr::Call(Call { function, args, span: NOWHERE });
    let texts = vec(any_string(), 4);
    prop_oneof![
        vector.clone().prop_map(move |arg| call(Function::Abs, vec![arg])),
        any_matrix(vector.clone()).prop_map(move |arg| call(Function::Rate, vec![arg])),
        any_number().prop_map(move |arg| call(Function::Vector, vec![Expr::Number(arg)])),
        (vector, texts).prop_map(move |(arg, texts)| {
            call(Function::LabelReplace, std::iter::once(arg).chain(texts).collect())
        }),
    ]
}

pub(super) fn any_vector() -> BoxedStrategy<Expr> {
    let leaf = any_selector().prop_map(Expr::Selector).boxed();
    let recursive = leaf.prop_recursive(4, 24, 4, |vector| {
        let unary = (select(vec![Sign::Plus, Sign::Minus]), vector.clone());
        prop_oneof![
            vector.clone().prop_map(paren),
            unary.prop_map(|(sign, expr)| {
                Expr::Unary(Unary { sign, expr: operand(expr), span: NOWHERE })
            }),
            between_vectors(vector.clone()),
            with_scalar(vector.clone()),
            any_aggregate(vector.clone()),
            any_call(vector),
        ]
    });
    recursive.boxed()
}
