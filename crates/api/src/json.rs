//! Answers in the JSON envelope of the Prometheus API, keys in its order: `{"status": "success",
//! "data": ..., "warnings": [...]}` or `{"status": "error", "errorType": ..., "error": ...}`.
//!
//! Text is escaped as in Prometheus, so that HTML cannot occur in it. Large answers are built piece
//! by piece while they are sent.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::io;

use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::stream;
use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::{CharEscape, Formatter};

use super::ApiError;
use promkairos_model::Labels;
use promkairos_model::limits::ANSWER_PIECE_BYTES;
use promkairos_promql::annotations::Shown;

const JSON: [(header::HeaderName, &str); 1] = [(header::CONTENT_TYPE, "application/json")];

/// A success with data, or an error.
pub(super) fn answer(data: Result<impl Serialize, ApiError>) -> Response {
    data.map_or_else(failure, |data| warned(&data, Vec::new()))
}

/// A success with data and warnings.
pub(super) fn warned(data: &impl Serialize, warnings: Vec<String>) -> Response {
    let tail = tail(&Shown { warnings, ..Shown::default() });
    (JSON, format!("{{\"status\":\"success\",\"data\":{}{tail}", text(data))).into_response()
}

/// The answer, or the error as a response.
pub(super) fn respond(answer: Result<Response, ApiError>) -> Response {
    answer.unwrap_or_else(failure)
}

/// An answer of `head`, a list of items, and `tail`.
pub(super) fn list<I>(
    head: &str,
    items: I,
    write: impl FnMut(&mut String, I::Item) + Send + 'static,
    tail: &str,
) -> Response
where
    I: IntoIterator<IntoIter: Send + 'static>,
{
    items_between(format!("{head}["), items, write, format!("]{tail}"))
}

/// An answer of `head`, items separated by commas, and `tail`.
pub(super) fn items_between<I>(
    head: String,
    items: I,
    mut write: impl FnMut(&mut String, I::Item) + Send + 'static,
    tail: String,
) -> Response
where
    I: IntoIterator<IntoIter: Send + 'static>,
{
    let mut items = items.into_iter();
    let mut separator = "";
    let next = move |out: &mut String| {
        let Some(item) = items.next() else { return false };
        out.push_str(std::mem::replace(&mut separator, ","));
        write(out, item);
        true
    };
    stream(head, next, tail)
}

/// An answer of `head`, items, and `tail`: `next` writes one item, or returns false at the end.
pub(super) fn stream(
    head: String,
    next: impl FnMut(&mut String) -> bool + Send + 'static,
    tail: String,
) -> Response {
    let mut pieces =
        JsonPieces { head: format!("{{\"status\":\"success\",\"data\":{head}"), next, tail };
    let first = pieces.next().unwrap_or_default();
    // A large answer is streamed even if it is one piece, so that `next` keeps its data until the piece is sent.
    let body = match pieces.tail.is_empty() && first.len() <= 2 * ANSWER_PIECE_BYTES {
        true => Body::from(first),
        false => {
            let pieces = std::iter::once(first).chain(pieces).map(Ok::<Bytes, Infallible>);
            Body::from_stream(stream::iter(pieces))
        }
    };
    (JSON, body).into_response()
}

struct JsonPieces<F> {
    head: String,
    next: F,
    /// Empty once it has been written.
    tail: String,
}

impl<F: FnMut(&mut String) -> bool> Iterator for JsonPieces<F> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.tail.is_empty() {
            return None;
        }
        let mut piece = std::mem::take(&mut self.head);
        while (self.next)(&mut piece) {
            if piece.len() >= ANSWER_PIECE_BYTES {
                return Some(piece.into());
            }
        }
        piece.push_str(&std::mem::take(&mut self.tail));
        Some(piece.into())
    }
}

/// The text after the data.
pub(super) fn tail(shown: &Shown) -> String {
    let mut out = String::new();
    for (key, notes) in [("warnings", &shown.warnings), ("infos", &shown.infos)] {
        if !notes.is_empty() {
            let _ = write!(out, ",\"{key}\":{}", text(notes));
        }
    }
    out + "}"
}

/// Any error. Only "not ready" is plain text.
pub(super) fn failure(error: ApiError) -> Response {
    if matches!(error, ApiError::NotReady(_)) {
        return error.into_response();
    }
    let body = error_body(error.kind(), &error.to_string());
    let plain = error.into_response();
    let (mut parts, _) = plain.into_parts();
    parts.headers.remove(header::CONTENT_TYPE);
    parts.headers.remove(header::CONTENT_LENGTH);
    (parts.status, parts.headers, JSON, body).into_response()
}

/// An error in the envelope of Prometheus.
pub(super) fn error(status: StatusCode, kind: &str, why: &str) -> Response {
    (status, JSON, error_body(kind, why)).into_response()
}

fn error_body(kind: &str, why: &str) -> String {
    let (kind, why) = (text(kind), text(why));
    format!("{{\"status\":\"error\",\"errorType\":{kind},\"error\":{why}}}")
}

/// A value as JSON.
pub(super) fn text(value: &(impl Serialize + ?Sized)) -> String {
    let mut out = Vec::new();
    let written = value.serialize(&mut Serializer::with_formatter(&mut out, Escaped));
    debug_assert!(written.is_ok(), "texts are keys, and memory takes what is written");
    String::from_utf8(out).unwrap_or_default()
}

/// Appends a label set.
pub(super) fn labels(out: &mut String, labels: &Labels) {
    out.push('{');
    for (at, (name, value)) in labels.iter().enumerate() {
        let separator = if at > 0 { "," } else { "" };
        let _ = write!(out, "{separator}{}:{}", text(name), text(value));
    }
    out.push('}');
}

/// The escapes of Prometheus.
struct Escaped;

impl Formatter for Escaped {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let special = ['<', '>', '&', '\u{2028}', '\u{2029}'];
        let mut rest = fragment;
        while let Some(at) = rest.find(special) {
            writer.write_all(&rest.as_bytes()[..at])?;
            let c = rest[at..].chars().next().unwrap_or_default();
            write!(writer, "\\u{:04x}", u32::from(c))?;
            rest = &rest[at + c.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }

    fn write_char_escape<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        match escape {
            CharEscape::Quote => writer.write_all(b"\\\""),
            CharEscape::ReverseSolidus => writer.write_all(b"\\\\"),
            CharEscape::Solidus => writer.write_all(b"/"),
            CharEscape::LineFeed => writer.write_all(b"\\n"),
            CharEscape::CarriageReturn => writer.write_all(b"\\r"),
            CharEscape::Tab => writer.write_all(b"\\t"),
            CharEscape::Backspace => writer.write_all(b"\\u0008"),
            CharEscape::FormFeed => writer.write_all(b"\\u000c"),
            CharEscape::AsciiControl(byte) => write!(writer, "\\u{byte:04x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_as_prometheus_does() {
        assert_eq!(text("a\"\\/\n\u{8}\u{1}é"), r#""a\"\\/\n\u0008\u0001é""#);
        assert_eq!(text("<a&b>\u{2028}"), r#""\u003ca\u0026b\u003e\u2028""#);
    }

    #[tokio::test]
    async fn a_long_answer_is_made_in_pieces() {
        let mut left = 100_000;
        let next = move |out: &mut String| {
            left -= 1;
            out.push_str(if left > 0 { "1," } else { "1" });
            left > 0
        };
        let response = stream("[".into(), next, "]}".into());
        assert_eq!(response.headers().get(header::CONTENT_LENGTH), None);
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.expect("whole");
        let body: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(body["data"].as_array().map(Vec::len), Some(100_000));
    }
}
