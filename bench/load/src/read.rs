//! One remote read, streamed, whose series and samples are counted without decoding them.
//!
//! A chunk says in its first two bytes how many samples it holds.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;

use crate::bodies::push_varint;
use crate::http::Connection;

const HEADERS: &str = "Content-Type: application/x-protobuf\r\nContent-Encoding: snappy\r\n\
                       X-Prometheus-Remote-Read-Version: 0.1.0\r\n";

/// What came back.
#[derive(Default)]
pub struct Read {
    pub series: BTreeSet<Vec<u8>>,
    pub samples: u64,
    pub chunk_bytes: u64,
}

/// A matcher: its type in the protocol (0 `=`, 1 `!=`, 2 `=~`, 3 `!~`), name, value.
pub type Matcher = (u8, String, String);

/// `name=value` or `name=~pattern`.
pub fn parse_matcher(text: &str) -> Result<Matcher, String> {
    let (name, value) = text.split_once('=').ok_or("not NAME=VALUE or NAME=~PATTERN")?;
    Ok(match value.strip_prefix('~') {
        Some(pattern) => (2, name.to_owned(), pattern.to_owned()),
        None => (0, name.to_owned(), value.to_owned()),
    })
}

/// A connection for remote reads.
pub fn connect(address: SocketAddr) -> io::Result<Connection> {
    Connection::open(address, "/api/v1/read", HEADERS)
}

/// Reads everything that matches in the closed range of milliseconds.
pub fn read(
    connection: &mut Connection,
    matchers: &[Matcher],
    range: (i64, i64),
) -> io::Result<Read> {
    let body = snap::raw::Encoder::new().compress_vec(&request(matchers, range));
    let (status, length) = connection.begin(&body.map_err(io::Error::other)?)?;
    if status == 200 && length == Some(0) {
        // Nothing matches, or nothing lies in the range.
        return Ok(Read::default());
    }
    if status != 200 || length.is_some() {
        return Err(io::Error::other(format!("status {status}, not a stream")));
    }
    let (mut buffer, mut result) = (Vec::new(), Read::default());
    while let Some(chunk) = connection.next_chunk()? {
        buffer.extend_from_slice(&chunk);
        let mut rest = &buffer[..];
        while let Some((frame, after)) = split_frame(rest) {
            count_frame(frame, &mut result);
            rest = after;
        }
        let keep = rest.len();
        buffer.drain(..buffer.len() - keep);
    }
    Ok(result)
}

fn request(matchers: &[Matcher], (start, end): (i64, i64)) -> Vec<u8> {
    let mut query = vec![0x08];
    push_varint(&mut query, start as u64);
    query.push(0x10);
    push_varint(&mut query, end as u64);
    for (kind, name, value) in matchers {
        let mut matcher = vec![0x08, *kind];
        for (tag, text) in [(0x12, name), (0x1A, value)] {
            matcher.push(tag);
            push_varint(&mut matcher, text.len() as u64);
            matcher.extend_from_slice(text.as_bytes());
        }
        query.push(0x1A);
        push_varint(&mut query, matcher.len() as u64);
        query.extend_from_slice(&matcher);
    }
    let mut request = vec![0x0A];
    push_varint(&mut request, query.len() as u64);
    request.extend_from_slice(&query);
    request.extend_from_slice(&[0x12, 0x01, 0x01]);
    request
}

/// The payload of the first frame and what follows; `None` when it is not all there yet.
fn split_frame(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = varint(bytes)?;
    let rest = rest.get(4..)?;
    rest.split_at_checked(usize::try_from(length).ok()?)
}

fn count_frame(frame: &[u8], result: &mut Read) {
    for (tag, chunked_series) in fields(frame) {
        if tag != 0x0A {
            continue;
        }
        let mut labels = Vec::new();
        for (tag, field) in fields(chunked_series) {
            match tag {
                0x0A => labels.extend_from_slice(field),
                0x12 => {
                    for (tag, data) in fields(field) {
                        if tag == 0x22 {
                            result.samples += u64::from(data[0]) << 8 | u64::from(data[1]);
                            result.chunk_bytes += data.len() as u64;
                        }
                    }
                }
                _ => {}
            }
        }
        result.series.insert(labels);
    }
}

/// The length-delimited fields of a message; varints are passed over.
fn fields(mut bytes: &[u8]) -> Vec<(u64, &[u8])> {
    let mut result = Vec::new();
    while let Some((tag, rest)) = varint(bytes) {
        let Some((value, rest)) = varint(rest) else { break };
        bytes = rest;
        if tag & 7 == 2 {
            let Some((field, rest)) = rest.split_at_checked(value as usize) else { break };
            result.push((tag, field));
            bytes = rest;
        }
    }
    result
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (i, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7F) << (7 * i);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[i + 1..]));
        }
    }
    None
}
