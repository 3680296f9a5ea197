//! Where traces are sent, and how many requests are traced.
//!
//! Headers for the collector may be secrets, so they are no setting: a file holds them, or the exporter reads
//! `OTEL_EXPORTER_OTLP_HEADERS`. For the same reason a URL with a user or a query is refused. Errors repeat neither.

use std::path::{Path, PathBuf};

use ureq::http::{HeaderName, HeaderValue, Uri};

use super::error::ConfigError;
use super::file;
use super::raw::Raw;
use crate::model::Secret;
use crate::telemetry::TracesConfig;

/// The setting that switches traces on.
const ENDPOINT: &str = "otlp-endpoint";
/// The setting that names the file with headers.
const HEADERS: &str = "otlp-headers-file";
/// The variable that is used if the setting is not given.
const VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// `None` = no traces.
pub(super) fn from_raw(raw: &Raw) -> Result<Option<TracesConfig>, ConfigError> {
    let sampling = raw.parsed("trace-sampling", sampling)?;
    let headers = match raw.get(HEADERS) {
        Some(path) => headers_of(path.as_ref()).map_err(|why| raw.refuse(HEADERS, why))?,
        None => Vec::new(),
    };
    let url = match raw.get(ENDPOINT) {
        Some(text) => url(text).map_err(|reason| raw.refuse_secret(ENDPOINT, reason))?,
        None => match std::env::var(VARIABLE) {
            Ok(text) if !text.is_empty() => url(&text).map_err(|reason| ConfigError::Variable {
                name: VARIABLE,
                reason: reason.to_owned(),
            })?,
            _ => return Ok(None),
        },
    };
    let headers_file = raw.get(HEADERS).map(PathBuf::from);
    Ok(Some(TracesConfig { url, sampling, headers, headers_file }))
}

/// Parses one header a line: `name=value` up to the end of the line. Errors name only the line.
pub fn parse_trace_headers(text: &str) -> Result<Vec<(String, Secret)>, String> {
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let headers: Vec<_> = lines.map(|(at, line)| header(at, line)).collect::<Result<_, _>>()?;
    if headers.is_empty() {
        return Err("holds no header, such as x-api-key=...".to_owned());
    }
    Ok(headers)
}

/// The headers in a file.
fn headers_of(path: &Path) -> Result<Vec<(String, Secret)>, String> {
    let text = file::read_text(path).map_err(|error| error.to_string())?;
    parse_trace_headers(&text)
}

fn header(at: usize, line: &str) -> Result<(String, Secret), String> {
    let refused = |why: &str| format!("line {at}: {why}");
    let (name, value) = line.split_once('=').ok_or_else(|| refused("must be name=value"))?;
    let name: HeaderName = name.trim().parse().map_err(|_| refused("has no name of a header"))?;
    let value = Some(value.trim()).filter(|value| HeaderValue::from_str(value).is_ok());
    let value = value.ok_or_else(|| refused("has no value that a header can have"))?;
    Ok((name.as_str().to_owned(), Secret::new(value.to_owned())))
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
        return Err("must be a URL without user, password or query: headers go into \
                    the file of otlp-headers-file, or in OTEL_EXPORTER_OTLP_HEADERS");
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
    fn headers_are_lines_and_values_stay_as_they_are() {
        let read = |text: &str| {
            let headers = parse_trace_headers(text)?;
            let shown = |(name, value): (String, Secret)| format!("{name}: {}", value.reveal());
            Ok::<_, String>(headers.into_iter().map(shown).collect::<Vec<_>>())
        };
        for (text, want) in [
            ("x-api-key=k\n", &["x-api-key: k"][..]),
            ("Authorization = Bearer a%2Fb,c= ", &["authorization: Bearer a%2Fb,c="][..]),
            ("a=1,2\r\n\nb=100%25=\n", &["a: 1,2", "b: 100%25="][..]),
        ] {
            assert_eq!(read(text).expect(text), want, "{text:?}");
        }
        for (text, want) in [
            ("", "holds no header, such as x-api-key=..."),
            (" \n\n", "holds no header, such as x-api-key=..."),
            ("s3cret\n", "line 1: must be name=value"),
            ("\na=b\ns3cret\n", "line 3: must be name=value"),
            ("a=b\ns3cret key=c", "line 2: has no name of a header"),
            ("a=s3cret\u{7f}", "line 1: has no value that a header can have"),
        ] {
            assert_eq!(read(text), Err(want.to_owned()), "{text:?}");
        }
    }

    #[test]
    fn a_pipe_is_refused_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).expect("made");
        assert_eq!(headers_of(&pipe), Err("a pipe or a socket, not a file".to_owned()));
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
