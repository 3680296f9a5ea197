//! The headers of W3C's trace context: a valid one decides whether a request is traced, and its
//! parent; any other is ignored.
use std::sync::LazyLock;

use opentelemetry::Context;
use opentelemetry::trace::TraceContextExt;
use promkairos::telemetry::{Traces, TracesConfig};

/// One traces nothing unless the sender wants it, the other traces everything.
static TRACES: LazyLock<[Traces; 2]> = LazyLock::new(|| {
    [0.0, 1.0].map(|sampling| {
        // Nothing is sent: there are no spans.
        let url = "http://127.0.0.1:9/v1/traces".into();
        let config = TracesConfig { url, sampling, headers: Vec::new(), headers_file: None };
        Traces::start(Some(&config)).expect("started")
    })
});

/// Both headers, separated by a newline.
pub(crate) fn check(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let (traceparent, tracestate) = text.split_once('\n').unwrap_or((text, ""));
    let said = decision(traceparent, tracestate);
    if let Some((ids, is_sampled)) = of_the_form(traceparent) {
        assert_eq!(said, Some((ids.to_owned(), is_sampled)), "{traceparent:?}");
    }
    if let Some((ids, is_sampled)) = said {
        // Whatever form was read can be written in this one.
        let again = format!("00-{ids}-{:02x}", u8::from(is_sampled));
        assert_eq!(decision(&again, ""), Some((ids, is_sampled)), "{traceparent:?}");
    }
}

/// The sender's decision: the ids of trace and span if it wants the request traced, else zeros; and
/// whether it does. `None` = no valid header.
fn decision(traceparent: &str, tracestate: &str) -> Option<(String, bool)> {
    let header = |name: &str| match name {
        "traceparent" => Some(traceparent),
        "tracestate" => Some(tracestate),
        _ => None,
    };
    let [seldom, always] = &*TRACES;
    match (seldom.parent("/", header), always.parent("/", header)) {
        (None, Some(parent)) => {
            assert!(!parent.has_active_span(), "{traceparent:?} decides nothing");
            None
        }
        (Some(parent), Some(same)) => {
            assert_eq!(ids(&parent), ids(&same));
            Some((ids(&parent), true))
        }
        (None, None) => Some((NOT_TRACED.to_owned(), false)),
        (Some(_), None) => panic!("{traceparent:?} is traced by who traces less"),
    }
}

/// Placeholder for the ids of a request that its sender does not want traced: they are not used.
const NOT_TRACED: &str = "00000000000000000000000000000001-0000000000000001";

fn ids(context: &Context) -> String {
    let span = context.span();
    let span = span.span_context();
    format!("{}-{}", span.trace_id(), span.span_id())
}

/// The ids in a header of exactly the form that all versions share, and whether it is sampled.
fn of_the_form(header: &str) -> Option<(&str, bool)> {
    let is_hex = |text: &str| text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
    let parts: Vec<&str> = header.split('-').collect();
    let [version, trace, span, flags] = parts[..] else { return None };
    let lengths = [version, trace, span, flags].map(str::len);
    let has_zeros = [trace, span].iter().any(|number| number.bytes().all(|c| c == b'0'));
    if lengths != [2, 32, 16, 2] || !parts.iter().all(|part| is_hex(part)) || has_zeros {
        return None;
    }
    let is_sampled = u8::from_str_radix(flags, 16).expect("two digits") & 1 == 1;
    let ids = if is_sampled { &header[3..52] } else { NOT_TRACED };
    (version != "ff").then_some((ids, is_sampled))
}
