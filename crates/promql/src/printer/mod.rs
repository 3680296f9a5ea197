//! Trees as text.
//!
//! `Display` writes one line, `Expr::pretty` as many lines as are easy to read, both exactly as
//! Prometheus does. Parsing the text gives the same tree, except for durations below a
//! millisecond, which are not written.

mod line;
mod pretty;
