//! Determines the protocol of a request from its `Content-Type`, and the compression from its encoding.
//!
//! The version header of Prometheus is ignored, because senders omit it. The version header of VictoriaMetrics'
//! agents means that the body may be zstd; no other sender uses that.

use axum::http::{HeaderMap, header};

use crate::request_error::RequestError;
use crate::write_request::shortened;
use promkairos_model::Protocol;

const MEDIA_TYPE: &str = "application/x-protobuf";
const MESSAGE_V1: &str = "prometheus.WriteRequest";
const MESSAGE_V2: &str = "io.prometheus.write.v2.Request";

/// The protocol that `Content-Type` names; version 1 if there is no header.
pub(super) fn protocol(headers: &HeaderMap) -> Result<Protocol, RequestError> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(Protocol::V1) };
    let text = value.to_str().unwrap_or("\u{fffd}");
    by_type(text).map_err(|what| {
        let text = shortened(text.into(), 128);
        let known = format!("{MEDIA_TYPE}, with proto={MESSAGE_V1} or proto={MESSAGE_V2}");
        RequestError::UnsupportedType(format!("content type {text:?}: {what}; accepted is {known}"))
    })
}

fn by_type(text: &str) -> Result<Protocol, &'static str> {
    let mut parts = text.split(';').map(str::trim);
    let media_type = parts.next().unwrap_or_default();
    if media_type.is_empty() && parts.next().is_none() {
        return Ok(Protocol::V1);
    }
    if !media_type.eq_ignore_ascii_case(MEDIA_TYPE) {
        return Err("not the media type of remote write");
    }
    let mut protocol = None;
    for parameter in parts {
        let (name, value) = parameter.split_once('=').ok_or("a parameter is not key=value")?;
        if protocol.is_some() || !name.trim_end().eq_ignore_ascii_case("proto") {
            continue;
        }
        protocol = match value.trim_start().trim_matches('"') {
            MESSAGE_V1 => Some(Protocol::V1),
            MESSAGE_V2 => Some(Protocol::V2),
            _ => return Err("unknown message"),
        };
    }
    Ok(protocol.unwrap_or(Protocol::V1))
}

/// The compression of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    /// A snappy block.
    Snappy,
    /// A zstd frame.
    Zstd,
}

/// The header that identifies agents of VictoriaMetrics.
const VICTORIA_METRICS: &str = "x-victoriametrics-remote-write-version";

/// The compression that `Content-Encoding` names; fails if it is not supported.
pub(super) fn encoding(headers: &HeaderMap, protocol: Protocol) -> Result<Encoding, RequestError> {
    let Some(value) = headers.get(header::CONTENT_ENCODING) else { return Ok(Encoding::Snappy) };
    let may_be_zstd = protocol == Protocol::V1 && headers.contains_key(VICTORIA_METRICS);
    match value.as_bytes() {
        b"" | b"snappy" => Ok(Encoding::Snappy),
        b"zstd" if may_be_zstd => Ok(Encoding::Zstd),
        other => {
            let other = shortened(String::from_utf8_lossy(other).into_owned(), 128);
            let text = format!("content encoding {other:?} is not accepted, only snappy is");
            Err(RequestError::UnsupportedType(text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_types() {
        let check = |text: &str, want: Option<Protocol>| {
            assert_eq!(by_type(text).ok(), want, "{text:?}");
        };
        for text in [
            "",
            "application/x-protobuf",
            "APPLICATION/x-protobuf",
            " application/x-protobuf ; proto = prometheus.WriteRequest",
            "application/x-protobuf;charset=utf-8",
            "application/x-protobuf;PROTO=\"prometheus.WriteRequest\"; charset=utf-8",
            "application/x-protobuf;proto=prometheus.WriteRequest;proto=other",
        ] {
            check(text, Some(Protocol::V1));
        }
        for text in [
            "application/x-protobuf;proto=io.prometheus.write.v2.Request",
            "application/x-protobuf; proto=io.prometheus.write.v2.Request",
            "application/x-protobuf;a=b;proto=io.prometheus.write.v2.Request",
        ] {
            check(text, Some(Protocol::V2));
        }
        for text in [
            "application/json",
            "image/png",
            "application/x-protobuf;",
            ";",
            "application/x-protobuf;proto",
            "application/x-protobuf;proto=",
            "application/x-protobuf;proto=other;proto=prometheus.WriteRequest",
            "application/x-protobuf;proto=Prometheus.WriteRequest",
            "application/x-protobufx",
        ] {
            check(text, None);
        }
    }
}
