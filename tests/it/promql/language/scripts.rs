//! Every expression of the scripts is parsed, and its text gives the same tree again.
//!
//! The scripts are those in `tests/data/promql/` and in the folder `PROMQLTEST_DIR`, if it is set.
//! An expression may be refused only where its script expects a failure.

use std::path::Path;

use promkairos::promql::{Syntax, parse};

use super::round_trip::same_tree;

/// An expression of a script, and whether it may fail.
struct Evaluation {
    place: String,
    expr: String,
    may_fail: bool,
}

fn evaluations(folder: &Path) -> Vec<Evaluation> {
    let mut all: Vec<Evaluation> = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder of scripts") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "test") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a script");
        for (at, line) in text.lines().map(str::trim).enumerate() {
            if let Some((command, expr)) = expression(line) {
                all.push(Evaluation {
                    place: format!("{}:{}", path.display(), at + 1),
                    expr: expr.to_owned(),
                    may_fail: command == "eval_fail",
                });
            } else if line.starts_with("expect fail")
                && let Some(evaluation) = all.last_mut()
            {
                evaluation.may_fail = true;
            }
        }
    }
    all
}

/// The command and the expression of an `eval` line.
fn expression(line: &str) -> Option<(&str, &str)> {
    let (command, rest) = line.split_once(' ').filter(|(word, _)| word.starts_with("eval"))?;
    // instant at TIME EXPRESSION | range from TIME to TIME step DURATION EXPRESSION
    let words = if rest.starts_with("instant") { 3 } else { 7 };
    let mut expr = rest;
    for _ in 0..words {
        expr = expr.split_once(char::is_whitespace)?.1.trim_start();
    }
    Some((command, expr))
}

#[test]
fn expressions_of_scripts() {
    let own = format!("{}/tests/data/promql", env!("CARGO_MANIFEST_DIR"));
    let folders = [Some(own), std::env::var("PROMQLTEST_DIR").ok()];
    let folders = folders.iter().flatten().map(Path::new).filter(|folder| folder.exists());
    let all: Vec<Evaluation> = folders.flat_map(evaluations).collect();
    assert!(!all.is_empty(), "no scripts");
    for Evaluation { place, expr, may_fail } in all {
        match parse(&expr, Syntax::ALL) {
            Ok(tree) => {
                same_tree(&tree.to_string(), &tree);
                same_tree(&tree.pretty(), &tree);
            }
            Err(error) => assert!(may_fail, "{place}: {expr}: {error}"),
        }
    }
}
