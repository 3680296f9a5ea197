//! Queries of URLs that are too long for the HTTP library, over HTTP/1.
//!
//! Stands between the socket and the library. The crate `http` accepts [`MAX_TARGET_BYTES`] of path and query. If a
//! request line has more, its query is kept here, and a header of the same length replaces it. The request gets its
//! query back by the random value of that header.
//!
//! Invariant: no byte is added or removed. So even if bytes only look like the beginning of a request, the library
//! finds the same requests with the same ends; and a query belongs to one request alone. Not here: the limit of a head
//! (`api`), HTTP/2, pipelined requests.

use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Bytes;
use axum::http::{HeaderName, Request};
use parking_lot::Mutex;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::io::{AsyncRead, ReadBuf};

use super::connection_pool::Slot;
use crate::limits::{MAX_HEAD_BYTES, MAX_TARGET_BYTES};

/// The header that replaces a query.
const HEADER: &str = "x-promkairos-query";
/// Random hexadecimal digits of the value; zeros follow.
const RANDOM_DIGITS: usize = 32;
/// Bytes that are read at a time for an incomplete line.
const READ: usize = 16 << 10;

/// The query of the next request on a connection, if it is kept.
#[derive(Clone, Default)]
pub(super) struct KeptQuery(Arc<Mutex<Option<Kept>>>);

struct Kept {
    /// The prefix of the header's value.
    random: String,
    query: Bytes,
}

impl KeptQuery {
    /// The query that a header of this request replaces; removes the header.
    pub(super) fn take<B>(&self, request: &mut Request<B>) -> Option<Bytes> {
        let value = request.headers().get(HEADER)?.as_bytes();
        let is_of = |kept: &mut Kept| value.starts_with(kept.random.as_bytes());
        let kept = self.0.lock().take_if(is_of)?;
        request.headers_mut().remove(HeaderName::from_static(HEADER));
        Some(kept.query)
    }

    /// Keeps the query of a request line, which ends with the first line feed in `lines`, if it is too long for the
    /// library.
    fn keep(&self, lines: &mut [u8]) {
        let Some(end) = lines.iter().position(|byte| *byte == b'\n') else { return };
        let Some(query) = long_query(&lines[..end]) else { return };
        let zeros = query.len().checked_sub(HEADER.len() + RANDOM_DIGITS + ":\r\n".len());
        let mut random = [0; RANDOM_DIGITS / 2];
        let Some(zeros) = zeros else { return };
        if SystemRandom::new().fill(&mut random).is_err() {
            return;
        }
        let random: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        // "?a=b… HTTP/1.1\r\n" becomes " HTTP/1.1\r\nx-promkairos-query:5f…\r\n".
        let header = format!("{HEADER}:{random}{}\r\n", "0".repeat(zeros));
        let kept = Bytes::copy_from_slice(&lines[query.start + 1..query.end]);
        lines.copy_within(query.end..=end, query.start);
        lines[end + 1 - header.len()..=end].copy_from_slice(header.as_bytes());
        *self.0.lock() = Some(Kept { random, query: kept });
    }
}

/// The position of the query of a request line, with its question mark, if path and query are too long for the
/// library and contain only bytes that it accepts.
fn long_query(line: &[u8]) -> Option<Range<usize>> {
    let begin = method_of(line)?;
    let length = line[begin..].iter().position(|byte| *byte == b' ')?;
    let target = &line[begin..begin + length];
    let mark = target.iter().position(|byte| *byte == b'?')?;
    let is_taken = |byte: &u8| matches!(byte, 0x21 | 0x24..=0x3b | 0x3d | 0x3f..=0x7e);
    let is_long = target.len() > MAX_TARGET_BYTES && target.iter().all(is_taken);
    is_long.then_some(begin + mark..begin + length)
}

/// The length of a method and the blank after it, if these bytes begin a request for a path.
fn method_of(bytes: &[u8]) -> Option<usize> {
    const LONGEST: usize = "OPTIONS ".len();
    let blank = bytes.iter().take(LONGEST).position(|byte| !byte.is_ascii_uppercase())?;
    bytes[blank..].starts_with(b" /").then_some(blank + 1)
}

/// Reads the bytes of a connection.
pub(super) struct LongQueries {
    kept: KeptQuery,
    /// The received part of an incomplete request line.
    line: Vec<u8>,
    line_is: Line,
}

