//! Queries of URLs that are longer than the HTTP library takes, over HTTP/1.
//!
//! Wraps the bytes of a connection. The crate `http` holds [`MAX_TARGET_BYTES`] of path and query. Where a request line
//! has more, its query is kept here, and a header of the same length stands in its place; who serves the request takes
//! the query back by the value of that header, which is random.
//!
//! Invariant: no byte is added or removed. So even where bytes look like the beginning of a request and are not, what
//! the library takes for a request, and where that ends, stays the same; and a query belongs to one request alone.
//! Not here: the limit of a head (`api`), HTTP/2, requests that come before the answer to another.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Bytes;
use axum::http::{HeaderName, Request};
use parking_lot::Mutex;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::places::Place;
use crate::limits::{MAX_HEAD_BYTES, MAX_TARGET_BYTES};

/// The header that stands in the place of a query.
const HEADER: &str = "x-promkairos-query";
/// Hexadecimal digits of its value that are random; zeros follow.
const RANDOM_DIGITS: usize = 32;
/// Bytes that are read at a time of a line that is not whole.
const READ: usize = 16 << 10;

/// The query of the request that comes next on a connection, if it is kept.
#[derive(Clone, Default)]
pub(super) struct KeptQuery(Arc<Mutex<Option<Kept>>>);

struct Kept {
    /// How the value of the header begins.
    random: String,
    query: Bytes,
}

impl KeptQuery {
    /// The query that a header of this request stands for; the header goes.
    pub(super) fn take<B>(&self, request: &mut Request<B>) -> Option<Bytes> {
        let value = request.headers().get(HEADER)?.as_bytes();
        let is_of = |kept: &mut Kept| value.starts_with(kept.random.as_bytes());
        let kept = self.0.lock().take_if(is_of)?;
        request.headers_mut().remove(HeaderName::from_static(HEADER));
        Some(kept.query)
    }

    /// Keeps the query of a request line, which ends with `lines`' first line feed, if it is too long for the library.
    fn keep(&self, lines: &mut [u8]) {
        let Some(end) = lines.iter().position(|byte| *byte == b'\n') else { return };
        let Some(target) = long_target(&lines[..end]) else { return };
        let Some(mark) = target.query else { return };
        // "?a=b HTTP/1.1\r\n" becomes " HTTP/1.1\r\nx-promkairos-query:0…\r\n", less the bytes of the query.
        let filler = (target.end - mark).checked_sub(HEADER.len() + ":\r\n".len());
        let mut random = [0; RANDOM_DIGITS / 2];
        let Some(filler) = filler.filter(|filler| *filler >= RANDOM_DIGITS) else { return };
        if SystemRandom::new().fill(&mut random).is_err() {
            return;
        }
        let random: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let query = Bytes::copy_from_slice(&lines[mark + 1..target.end]);
        lines.copy_within(target.end..=end, mark);
        let header = &mut lines[mark + (end + 1 - target.end)..=end];
        let value = format!("{HEADER}:{random}");
        header[..value.len()].copy_from_slice(value.as_bytes());
        header[value.len()..value.len() + filler - RANDOM_DIGITS].fill(b'0');
        let rest = header.len() - 2;
        header[rest..].copy_from_slice(b"\r\n");
        *self.0.lock() = Some(Kept { random, query });
    }
}

/// Where things are in a request line.
struct Target {
    /// The question mark.
    query: Option<usize>,
    /// Behind path and query.
    end: usize,
}

/// The target of a request line, where it is longer than the library takes and else as it takes one.
fn long_target(line: &[u8]) -> Option<Target> {
    let begin = method_of(line)?;
    let length = line[begin..].iter().position(|byte| *byte == b' ')?;
    let target = &line[begin..begin + length];
    let query = target.iter().position(|byte| *byte == b'?').map(|at| begin + at);
    let is_taken = |byte: &u8| matches!(byte, 0x21 | 0x24..=0x3b | 0x3d | 0x3f..=0x7e);
    let is_long = target.len() > MAX_TARGET_BYTES && target.iter().all(is_taken);
    is_long.then_some(Target { query, end: begin + length })
}

/// The bytes of a method and the blank behind it, where these bytes begin a request for a path.
fn method_of(bytes: &[u8]) -> Option<usize> {
    const LONGEST: usize = "OPTIONS ".len();
    let blank = bytes.iter().take(LONGEST).position(|byte| !byte.is_ascii_uppercase())?;
    bytes[blank..].starts_with(b" /").then_some(blank + 1)
}

/// The bytes of a connection.
pub(super) struct LongQueries<S> {
    stream: S,
    place: Arc<Place>,
    kept: KeptQuery,
    /// A request line that came in pieces, as far as it is there.
    line: Vec<u8>,
    line_is: Line,
}

enum Line {
    Whole,
    /// More of it comes.
    Begun,
    /// As many of its bytes were handed on.
    Given(usize),
}

impl<S> LongQueries<S> {
    pub(super) fn new(stream: S, place: Arc<Place>, kept: KeptQuery) -> Self {
        Self { stream, place, kept, line: Vec::new(), line_is: Line::Whole }
    }

    /// Takes more of a line that was begun. Without any, no more comes.
    fn extend(&mut self, more: &[u8]) {
        self.line.extend_from_slice(more);
        if more.contains(&b'\n') {
            self.kept.keep(&mut self.line);
        } else if !more.is_empty() && self.line.len() <= MAX_HEAD_BYTES {
            return;
        }
        self.line_is = Line::Given(0);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LongQueries<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            match this.line_is {
                Line::Whole => {
                    let before = buffer.filled().len();
                    ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
                    let came = &mut buffer.filled_mut()[before..];
                    if this.place.has_requests() || method_of(came).is_none() {
                        return Poll::Ready(Ok(()));
                    }
                    if came.contains(&b'\n') {
                        this.kept.keep(came);
                        return Poll::Ready(Ok(()));
                    }
                    this.line = came.to_vec();
                    buffer.set_filled(before);
                    this.line_is = Line::Begun;
                }
                Line::Begun => {
                    let mut bytes = [0; READ];
                    let mut more = ReadBuf::new(&mut bytes);
                    ready!(Pin::new(&mut this.stream).poll_read(context, &mut more))?;
                    this.extend(more.filled());
                }
                Line::Given(given) => {
                    let rest = &this.line[given..];
                    let next = rest.len().min(buffer.remaining());
                    buffer.put_slice(&rest[..next]);
                    if next < rest.len() {
                        this.line_is = Line::Given(given + next);
                    } else {
                        (this.line, this.line_is) = (Vec::new(), Line::Whole);
                    }
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for LongQueries<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
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
            // Whoever sends the header without the random value gets nothing.
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
