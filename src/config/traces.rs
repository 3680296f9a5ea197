//! Where traces go, and how many requests have one.
//!
//! Headers for the collector may be secrets, so they are no setting: who sends the traces reads
//! them from `OTEL_EXPORTER_OTLP_HEADERS`. For the same reason a URL with a user or a query is
//! refused, and not repeated.

use ureq::http::Uri;

use super::ConfigError;
use super::raw::Raw;

/// The setting that switches traces on.
const ENDPOINT: &str = "otlp-endpoint";
/// The variable that stands for it where nothing else is said.
const VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// Where traces go, and how many requests have one.
#[derive(Debug, Clone, PartialEq)]
pub struct TracesConfig {
    /// The collector's URL for traces.
    pub url: String,
    /// Share of the requests that are traced, of those whose sender has not decided it; 0 to 1.
    pub sampling: f64,
}

impl TracesConfig {
    /// `None` = there are no traces.
    pub(super) fn from_raw(raw: &Raw) -> Result<Option<Self>, ConfigError> {
        let sampling = sampling(raw.required("trace-sampling"));
        let sampling = sampling.map_err(|reason| raw.refuse("trace-sampling", reason))?;
        let url = match raw.get(ENDPOINT) {
            Some(text) => url(text).map_err(|reason| raw.refuse_secret(ENDPOINT, reason))?,
            None => match std::env::var(VARIABLE) {
                Ok(text) if !text.is_empty() => url(&text).map_err(|reason| {
                    ConfigError::Variable { name: VARIABLE, reason: reason.to_owned() }
                })?,
                _ => return Ok(None),
            },
        };
        Ok(Some(Self { url, sampling }))
    }
}

fn sampling(text: &str) -> Result<f64, &'static str> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("must be a number from 0 to 1"),
    }
}

/// The URL for traces of the collector at `base`.
fn url(base: &str) -> Result<String, &'static str> {
    const FORM: &str = "must be a URL such as http://127.0.0.1:4318";
    if base.contains(['@', '?', '#']) {
        return Err("must be a URL without user, password or query: headers stand in \
                    OTEL_EXPORTER_OTLP_HEADERS");
    }
    let base = base.trim_end_matches('/');
    let uri: Uri = base.parse().map_err(|_| FORM)?;
    let is_http = uri.scheme_str().is_some_and(|scheme| ["http", "https"].contains(&scheme));
    match uri.host() {
        Some(host) if is_http && !host.is_empty() => Ok(format!("{base}/v1/traces")),
        _ => Err(FORM),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_traces_is_below_the_endpoint() {
        for (base, want) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("https://a.example/otlp/", "https://a.example/otlp/v1/traces"),
            ("http://[::1]:4318", "http://[::1]:4318/v1/traces"),
        ] {
            assert_eq!(url(base).as_deref(), Ok(want));
        }
    }

    #[test]
    fn what_is_no_url_or_may_hold_a_secret_is_refused() {
        for base in ["", "localhost:4318", "/v1", "ftp://a:1", "http://", "http:// a"] {
            let why = url(base).expect_err(base);
            assert!(why.contains("such as http://"), "{base}: {why}");
        }
        for base in ["http://u:p@a:1", "http://a:1?key=k", "http://a:1/#k"] {
            let why = url(base).expect_err(base);
            assert!(why.contains("OTEL_EXPORTER_OTLP_HEADERS"), "{base}: {why}");
        }
    }

    #[test]
    fn a_share_is_a_number_from_0_to_1() {
        for (text, want) in [("0", 0.0), ("1", 1.0), ("0.05", 0.05), ("1e-3", 0.001)] {
            assert_eq!(sampling(text), Ok(want));
        }
        for bad in ["", "-0.1", "1.1", "10%", "NaN", "inf", "a"] {
            sampling(bad).expect_err(bad);
        }
    }
}
