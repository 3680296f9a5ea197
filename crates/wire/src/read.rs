//! Remote read for clients: a request for streamed chunks, and the frames of the answer.
//!
//! Labels and chunks of a frame are not decoded here.
//!
//! ```text
//! ┌────────────────┬───────────────────┬─────────────────────┐  for each frame
//! │ varint: length │ u32 BE: crc32c of │ ChunkedReadResponse │
//! │                │ the message       │                     │
//! └────────────────┴───────────────────┴─────────────────────┘
//! ```

use promkairos_model::{MatchOp, Matcher, TimeRange};

use super::WireError;
use super::encode::{field, put_bytes, put_text, put_varint_field};
use super::proto::{BYTES, Reader, VARINT, key};

/// Most bytes of a message in a frame; the reference server stays below.
pub const MAX_FRAME_MESSAGE: usize = 50_000_000;

/// `prometheus.ReadRequest` that asks for the chunks of one selection.
pub fn encode_read_request(matchers: &[Matcher], range: TimeRange) -> Vec<u8> {
    const STREAMED_XOR_CHUNKS: u8 = 1;
    let mut out = Vec::new();
    field(&mut out, 1, |out| {
        put_varint_field(out, 1, range.start as u64);
        put_varint_field(out, 2, range.end as u64);
        for matcher in matchers {
            let op = match matcher.op() {
                MatchOp::Equal => 0,
                MatchOp::NotEqual => 1,
                MatchOp::Regex => 2,
                MatchOp::NotRegex => 3,
            };
            field(out, 3, |out| {
                put_varint_field(out, 1, op);
                put_text(out, 2, matcher.name());
                put_text(out, 3, matcher.value());
            });
        }
    });
    put_bytes(&mut out, 2, &[STREAMED_XOR_CHUNKS]);
    out
}

/// A series of a frame.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FrameSeries<'a> {
    /// The concatenated `labels` fields.
    pub labels: Vec<u8>,
    /// Its chunks.
    pub chunks: Vec<FrameChunk<'a>>,
}

/// A chunk of a series.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FrameChunk<'a> {
    /// Timestamp of the first point, in milliseconds.
    pub min_time: i64,
    /// Timestamp of the last point, in milliseconds.
    pub max_time: i64,
    /// The number of its encoding.
    pub kind: u64,
    /// Its bytes.
    pub data: &'a [u8],
}

/// The series of a message `prometheus.ChunkedReadResponse`.
pub fn decode_frame(message: &[u8]) -> Result<Vec<FrameSeries<'_>>, WireError> {
    const SERIES: u32 = key(1, BYTES);
    let mut reader = Reader::new(message);
    let mut all = Vec::new();
    while let Some(key) = reader.key()? {
        match key {
            SERIES => all.push(decode_series(reader.bytes()?)?),
            key => reader.skip(key, &[1])?,
        }
    }
    Ok(all)
}

fn decode_series(message: &[u8]) -> Result<FrameSeries<'_>, WireError> {
    const LABEL: u32 = key(1, BYTES);
    const CHUNK: u32 = key(2, BYTES);
    let mut reader = Reader::new(message);
    let mut series = FrameSeries::default();
    while let Some(key) = reader.key()? {
        match key {
            LABEL => put_bytes(&mut series.labels, 1, reader.bytes()?),
            CHUNK => series.chunks.push(decode_chunk(reader.bytes()?)?),
            key => reader.skip(key, &[1, 2])?,
        }
    }
    Ok(series)
}

fn decode_chunk(message: &[u8]) -> Result<FrameChunk<'_>, WireError> {
    const MIN: u32 = key(1, VARINT);
    const MAX: u32 = key(2, VARINT);
    const KIND: u32 = key(3, VARINT);
    const DATA: u32 = key(4, BYTES);
    let mut reader = Reader::new(message);
    let mut chunk = FrameChunk::default();
    while let Some(key) = reader.key()? {
        match key {
            MIN => chunk.min_time = reader.int64()?,
            MAX => chunk.max_time = reader.int64()?,
            KIND => chunk.kind = reader.varint()?,
            DATA => chunk.data = reader.bytes()?,
            key => reader.skip(key, &[1, 2, 3, 4])?,
        }
    }
    Ok(chunk)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_what_the_protocol_says() {
        let job = Matcher::new(MatchOp::NotRegex, "job", "a").expect("valid");
        let matchers = [Matcher::equal("__name__", "up"), job];
        let times = b"\x08\x0a\x10\x14";
        let name = b"\x1a\x0e\x12\x08__name__\x1a\x02up";
        let job = b"\x1a\x0a\x08\x03\x12\x03job\x1a\x01a";
        let query = [&times[..], name, job].concat();
        let want = [b"\x0a", &[query.len() as u8][..], &query, b"\x12\x01\x01"].concat();
        assert_eq!(encode_read_request(&matchers, TimeRange::new(10, 20)), want);
    }

    #[test]
    fn series_and_chunks_of_a_frame() {
        let message = b"\x0a\x18\x0a\x0e\x0a\x08__name__\x12\x02up\x12\x06\x08\x0a\x10\x14\x18\x01";
        let all = decode_frame(message).expect("a message");
        let chunk = FrameChunk { min_time: 10, max_time: 20, kind: 1, data: b"" };
        let labels = b"\x0a\x0e\x0a\x08__name__\x12\x02up".to_vec();
        assert_eq!(all, [FrameSeries { labels, chunks: vec![chunk] }]);
    }

    #[test]
    fn what_is_cut_off_is_refused() {
        let message = b"\x0a\x18\x0a\x0e\x0a\x08__name__\x12\x02up\x12\x06\x08\x0a\x10\x14\x18\x01";
        for end in 1..message.len() {
            assert!(decode_frame(&message[..end]).is_err(), "{end}");
        }
        assert_eq!(decode_frame(b""), Ok(vec![]));
    }
}
