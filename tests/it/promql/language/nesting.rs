//! Deep nesting and long texts: an error, never an overflow of the stack.
//!
//! Each shape is tried on a thread with the stack of a usual worker: at the deepest nesting
//! allowed, one deeper, and far deeper.

use promkairos::limits::{MAX_QUERY_BYTES, MAX_QUERY_DEPTH};
use promkairos::promql::{Features, parse};

const STACK: usize = 2 << 20;

/// Parses, prints and drops on a small stack.
fn answer(query: String) -> Result<usize, String> {
    let work = move || match parse(&query, Features::Experimental) {
        Ok(expr) => Ok(expr.pretty().len().max(expr.clone().to_string().len())),
        Err(error) => Err(error.message),
    };
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(work);
    thread.expect("a thread").join().expect("no panic")
}

#[test]
fn every_shape_has_its_limit() {
    let shapes: [(&str, &str, &str, usize); 10] = [
        ("(", "a", ")", 1),
        ("-", "a", "", 1),
        ("sum(", "a", ")", 1),
        ("abs(", "a", ")", 1),
        ("a + ", "a", "", 1),
        ("a ^ ", "a", "", 1),
        ("", "a", " + a", 1),
        ("", "a", "[1m:]", 1),
        ("topk(1, ", "a", ")", 1),
        ("a or (", "a", ")", 2),
    ];
    for (before, inside, after, levels) in shapes {
        let nested = |times: usize| before.repeat(times) + inside + &after.repeat(times);
        let most = (MAX_QUERY_DEPTH - 1) / levels;
        // A nested subquery is refused, as it gives no instant vector, but only after it is parsed.
        let deepest = answer(nested(most));
        let fits =
            deepest.as_ref().is_ok() || deepest.as_ref().is_err_and(|e| e.contains("subquery"));
        assert!(fits, "{before}{inside}{after}: {deepest:?}");
        for times in [most + 1, 20_000] {
            let refused = answer(nested(times)).expect_err("too deep");
            assert!(
                refused.contains("nested deeper than 500"),
                "{before}{inside}{after}: {refused}"
            );
        }
    }
}

#[test]
fn durations_have_the_same_limit() {
    for (before, after) in [("(", ")"), ("-", ""), ("1m + ", ""), ("1m ^ ", ""), ("", " + 1m")] {
        let nested = |times: usize| format!("a[{}1m{}]", before.repeat(times), after.repeat(times));
        assert!(answer(nested(MAX_QUERY_DEPTH - 2)).is_ok(), "{before}1m{after}");
        let refused = answer(nested(20_000)).expect_err("too deep");
        assert!(refused.contains("nested deeper than 500"), "{before}1m{after}: {refused}");
    }
}

#[test]
fn a_text_may_be_so_long() {
    let sized = |bytes: usize| format!("\"{}\"", "a".repeat(bytes - 2));
    assert_eq!(answer(sized(MAX_QUERY_BYTES)), Ok(MAX_QUERY_BYTES));
    let refused = answer(sized(MAX_QUERY_BYTES + 1));
    assert_eq!(
        refused,
        Err("1048577 bytes, and a query may have 1048576; no setting changes that".into())
    );
}
