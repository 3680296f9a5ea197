//! One streamed remote read, whose samples are counted without decoding them: the first two bytes
//! of a chunk hold its number of samples.

use std::io;
use std::net::SocketAddr;

use promkairos::model::varint::push as push_varint;

use crate::http::Connection;

const HEADERS: &str = "Content-Type: application/x-protobuf\r\nContent-Encoding: snappy\r\n\
                       X-Prometheus-Remote-Read-Version: 0.1.0\r\n";

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

/// Reads everything that matches in the closed range of milliseconds; returns the number of samples.
pub fn read(
    connection: &mut Connection,
    matchers: &[Matcher],
    range: (i64, i64),
) -> io::Result<u64> {
    let body = snap::raw::Encoder::new().compress_vec(&request(matchers, range));
    let (status, length) = connection.begin(&body.map_err(io::Error::other)?)?;
    if status == 200 && length == Some(0) {
        // Nothing matches, or nothing lies in the range.
        return Ok(0);
    }
    if status != 200 || length.is_some() {
        return Err(io::Error::other(format!("status {status}, not a stream")));
    }
    let (mut buffer, mut samples) = (Vec::new(), 0);
    while let Some(chunk) = connection.next_chunk()? {
        buffer.extend_from_slice(&chunk);
        let mut rest = &buffer[..];
        while let Some((frame, after)) = split_frame(rest) {
            samples += count_frame(frame);
            rest = after;
        }
        let keep = rest.len();
        buffer.drain(..buffer.len() - keep);
    }
    Ok(samples)
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

/// The payload of the first frame and the rest; `None` if the frame is incomplete.
fn split_frame(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = varint(bytes)?;
    let rest = rest.get(4..)?;
    rest.split_at_checked(usize::try_from(length).ok()?)
}

/// The samples in the chunks of all series of a frame.
fn count_frame(frame: &[u8]) -> u64 {
    let series = fields(frame, 0x0A);
    let chunks = series.flat_map(|series| fields(series, 0x12));
    let data = chunks.flat_map(|chunk| fields(chunk, 0x22));
    data.map(|data| u64::from(data[0]) << 8 | u64::from(data[1])).sum()
}

/// The length-delimited fields of a message with the tag `wanted`; varints are skipped.
fn fields(mut bytes: &[u8], wanted: u64) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        loop {
            let (tag, rest) = varint(bytes)?;
            let (value, rest) = varint(rest)?;
            bytes = rest;
            if tag & 7 == 2 {
                let (field, rest) = rest.split_at_checked(value as usize)?;
                bytes = rest;
                if tag == wanted {
                    return Some(field);
                }
            }
        }
    })
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
