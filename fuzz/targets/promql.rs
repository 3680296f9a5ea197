//! Queries: parsing and printing never panic, and a printed query is parsed and printed as the same text.

use promkairos::promql::{Features, parse, parse_selector};

/// The text of a query.
pub(crate) fn check(data: &[u8]) {
    let Ok(query) = str::from_utf8(data) else { return };
    let _ = parse_selector(query);
    let Ok(expr) = parse(query, Features::Experimental) else { return };
    let line = expr.to_string();
    for text in [expr.pretty(), line.clone()] {
        match parse(&text, Features::Experimental) {
            // Infinity is printed with a sign, which becomes a sign of its power when it is parsed again.
            Ok(again) => assert!(again.to_string() == line || line.contains("Inf ^"), "{line}"),
            Err(error) => assert!(refused(&text), "{text}: {error}"),
        }
    }
}

/// Durations below a millisecond print as 0s, which is refused; `a offset +(5m) * b` loses its
/// plus, so that the operator belongs to the offset.
fn refused(text: &str) -> bool {
    let alone = |at: usize| !text[..at].ends_with(|c: char| c.is_ascii_alphanumeric());
    text.match_indices("0s").any(|(at, _)| alone(at)) || text.contains(" offset ")
}
