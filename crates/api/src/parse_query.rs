//! The syntax tree of a query for `parse_query`, for tools that draw it.
//!
//! Depends only on the text; nothing is evaluated. Keys are sorted alphabetically.

use serde_json::{Value, json};

use promkairos_model::Matcher;
use promkairos_promql::ast::{
    At, Cardinality, Comparison, Duration, DurationExpr, DurationForm, Edges, Expr, Grouping,
    MatchLabels, Matching, Notation, Number, VectorSelector, When,
};
use promkairos_promql::format::fixed;

/// The tree of an expression.
pub(super) fn tree(expr: &Expr) -> Value {
    match expr {
        Expr::Number(node) => json!({"type": "numberLiteral", "val": fixed(node.value)}),
        Expr::String(node) => json!({"type": "stringLiteral", "val": node.value}),
        Expr::Selector(node) => selector("vectorSelector", node),
        Expr::Matrix(node) => {
            let mut tree = selector("matrixSelector", &node.selector);
            (tree["range"], tree["rangeExpr"]) = length(Some(&node.range));
            tree
        }
        Expr::Subquery(node) => {
            let (range, range_expr) = length(Some(&node.range));
            let (step, step_expr) = length(node.step.as_ref());
            let (offset, offset_expr) = length(node.when.offset.as_ref());
            let (timestamp, start_or_end) = at(&node.when);
            json!({
                "type": "subquery",
                "expr": tree(&node.expr),
                "range": range,
                "rangeExpr": range_expr,
                "step": step,
                "stepExpr": step_expr,
                "offset": offset,
                "offsetExpr": offset_expr,
                "timestamp": timestamp,
                "startOrEnd": start_or_end,
            })
        }
        Expr::Call(node) => {
            let signature = node.function.signature();
            let types: Vec<_> = signature.args.iter().map(ToString::to_string).collect();
            json!({
                "type": "call",
                "func": {
                    "name": signature.name,
                    "argTypes": types,
                    "variadic": signature.variadic,
                    "returnType": signature.returns.to_string(),
                },
                "args": node.args.iter().map(tree).collect::<Vec<_>>(),
            })
        }
        Expr::Aggregate(node) => {
            let (Grouping::By(labels) | Grouping::Without(labels)) = &node.grouping;
            json!({
                "type": "aggregation",
                "op": node.op.name(),
                "expr": tree(&node.expr),
                "param": node.param.as_deref().map(tree),
                "grouping": labels,
                "without": matches!(node.grouping, Grouping::Without(_)),
            })
        }
        Expr::Binary(node) => json!({
            "type": "binaryExpr",
            "op": node.op.name(),
            "lhs": tree(&node.lhs),
            "rhs": tree(&node.rhs),
            "matching": node.matching.as_ref().map(matching),
            "bool": node.comparison == Comparison::Bool,
        }),
        Expr::Unary(node) => {
            json!({"type": "unaryExpr", "op": node.sign.to_string(), "expr": tree(&node.expr)})
        }
        Expr::Paren(node) => json!({"type": "parenExpr", "expr": tree(&node.expr)}),
    }
}

fn selector(kind: &str, node: &VectorSelector) -> Value {
    let (offset, offset_expr) = length(node.when.offset.as_ref());
    let (timestamp, start_or_end) = at(&node.when);
    json!({
        "type": kind,
        "name": node.name.as_deref().unwrap_or_default(),
        "matchers": node.matchers.iter().map(matcher).collect::<Vec<_>>(),
        "offset": offset,
        "offsetExpr": offset_expr,
        "timestamp": timestamp,
        "startOrEnd": start_or_end,
        "anchored": node.edges == Some(Edges::Anchored),
        "smoothed": node.edges == Some(Edges::Smoothed),
    })
}

fn matcher(matcher: &Matcher) -> Value {
    json!({"name": matcher.name(), "type": matcher.op().text(), "value": matcher.value()})
}

/// The time that `@` sets: as a number, or as a name.
fn at(when: &When) -> (Value, Value) {
    match when.at {
        None => (Value::Null, Value::Null),
        Some(At::Time(millis)) => (millis.into(), Value::Null),
        Some(At::Start) => (Value::Null, "start".into()),
        Some(At::End) => (Value::Null, "end".into()),
    }
}

/// A duration: milliseconds of a literal or 0, and the tree of an expression.
fn length(duration: Option<&Duration>) -> (Value, Value) {
    match duration {
        None => (0.into(), Value::Null),
        Some(Duration::Expr(expr)) => (0.into(), duration_expr(expr)),
        Some(literal) => (literal.literal_millis().into(), Value::Null),
    }
}

