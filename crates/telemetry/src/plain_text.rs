//! Converts OpenMetrics text to the text format of Prometheus, version 0.0.4.
//!
//! Samples are the same in both formats. Help and type of a counter have its name with `_total`,
//! and there are no lines for units and for the end. The input is the text of our registry, which
//! has no exemplars, and no types except counters, gauges and histograms.

/// Converts metrics to the text format of Prometheus.
pub(super) fn of_open_metrics(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // The help line comes before the type line, which decides its name.
    let mut help = "";
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ').map_or("", |(_, help)| help);
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            let total = if kind == "counter" { "_total" } else { "" };
            out.push_str(&format!("# HELP {name}{total} {help}\n# TYPE {name}{total} {kind}\n"));
        } else if !line.starts_with('#') {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::gauge::Gauge;
    use prometheus_client::metrics::histogram::Histogram;
    use prometheus_client::registry::{Registry, Unit};

    use super::*;

    #[test]
    fn counters_have_their_names_and_units_and_the_end_are_gone() {
        let mut registry = Registry::with_prefix("a");
        registry.register("things", "Things # so far", Counter::<u64>::default());
        registry.register_with_unit("held", "Held", Unit::Bytes, Gauge::<i64>::default());
        registry.register_with_unit("took", "Took", Unit::Seconds, Histogram::new([0.5]));
        let mut text = String::new();
        encode(&mut text, &registry).expect("writing to a String does not fail");
        assert_eq!(
            of_open_metrics(&text),
            "# HELP a_things_total Things # so far.\n# TYPE a_things_total counter\n\
             a_things_total 0\n\
             # HELP a_held_bytes Held.\n# TYPE a_held_bytes gauge\na_held_bytes 0\n\
             # HELP a_took_seconds Took.\n# TYPE a_took_seconds histogram\n\
             a_took_seconds_sum 0.0\na_took_seconds_count 0\n\
             a_took_seconds_bucket{le=\"0.5\"} 0\na_took_seconds_bucket{le=\"+Inf\"} 0\n"
        );
    }
}
