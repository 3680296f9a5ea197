//! Printing and parsing are inverse: parsing the text of a tree gives an equal tree.
//!
//! Trees are random. Places in the text are not compared, nor whether a duration was a number.

use promkairos::promql::ast::*;
use promkairos::promql::{Span, Syntax, parse};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::random_tree::{any_vector, literal};

/// Asserts that this text gives this tree.
pub(super) fn same_tree(text: &str, tree: &Expr) {
    let again = parse(text, Syntax::ALL);
    let again = again.unwrap_or_else(|error| panic!("{text}: {error}"));
    // As text, since a NaN does not equal itself.
    assert_eq!(format!("{:?}", placeless(&again)), format!("{:?}", placeless(tree)), "{text}");
}

/// A copy of the tree in which all places are equal.
fn placeless(expr: &Expr) -> Expr {
    let mut expr = expr.clone();
    forget_places(&mut expr);
    expr
}

/// A place that does not matter.
pub(super) const NOWHERE: Span = Span::new(0, 0);

fn forget_places(expr: &mut Expr) {
    match expr {
        Expr::Number(node) => node.span = NOWHERE,
        Expr::String(node) => node.span = NOWHERE,
        Expr::Selector(node) => forget_selector(node),
        Expr::Matrix(node) => {
            node.span = NOWHERE;
            forget_length(&mut node.range);
            forget_selector(&mut node.selector);
        }
        Expr::Subquery(node) => {
            node.span = NOWHERE;
            forget_places(&mut node.expr);
            forget_length(&mut node.range);
            node.step.as_mut().into_iter().chain(&mut node.when.offset).for_each(forget_length);
        }
        Expr::Call(node) => {
            node.span = NOWHERE;
            node.args.iter_mut().for_each(forget_places);
        }
        Expr::Aggregate(node) => {
            node.span = NOWHERE;
            forget_places(&mut node.expr);
            node.param.iter_mut().for_each(|param| forget_places(param));
        }
        Expr::Binary(node) => {
            node.span = NOWHERE;
            forget_places(&mut node.lhs);
            forget_places(&mut node.rhs);
        }
        Expr::Unary(node) => {
            node.span = NOWHERE;
            forget_places(&mut node.expr);
        }
        Expr::Paren(node) => {
            node.span = NOWHERE;
            forget_places(&mut node.expr);
        }
    }
}

/// Also sorts the matchers, as printing does.
fn forget_selector(node: &mut VectorSelector) {
    node.span = NOWHERE;
    node.when.offset.iter_mut().for_each(forget_length);
    let conditions = node.matchers.len() - usize::from(node.name.is_some());
    node.matchers[..conditions].sort_by_key(ToString::to_string);
}

/// A literal becomes milliseconds: printing does not keep whether it was written as a number.
fn forget_length(length: &mut Duration) {
    match length.literal_millis() {
        Some(millis) => *length = literal(millis),
        None => forget_duration(length),
    }
}

fn forget_duration(duration: &mut Duration) {
    match duration {
        Duration::Literal(number) => number.span = NOWHERE,
        Duration::Expr(expr) => {
            expr.span = NOWHERE;
            match &mut expr.form {
                DurationForm::Step | DurationForm::Range => {}
                DurationForm::Signed(_, a) => forget_duration(a),
                DurationForm::MinOf(a, b)
                | DurationForm::MaxOf(a, b)
                | DurationForm::Arithmetic(_, a, b) => {
                    forget_duration(a);
                    forget_duration(b);
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn the_text_of_a_tree_gives_the_tree(tree in any_vector()) {
        same_tree(&tree.to_string(), &tree);
        same_tree(&tree.pretty(), &tree);
    }

    #[test]
    fn no_text_panics(words in vec(select(WORDS.to_vec()), 0..12), blanks in any::<bool>()) {
        let text = words.join(if blanks { " " } else { "" });
        let Ok(tree) = parse(&text, Syntax::ALL) else { return Ok(()) };
        let line = tree.to_string();
        // `a offset +(5m) * b` is printed without its plus, so then the operator belongs to the offset. Infinity is
        // printed with a sign; a sign before a power applies to the power when it is read again.
        if line.contains("Inf ^") {
            return Ok(());
        }
        if let Ok(again) = parse(&line, Syntax::ALL) {
            prop_assert_eq!(again.to_string(), line);
        }
    }
}

/// The words that random texts consist of.
const WORDS: &[&str] = &[
    "sum",
    "topk",
    "by",
    "on",
    "group_left",
    "fill",
    "bool",
    "offset",
    "smoothed",
    "start",
    "step",
    "max_of",
    "and",
    "inf",
    "foo",
    "a:b",
    "rate",
    "time",
    "(",
    ")",
    "()",
    "{",
    "}",
    "{}",
    "[",
    "]",
    "[5m]",
    "[5m:",
    ",",
    ":",
    "=",
    "==",
    "=~",
    "!~",
    "<",
    "</",
    "+",
    "-",
    "*",
    "/",
    "%",
    "^",
    "@",
    "1",
    "0",
    "0x1F",
    "1e3",
    "5m",
    "1h30m",
    "\"a\"",
    "'\\x41'",
    "`c`",
    "\"\\xff\"",
    "\"",
    "\\",
    "#",
    "\n",
    "é",
    "{a=\"b\"}",
    "offset 5m",
    "@ 5",
];