enum Line {
    Whole,
    /// The line is incomplete.
    Begun,
    /// This many of its bytes were passed on.
    Given(usize),
}

impl LongQueries {
    pub(super) fn new(kept: KeptQuery) -> Self {
        Self { kept, line: Vec::new(), line_is: Line::Whole }
    }

    /// Appends to an incomplete line. An empty `more` is the end of the stream.
    fn extend(&mut self, more: &[u8]) {
        self.line.extend_from_slice(more);
        if more.contains(&b'\n') {
            self.kept.keep(&mut self.line);
        } else if !more.is_empty() && self.line.len() <= MAX_HEAD_BYTES {
            return;
        }
        self.line_is = Line::Given(0);
    }

    /// Reads from the stream of the connection at this place.
    pub(super) fn poll_read<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        place: &Slot,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            match self.line_is {
                Line::Whole => {
                    let before = buffer.filled().len();
                    ready!(Pin::new(&mut *stream).poll_read(context, buffer))?;
                    let came = &mut buffer.filled_mut()[before..];
                    if place.has_requests() || method_of(came).is_none() {
                        return Poll::Ready(Ok(()));
                    }
                    if came.contains(&b'\n') {
                        self.kept.keep(came);
                        return Poll::Ready(Ok(()));
                    }
                    self.line = came.to_vec();
                    buffer.set_filled(before);
                    self.line_is = Line::Begun;
                }
                Line::Begun => {
                    let mut bytes = [0; READ];
                    let mut more = ReadBuf::new(&mut bytes);
                    ready!(Pin::new(&mut *stream).poll_read(context, &mut more))?;
                    self.extend(more.filled());
                }
                Line::Given(given) => {
                    let rest = &self.line[given..];
                    let next = rest.len().min(buffer.remaining());
                    buffer.put_slice(&rest[..next]);
                    if next < rest.len() {
                        self.line_is = Line::Given(given + next);
                    } else {
                        (self.line, self.line_is) = (Vec::new(), Line::Whole);
                    }
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(target: &str) -> Vec<u8> {
        format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes()
    }

    #[test]
    fn a_long_query_is_kept_and_all_lengths_stay() {
        for length in [MAX_TARGET_BYTES - 2, MAX_TARGET_BYTES - 1, 100_000] {
            let (kept, query) = (KeptQuery::default(), "a".repeat(length));
            let sent = request(&format!("/?{query}"));
            let mut came = sent.clone();
            kept.keep(&mut came);
            if length == MAX_TARGET_BYTES - 2 {
                assert!(came == sent && kept.0.lock().is_none(), "the library takes it");
                continue;
            }
            let text = String::from_utf8(came).expect("text");
            assert_eq!(text.len(), sent.len());
            let lines: Vec<&str> = text.split("\r\n").collect();
            let [line, header, "Host: a", "", ""] = lines[..] else { panic!("{lines:?}") };
            assert_eq!(line, "GET / HTTP/1.1");
            let value = header.strip_prefix("x-promkairos-query:").expect("the header");
            // A header without the random value gets nothing.
            let other =
                |value: &str| Request::get("/").header(HEADER, value).body(()).expect("one");
            assert_eq!(kept.take(&mut other(&"0".repeat(value.len()))), None);
            let mut request = other(value);
            assert_eq!(kept.take(&mut request), Some(Bytes::from(query)));
            assert!(request.headers().is_empty());
            assert_eq!(kept.take(&mut other(value)), None, "it belongs to one request");
        }
    }

    #[test]
    fn what_the_library_refuses_for_another_reason_stays() {
        let long = "a".repeat(MAX_TARGET_BYTES);
        for target in [
            format!("/{long}"),
            format!("/{long}?a"),
            format!("/?{long}\"b\""),
            format!("/?{long}#b"),
            format!("/?{long}\u{e9}"),
            format!("http://a/?{long}"),
            format!("*?{long}"),
        ] {
            let (kept, sent) = (KeptQuery::default(), request(&target));
            let mut came = sent.clone();
            kept.keep(&mut came);
            assert!(came == sent && kept.0.lock().is_none(), "{}", &target[target.len() - 9..]);
        }
    }
}
