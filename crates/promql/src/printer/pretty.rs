//! A tree in several lines that are easy to read.
//!
//! An expression that fits into 100 bytes is one line. A longer one is split, and its parts are
//! indented by two more blanks. A subquery that fits is not indented, as upstream.

use std::fmt::{self, Display, Write as _};

use super::super::ast::Expr;
use super::line::{Head, Operator, SubqueryRange};

/// Bytes of a line, its indentation not counted.
const WIDTH: usize = 100;

impl Expr {
    /// The expression as the endpoint `format_query` returns it.
    pub fn pretty(&self) -> String {
        let mut text = String::new();
        self.write_pretty(&mut text, 0);
        text
    }

    fn write_pretty(&self, out: &mut String, level: usize) {
        let inner = level + 1;
        match self {
            Self::Unary(node) => {
                indent(out, level);
                push(out, &node.sign);
                let mut operand = String::new();
                node.expr.write_pretty(&mut operand, level);
                out.push_str(operand.trim());
            }
            Self::Subquery(node) if !fits(self) => {
                node.expr.write_pretty(out, level);
                push(out, &SubqueryRange(node));
            }
            Self::Subquery(_) => push(out, self),
            Self::Binary(node) if !fits(self) => {
                node.lhs.write_pretty(out, inner);
                out.push('\n');
                indent(out, level);
                push(out, &Operator(node));
                out.push('\n');
                node.rhs.write_pretty(out, inner);
            }
            Self::Call(node) if !fits(self) => {
                indent(out, level);
                push(out, &node.function);
                in_parens(out, level, node.args.iter());
            }
            Self::Aggregate(node) if !fits(self) => {
                indent(out, level);
                push(out, &Head(node));
                in_parens(out, level, node.param.iter().chain([&node.expr]).map(|expr| &**expr));
            }
            Self::Paren(node) if !fits(self) => {
                indent(out, level);
                in_parens(out, level, [&*node.expr].into_iter());
            }
            _ => {
                indent(out, level);
                push(out, self);
            }
        }
    }
}

fn in_parens<'a>(out: &mut String, level: usize, parts: impl Iterator<Item = &'a Expr>) {
    out.push('(');
    for (at, part) in parts.enumerate() {
        out.push_str(if at > 0 { ",\n" } else { "\n" });
        part.write_pretty(out, level + 1);
    }
    out.push('\n');
    indent(out, level);
    out.push(')');
}

fn indent(out: &mut String, level: usize) {
    out.extend(std::iter::repeat_n("  ", level));
}

fn push(out: &mut String, part: &dyn Display) {
    // Writing to a string does not fail.
    let _ = write!(out, "{part}");
}

/// Whether an expression fits into a line.
fn fits(expr: &Expr) -> bool {
    let mut left = Room(WIDTH);
    write!(left, "{expr}").is_ok()
}

/// Counts the bytes written; fails if they are more than the room.
struct Room(usize);

impl fmt::Write for Room {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = self.0.checked_sub(text.len()).ok_or(fmt::Error)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Features, parse};

    fn check(query: &str, want: &str) {
        assert_eq!(parse(query, Features::Stable).expect(query).pretty(), want);
    }

    #[test]
    fn what_fits_stays_in_a_line() {
        let name = "a".repeat(94);
        check(&format!("sum( {name} )"), &format!("sum({name}) ").replace(") ", ")"));
        check(&format!("sum({name}b)"), &format!("sum({name}b)"));
        check(&format!("sum({name}bc)"), &format!("sum(\n  {name}bc\n)"));
    }

    #[test]
    fn parts_are_indented_but_not_subqueries_that_fit() {
        let (a, b) = ("a".repeat(60), "b".repeat(60));
        check(
            &format!("-topk by (x) (2, {a} + on (y) max_over_time({b}[5m:]))"),
            &format!("-topk by (x) (\n  2,\n    {a}\n  + on (y)\n    max_over_time({b}[5m:])\n)"),
        );
        let long = "c".repeat(101);
        check(&format!("rate({long}[5m:])"), &format!("rate(\n  {long}[5m:]\n)"));
        check(
            &format!("(rate({a}[5m:]) + {b})"),
            &format!("(\n    rate({a}[5m:])\n  +\n    {b}\n)"),
        );
    }
}
