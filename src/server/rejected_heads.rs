//! Request heads that hyper or h2 reject before this server sees a request: counts them and improves the bare answer.
//!
//! Wraps the bytes of a connection. Over HTTP/1 the library answers 400, 414 or 431 without a body and closes. This
//! module sends that status with a text, then reads and discards what the client still sends, within bounds, so that
//! the client can read the answer. Over HTTP/2 the library resets the stream of a path that is too long. This module
//! sends a 414 before the reset, without a body, because only the library tracks flow-control windows.
//!
//! Invariant: all other bytes pass unchanged. Not here: refusals of whole requests (`api`).

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use axum::body::Bytes;
use bytes::Buf;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::connection_pool::Slot;
use super::frames::{self, Frames, LargeHeads, Sent};
use super::long_queries::LongQueries;
use crate::api;
use crate::limits::{DRAINED_BODY_BYTES, DRAINED_BODY_TIME};
use crate::telemetry::{HEAD_SIZE, HttpMetrics};

/// The first bytes of an HTTP/2 connection.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Most bytes of the library's own answer over HTTP/1.
const OWN_ANSWER: usize = 256;
/// The headers of that answer.
const OWN_HEADERS: [&str; 3] = ["connection: close", NO_BODY, "date: "];
const NO_BODY: &str = "content-length: 0";

const MALFORMED: &str = "400 Bad Request: the head of the request is malformed; in a URL, blanks and the characters \
                         \" < > have to be percent-encoded\n";

/// Bytes that are discarded at a time.
const DROPPED: usize = 8 << 10;

/// Set if the rest of a client's data is read before the connection ends.
pub(super) type Lingers = Arc<AtomicBool>;

/// The byte stream of a connection.
pub(super) struct Heads<S> {
    stream: S,
    place: Arc<Slot>,
    metrics: Arc<HttpMetrics>,
    protocol: Protocol,
    /// Bytes that replace an answer of the library and are still to be written.
    instead: Bytes,
    lingers: Lingers,
    queries: LongQueries,
    end: End,
}

/// The protocol of the connection.
enum Protocol {
    /// This many bytes of the HTTP/2 preface have matched.
    Unknown(usize),
    Http1,
    Http2(Http2),
}

#[derive(Default)]
struct Http2 {
    came: Frames,
    written: Frames,
    large: LargeHeads,
}

/// The shutdown of a connection.
enum End {
    Open,
    /// Received data is discarded: at most this many bytes, until this time.
    Drains {
        left: usize,
        until: Pin<Box<Sleep>>,
    },
    Over,
}

/// What to write of bytes that the library writes.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    All,
    /// Only the first bytes.
    Only(usize),
    /// Other bytes instead of the first ones.
    Instead {
        of: usize,
        bytes: Vec<u8>,
    },
}

impl<S> Heads<S> {
    pub(super) fn new(
        stream: S,
        place: Arc<Slot>,
        metrics: Arc<HttpMetrics>,
        lingers: Lingers,
        queries: LongQueries,
    ) -> Self {
        let (protocol, instead, end) = (Protocol::Unknown(0), Bytes::new(), End::Open);
        Self { stream, place, metrics, protocol, instead, lingers, queries, end }
    }

    fn came(&mut self, mut bytes: &[u8]) {
        if let Protocol::Unknown(before) = self.protocol {
            let more = bytes.len().min(PREFACE.len() - before);
            let is_preface = bytes[..more] == PREFACE[before..][..more];
            bytes = &bytes[more..];
            self.protocol = match before + more {
                _ if !is_preface => Protocol::Http1,
                all if all == PREFACE.len() => Protocol::Http2(Http2::default()),
                some => Protocol::Unknown(some),
            };
        }
        if let Protocol::Http2(Http2 { came, large, .. }) = &mut self.protocol {
            while let Some(frame) = came.next(&mut bytes) {
                large.came(frame, bytes);
            }
        }
    }

