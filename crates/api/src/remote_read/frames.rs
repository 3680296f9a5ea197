//! Frames of STREAMED_XOR_CHUNKS: one `ChunkedReadResponse` with one series in each.
//!
//! ```text
//! ┌───────────────┬───────────────────────┬─────────────────────┐
//! │ uvarint len   │ CRC-32C, 4 B big end. │ ChunkedReadResponse │  checksum and length
//! └───────────────┴───────────────────────┴─────────────────────┘  of the message alone
//! ```
//!
//! Chunks have kinds that the protocol knows and are copied unchanged. A client takes every frame for a separate
//! series, so a series is split into frames only if one frame would exceed [`MAX_FRAME_BYTES`].

use prost::encoding::encode_varint;

use promkairos_chunk::Chunk;
use promkairos_model::LabelsRef;
use promkairos_model::limits::MAX_FRAME_BYTES;

use super::protobuf::{bytes_len, int_len, put_bytes, put_int, put_length, put_uint};

/// Appends a series in one frame, or in several if it is too large for one. A series without chunks has no frame.
pub(super) fn push_series(
    out: &mut Vec<u8>,
    labels: LabelsRef<'_>,
    chunks: &[Chunk],
    query: usize,
) {
    let mut rest = chunks;
    while !rest.is_empty() {
        let (frame, tail) = rest.split_at(frame_end(rest, MAX_FRAME_BYTES));
        push_frame(out, labels, frame, query);
        rest = tail;
    }
}

/// The number of chunks that go into the next frame; at least one.
fn frame_end(chunks: &[Chunk], limit: usize) -> usize {
    let mut size = 0_usize;
    let fits = chunks.iter().take_while(|chunk| {
        size += bytes_len(chunk_len(chunk));
        size <= limit
    });
    fits.count().max(1)
}

fn push_frame(out: &mut Vec<u8>, labels: LabelsRef<'_>, chunks: &[Chunk], query: usize) {
    let query = query as i64;
    let chunk_bytes: usize = chunks.iter().map(|chunk| bytes_len(chunk_len(chunk))).sum();
    let series_len = labels.as_bytes().len() + chunk_bytes;
    let payload_len = bytes_len(series_len) + int_len(query);

    encode_varint(payload_len as u64, out);
    let checksum_at = out.len();
    out.extend_from_slice(&[0; 4]);
    let payload_at = out.len();
    put_length(out, 1, series_len);
    // The canonical encoding of labels is exactly `repeated Label labels = 1`.
    out.extend_from_slice(labels.as_bytes());
    for chunk in chunks {
        put_length(out, 2, chunk_len(chunk));
        put_int(out, 1, chunk.min_time);
        put_int(out, 2, chunk.max_time);
        put_uint(out, 3, chunk.kind as u64);
        put_bytes(out, 4, &chunk.data);
    }
    put_int(out, 2, query);
    debug_assert_eq!(out.len() - payload_at, payload_len);
    let checksum = crc32c::crc32c(&out[payload_at..]).to_be_bytes();
    out[checksum_at..payload_at].copy_from_slice(&checksum);
}

/// Length of the message `Chunk` in bytes.
fn chunk_len(chunk: &Chunk) -> usize {
    let kind = 2;
    int_len(chunk.min_time) + int_len(chunk.max_time) + kind + bytes_len(chunk.data.len())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use prost::Message;

    use super::*;
    use crate::proto::v1;
    use promkairos_chunk::{ChunkKind, ColumnBytes, SideKind};
    use promkairos_model::Labels;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u32> = text.chars().map(|c| c.to_digit(16).expect("hex")).collect();
        digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
    }

    fn chunk(min_time: i64, max_time: i64, data: Vec<u8>) -> Chunk {
        let (side, stamps) = (ColumnBytes::default(), ColumnBytes::default());
        let data = Bytes::from(data);
        Chunk {
            kind: ChunkKind::Xor,
            count: 1,
            min_time,
            max_time,
            data,
            side,
            side_kind: SideKind::Starts,
            stamps,
        }
    }

    fn up() -> Labels {
        Labels::from_pairs([("__name__", "up")]).expect("valid")
    }

    /// Decodes frames with code that the encoder does not share.
    fn read(mut bytes: &[u8]) -> Vec<v1::ChunkedReadResponse> {
        let mut frames = Vec::new();
        while !bytes.is_empty() {
            let length = prost::encoding::decode_varint(&mut bytes).expect("a length") as usize;
            let (checksum, rest) = bytes.split_at(4);
            let (payload, rest) = rest.split_at(length);
            assert_eq!(checksum, crc32c::crc32c(payload).to_be_bytes());
            frames.push(v1::ChunkedReadResponse::decode(payload).expect("a message"));
            bytes = rest;
        }
        frames
    }

    #[test]
    fn the_frame_of_the_reference() {
        assert_eq!(crc32c::crc32c(b"123456789").to_be_bytes(), [0xe3, 0x06, 0x92, 0x83]);
        let data = "000480a0abfef9623ff00000000000009875309bffd8001c074006";
        let want = "419fb0ade50a3f0a0e0a085f5f6e616d655f5f12027570122d0880d095ffbc3110c9af98ff\
                    bc311801221b";
        let mut out = Vec::new();
        let one = chunk(1_700_000_000_000, 1_700_000_045_001, hex(data));
        push_series(&mut out, up().as_ref(), &[one], 0);
        assert_eq!(out, hex(&format!("{want}{data}")));
    }

    #[test]
    fn the_query_index_and_odd_times_survive() {
        let mut out = Vec::new();
        push_series(
            &mut out,
            up().as_ref(),
            &[chunk(-5, 0, vec![1]), chunk(1, i64::MAX, vec![])],
            3,
        );
        let frames = read(&out);
        assert_eq!(frames.len(), 1);
        assert_eq!(frames[0].query_index, 3);
        let series = &frames[0].chunked_series;
        assert_eq!(series.len(), 1);
        let times: Vec<_> =
            series[0].chunks.iter().map(|c| (c.min_time_ms, c.max_time_ms, c.r#type)).collect();
        assert_eq!(times, [(-5, 0, 1), (1, i64::MAX, 1)]);
    }

    #[test]
    fn a_series_has_one_frame_until_it_is_huge() {
        let mut out = Vec::new();
        push_series(&mut out, up().as_ref(), &[], 0);
        assert!(out.is_empty());
        let half = MAX_FRAME_BYTES / 2 - 100;
        let chunks: Vec<Chunk> =
            (0..5).map(|i| chunk(i * 10, i * 10 + 5, vec![i as u8; half])).collect();
        push_series(&mut out, up().as_ref(), &chunks, 0);
        let counts: Vec<usize> =
            read(&out).iter().map(|frame| frame.chunked_series[0].chunks.len()).collect();
        assert_eq!(counts, [2, 2, 1]);
        // A chunk larger than a frame gets a frame of its own.
        assert_eq!(frame_end(&chunks, 10), 1);
    }
}
