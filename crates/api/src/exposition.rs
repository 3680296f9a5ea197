//! `GET /metrics`: the metrics of this process, in the format that the client prefers.
//!
//! Clients that name OpenMetrics get it, as with Prometheus; others get the text format of Prometheus,
//! which `promtool check metrics` also reads.

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::IntoResponse;

use super::state::SharedState;

/// The formats of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// The text format of Prometheus, version 0.0.4.
    Plain,
    /// OpenMetrics, version 1.0.0.
    OpenMetrics,
}

/// `GET /metrics`: the metrics of this process.
pub(super) async fn metrics(
    State(state): State<SharedState>,
    headers: HeaderMap,
) -> impl IntoResponse {
    let accepted = headers.get_all(header::ACCEPT).iter();
    let accepted: Vec<&str> = accepted.filter_map(|value| value.to_str().ok()).collect();
    let (content_type, text) = match best(&accepted.join(",")) {
        Format::Plain => ("text/plain; version=0.0.4; charset=utf-8", state.metrics.encode_plain()),
        Format::OpenMetrics => {
            ("application/openmetrics-text; version=1.0.0; charset=utf-8", state.metrics.encode())
        }
    };
    ([(header::CONTENT_TYPE, content_type), (header::VARY, "accept")], text)
}

/// The format with the highest weight in a header `Accept`; the first of equal ones.
fn best(accept: &str) -> Format {
    let mut best = (Format::Plain, 0.0);
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let format = match parts.next().unwrap_or_default().to_ascii_lowercase().as_str() {
            "application/openmetrics-text" => Format::OpenMetrics,
            "text/plain" | "text/*" | "*/*" => Format::Plain,
            _ => continue,
        };
        let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(Ok(1.0), str::parse);
        let weight: f64 = weight.unwrap_or(0.0);
        if weight > best.1 {
            best = (format, weight);
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_metrics_is_for_who_likes_it_best() {
        // The header of Prometheus 3.
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
                          application/openmetrics-text;version=0.0.1;q=0.4,\
                          text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,\
                          text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        for (accept, want) in [
            (prometheus, Format::OpenMetrics),
            ("application/openmetrics-text", Format::OpenMetrics),
            ("text/html, Application/OpenMetrics-Text; version=1.0.0", Format::OpenMetrics),
            ("application/openmetrics-text; q=0.2, text/plain; q=0.7", Format::Plain),
            ("application/openmetrics-text; q=0", Format::Plain),
            ("application/openmetrics-text; q=much", Format::Plain),
            ("text/plain", Format::Plain),
            ("*/*", Format::Plain),
            ("application/json", Format::Plain),
            ("", Format::Plain),
        ] {
            assert_eq!(best(accept), want, "{accept}");
        }
    }
}