    fn wrote(&mut self, bytes: &[u8]) {
        if let Protocol::Http2(Http2 { written, .. }) = &mut self.protocol {
            written.pass(bytes);
        }
    }

    /// Whether the next bytes that the library writes may refuse a head.
    fn may_refuse(&self) -> bool {
        match &self.protocol {
            Protocol::Unknown(_) => false,
            // While a request is running, the library writes an answer of this server.
            Protocol::Http1 => !self.place.has_requests(),
            Protocol::Http2(Http2 { large, .. }) => !large.is_empty(),
        }
    }

    fn next_of(&mut self, bytes: &[u8]) -> Next {
        if !self.may_refuse() {
            return Next::All;
        }
        let (next, refused) = match &mut self.protocol {
            Protocol::Unknown(_) => (Next::All, 0),
            Protocol::Http1 => {
                let (next, refused) = next_of_http1(bytes);
                if matches!(next, Next::Instead { .. }) {
                    self.lingers.store(true, Ordering::Relaxed);
                }
                (next, refused)
            }
            Protocol::Http2(http2) => http2.next_of(bytes),
        };
        self.metrics.limits.add(HEAD_SIZE, refused);
        next
    }
}

/// What to write over HTTP/1. The library's own answer is the last that it writes.
fn next_of_http1(bytes: &[u8]) -> (Next, u64) {
    match own_answer(bytes) {
        None => (Next::All, 0),
        Some(own) if own.at > 0 => (Next::Only(own.at), 0),
        Some(own) => {
            let refused = u64::from(own.is_too_large);
            (Next::Instead { of: bytes.len(), bytes: own.with_text.into() }, refused)
        }
    }
}

/// The library's own answer.
struct OwnAnswer {
    /// Its position.
    at: usize,
    is_too_large: bool,
    with_text: String,
}

fn own_answer(bytes: &[u8]) -> Option<OwnAnswer> {
    let tail = &bytes[bytes.len().saturating_sub(OWN_ANSWER)..];
    let tail = tail.strip_suffix(b"\r\n\r\n")?;
    let begins = tail.windows(7).rposition(|bytes| bytes == b"HTTP/1.")?;
    let head = std::str::from_utf8(&tail[begins..]).ok()?;
    let mut lines = head.split("\r\n");
    let (text, is_too_large) = match lines.next()?.get(9..12)? {
        "400" => (MALFORMED.to_owned(), false),
        "414" => (api::target_too_long(), true),
        "431" => (api::head_too_large(), true),
        _ => return None,
    };
    let is_own = lines.all(|line| OWN_HEADERS.iter().any(|own| line.starts_with(own)));
    if !is_own || !head.contains(NO_BODY) {
        return None;
    }
    let of_text = format!(
        "content-type: text/plain; charset=utf-8\r\nx-content-type-options: nosniff\r\n\
         content-length: {}",
        text.len()
    );
    let with_text = format!("{}\r\n\r\n{text}", head.replace(NO_BODY, &of_text));
    Some(OwnAnswer { at: bytes.len() - head.len() - 4, is_too_large, with_text })
}