fn duration(duration: &Duration) -> Value {
    match duration {
        Duration::Literal(Number { value, notation, .. }) => json!({
            "type": "numberLiteral",
            "val": fixed(*value),
            "duration": *notation == Notation::Duration,
        }),
        Duration::Expr(expr) => duration_expr(expr),
    }
}

fn duration_expr(expr: &DurationExpr) -> Value {
    let (op, lhs, rhs) = match &expr.form {
        DurationForm::Step => ("step".into(), None, None),
        DurationForm::Range => ("range".into(), None, None),
        DurationForm::MinOf(a, b) => ("min_of".into(), Some(a), Some(b)),
        DurationForm::MaxOf(a, b) => ("max_of".into(), Some(a), Some(b)),
        DurationForm::Signed(sign, a) => (sign.to_string(), None, Some(a)),
        DurationForm::Arithmetic(op, a, b) => (op.name().into(), Some(a), Some(b)),
    };
    json!({
        "type": "durationExpr",
        "op": op,
        "lhs": lhs.map(duration),
        "rhs": rhs.map(duration),
        "wrapped": expr.wrapped,
    })
}

fn matching(matching: &Matching) -> Value {
    let (MatchLabels::On(labels) | MatchLabels::Ignoring(labels)) = &matching.labels;
    let cardinality = match matching.cardinality {
        Cardinality::OneToOne => "one-to-one",
        Cardinality::ManyToOne => "many-to-one",
        Cardinality::OneToMany => "one-to-many",
        Cardinality::ManyToMany => "many-to-many",
    };
    json!({
        "card": cardinality,
        "labels": labels,
        "on": matches!(matching.labels, MatchLabels::On(_)),
        "include": matching.include,
        "fillValues": {"lhs": fill(matching.fill_left), "rhs": fill(matching.fill_right)},
    })
}

/// A number as JSON, without a fraction if it is whole. A number that JSON cannot express is null.
fn fill(value: Option<f64>) -> Value {
    const WHOLE: f64 = (1_u64 << 53) as f64;
    match value {
        Some(value) if value.fract() == 0.0 && value.abs() < WHOLE && !is_minus_zero(value) => {
            (value as i64).into()
        }
        value => value.into(),
    }
}

fn is_minus_zero(value: f64) -> bool {
    value == 0.0 && value.is_sign_negative()
}

#[cfg(test)]
mod tests {
    use super::*;
    use promkairos_promql::{Features, Names, Syntax, parse};

    /// The JSON of Prometheus, which escapes HTML characters.
    fn escaped(tree: &Value) -> String {
        let escapes = [("&", "\\u0026"), ("<", "\\u003c"), (">", "\\u003e")];
        escapes.iter().fold(tree.to_string(), |text, (plain, escape)| text.replace(plain, escape))
    }

    /// The body of a recorded answer if it was stored, otherwise the value that it was parsed to.
    fn check(recorded: &Value, syntax: Syntax) -> Option<String> {
        if recorded["path"] != "/api/v1/parse_query" || recorded["status"] != 200 {
            return None;
        }
        let mut parameters =
            ["form", "params"].into_iter().flat_map(|part| recorded[part].as_array());
        let query = parameters.find_map(|pairs| pairs.iter().find(|pair| pair[0] == "query"))?;
        let query = query[1].as_str()?;
        let tree = tree(&parse(query, syntax).expect(query));
        assert_eq!(tree, recorded["json"]["data"], "{query}");
        if let Some(body) = recorded["raw"].as_str() {
            let answer = format!(r#"{{"status":"success","data":{}}}"#, escaped(&tree));
            assert_eq!(answer, body, "{query}");
        }
        Some(query.to_owned())
    }

    #[test]
    fn trees_are_those_of_prometheus() {
        let mut checked = 0;
        let names = Syntax { features: Features::Stable, names: Names::Unicode };
        for (file, syntax) in [
            ("requests", Features::Stable.into()),
            ("requests-experimental", Features::Experimental.into()),
            ("requests-new", Features::Experimental.into()),
            ("requests-utf8", names),
        ] {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data");
            let path = format!("{folder}/prometheus-3.16/{file}.jsonl");
            let text = std::fs::read_to_string(&path).expect(&path);
            let recorded = text.lines().map(|line| serde_json::from_str(line).expect(line));
            checked += recorded.filter_map(|recorded: Value| check(&recorded, syntax)).count();
        }
        assert_eq!(checked, 223);
    }

    #[test]
    fn numbers_to_fill_in() {
        let json = |value| fill(Some(value)).to_string();
        assert_eq!(json(0.0), "0");
        assert_eq!(json(-0.0), "-0.0");
        assert_eq!(json(1.5), "1.5");
        assert_eq!(json(1e15), "1000000000000000");
        assert_eq!(json(f64::NAN), "null");
        assert_eq!(fill(None), Value::Null);
    }
}
