//! Clients of Prometheus that use promkairos instead: `promtool` and `vmalert`.

mod promtool;
mod vmalert;

use crate::support::promkairos::Promkairos;
use crate::support::series::{floats, send};

/// Writes a gauge of two instances, with the values 1 and 0, for the minute before `end`.
async fn busy(server: &Promkairos, end: i64) {
    let one = |instance, value| {
        let points: Vec<(i64, f64)> = (-4..=0).map(|at| (end + at * 15_000, value)).collect();
        floats(&[("__name__", "busy"), ("instance", instance), ("job", "api")], &points)
    };
    assert_eq!(send(&server.url(""), vec![one("a", 1.0), one("b", 0.0)]).await, 204);
}