impl Http2 {
    /// What to write, and how many refused heads it contains.
    fn next_of(&mut self, bytes: &[u8]) -> (Next, u64) {
        let (mut ahead, mut rest, mut refused) = (self.written, bytes, 0);
        while let Some(frame) = ahead.next(&mut rest) {
            let sent = self.large.sent(frame, rest);
            if sent == Some(Sent::Refusal) {
                refused += 1;
            }
            // A frame that began in earlier bytes is passed unchanged.
            let end = bytes.len() - rest.len() + 4;
            let begins = end.checked_sub(frames::RESET).filter(|_| end <= bytes.len());
            let Some(begins) = begins.filter(|_| sent == Some(Sent::Reset)) else { continue };
            if begins > 0 {
                return (Next::Only(begins), refused);
            }
            self.large.done(frame.stream);
            let answer = frames::too_long(frame.stream);
            return (Next::Instead { of: frames::RESET, bytes: answer }, refused + 1);
        }
        (Next::All, refused)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Heads<S> {
    fn poll_instead(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.instead.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &self.instead))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.instead.advance(written);
        }
        Poll::Ready(Ok(()))
    }

    /// Discards received data.
    fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Self { stream, end, .. } = self;
        if let End::Drains { left, until } = end {
            let mut bytes = [0; DROPPED];
            loop {
                let mut buffer = ReadBuf::new(&mut bytes);
                match Pin::new(&mut *stream).poll_read(context, &mut buffer) {
                    Poll::Ready(Ok(())) if (1..=*left).contains(&buffer.filled().len()) => {
                        *left -= buffer.filled().len();
                    }
                    Poll::Ready(_) => break,
                    Poll::Pending => {
                        ready!(until.as_mut().poll(context));
                        break;
                    }
                }
            }
        }
        *end = End::Over;
        Poll::Ready(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Heads<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let Self { stream, place, queries, .. } = &mut *self;
        ready!(queries.poll_read(stream, place, context, buffer))?;
        self.came(&buffer.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Heads<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_instead(context))?;
        let bytes = match self.next_of(bytes) {
            Next::All => bytes,
            Next::Only(length) => &bytes[..length],
            Next::Instead { of, bytes } => {
                self.instead = bytes.into();
                return Poll::Ready(Ok(of));
            }
        };
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.wrote(&bytes[..written]);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.may_refuse() {
            let first = pieces.iter().find(|piece| !piece.is_empty());
            return self.poll_write(context, first.map_or(&[], |piece| piece));
        }
        ready!(self.poll_instead(context))?;
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, pieces))?;
        let mut left = written;
        for piece in pieces {
            let taken = left.min(piece.len());
            self.wrote(&piece[..taken]);
            left -= taken;
        }
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_instead(context))?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_instead(context))?;
        if matches!(self.end, End::Open) {
            ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
            self.end = match self.lingers.load(Ordering::Relaxed) {
                true => {
                    let until = Box::pin(sleep(DRAINED_BODY_TIME));
                    End::Drains { left: DRAINED_BODY_BYTES, until }
                }
                false => End::Over,
            };
        }
        self.poll_drain(context).map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\
        content-length: 0\r\ndate: Sat, 28 Nov 2026 10:00:00 GMT\r\n\r\n";

    #[test]
    fn an_answer_of_the_library_gets_a_text_and_others_stay() {
        let before = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nhere";
        let behind = format!("{before}{OWN}");
        assert_eq!(next_of_http1(behind.as_bytes()), (Next::Only(before.len()), 0));
        let (next, refused) = next_of_http1(OWN.as_bytes());
        let Next::Instead { of, bytes } = next else { panic!("{next:?}") };
        assert_eq!(refused, 1);
        let (answer, text) = (String::from_utf8(bytes).expect("text"), api::head_too_large());
        assert_eq!(of, OWN.len());
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        assert_eq!(body, text);
        assert!(head.contains(&format!("\r\ncontent-length: {}\r\n", text.len())), "{head}");
        assert!(head.contains("\r\nconnection: close\r\n"), "{head}");
        for other in [
            before.to_owned(),
            OWN.replace("431", "204"),
            OWN.replace("date: ", "x-content-type-options: "),
            OWN.replace("content-length: 0\r\n", ""),
            OWN.trim_end().to_owned(),
            format!("{OWN}more"),
        ] {
            assert_eq!(next_of_http1(other.as_bytes()), (Next::All, 0), "{other}");
        }
        let malformed = OWN.replace("431 Request Header Fields Too Large", "400 Bad Request");
        assert_eq!(next_of_http1(malformed.as_bytes()).1, 0, "it is no limit");
    }
}
