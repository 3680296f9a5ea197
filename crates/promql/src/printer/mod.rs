//! Trees as text.
//!
//! `Display` writes one line, `Expr::pretty` as many as are easy to read. Both are exactly what
//! Prometheus writes, so parsing the text gives the tree again, but for lengths of time of less
//! than a millisecond, which it does not write.

mod line;
mod pretty;
