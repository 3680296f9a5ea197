//! A frame: the chunks of one series in a file, in order of precedence.
//!
//! Pure bytes. The data of a chunk is returned as a slice of the bytes read, without a copy.
//! Acceptance times are not kept: where chunks overlap, the later chunk wins.
//!
//! ```text
//! ┌──────────┬──────────────┬─────────────┬────────────────────────────┐
//! │ varint n │ n chunk heads │ n chunk data │ u32 crc32c of all before it │
//! └──────────┴──────────────┴─────────────┴────────────────────────────┘
//! chunk head: u8 kind, plus 0x80 if the side column has integers · varint points · zigzag first time, from the
//!             last time of the chunk before (the first chunk: from a time that the reader knows) · varint last
//!             time, from the first · varint bytes of samples · varint bytes of the side column
//! chunk data: the samples, then the side column
//! ```

use bytes::Bytes;

use promkairos_chunk::{Chunk, ChunkKind, ColumnBytes, SideKind};

use super::codec::{Cursor, Damage, put_varint, put_zigzag, seal, unseal};

/// Frames with at most this number of bytes between them are read in one operation.
const READ_GAP: u64 = 16 << 10;
/// Maximum bytes of one read operation, unless a single frame is larger.
const READ_SPAN: u64 = 4 << 20;
/// Added to the kind of a chunk whose side column has integers.
const LONGS: u8 = 0x80;
/// Minimum bytes of a chunk head: one for each of its six fields.
const LEAST_HEAD: usize = 6;

/// Appends a frame and returns its length. Times are stored relative to `base`, in milliseconds.
pub fn put_frame(out: &mut Vec<u8>, base: i64, chunks: &[Chunk]) -> usize {
    let start = out.len();
    put_varint(out, chunks.len() as u64);
    let mut before = base;
    for chunk in chunks {
        out.push(chunk.kind as u8 | if chunk.has_longs() { LONGS } else { 0 });
        put_varint(out, chunk.count.into());
        put_zigzag(out, chunk.min_time.wrapping_sub(before));
        put_varint(out, chunk.max_time.wrapping_sub(chunk.min_time) as u64);
        put_varint(out, chunk.data.len() as u64);
        put_varint(out, chunk.side.len() as u64);
        before = chunk.max_time;
    }
    for chunk in chunks {
        out.extend_from_slice(&chunk.data);
        out.extend_from_slice(&chunk.side);
    }
    seal(out, start);
    out.len() - start
}

/// The chunks of a frame that was written with the same `base`.
pub fn chunks_of(frame: &Bytes, base: i64) -> Result<Vec<Chunk>, Damage> {
    let content = unseal(frame)?;
    let mut cursor = Cursor(content);
    let count = cursor.varint()?;
    if count > (content.len() / LEAST_HEAD) as u64 {
        return Err(Damage("ends too early"));
    }
    let mut chunks = Vec::with_capacity(count as usize);
    let mut lengths = Vec::with_capacity(count as usize);
    let mut before = base;
    for _ in 0..count {
        let (chunk, samples, side) = head(&mut cursor, before)?;
        before = chunk.max_time;
        chunks.push(chunk);
        lengths.push((samples, side));
    }
    for (chunk, (samples, side)) in chunks.iter_mut().zip(lengths) {
        chunk.data = frame.slice_ref(cursor.take(samples)?);
        chunk.side = frame.slice_ref(cursor.take(side)?).into();
    }
    if !cursor.is_empty() {
        return Err(Damage("a frame is too long"));
    }
    Ok(chunks)
}

/// How many of the first frames are read in one operation, and where they end. Each item is an
/// offset and a length; offsets rise.
pub fn together(frames: impl Iterator<Item = (u64, u32)>) -> (usize, u64) {
    let mut count = 0;
    let (mut start, mut end) = (0, 0);
    for (offset, len) in frames {
        let frame_end = offset.saturating_add(len.into());
        if count == 0 {
            (start, end) = (offset, frame_end);
        } else if offset > end + READ_GAP || frame_end - start > READ_SPAN {
            break;
        }
        end = end.max(frame_end);
        count += 1;
    }
    (count, end)
}

fn head(cursor: &mut Cursor<'_>, before: i64) -> Result<(Chunk, usize, usize), Damage> {
    let byte = cursor.u8()?;
    let side_kind = if byte & LONGS == 0 { SideKind::Starts } else { SideKind::Longs };
    let kind = ChunkKind::try_from(byte & !LONGS);
    let kind = kind.map_err(|_| Damage("a chunk of an unknown kind"))?;
    let count = u16::try_from(cursor.varint()?).map_err(|_| Damage("a chunk is too long"))?;
    let min_time = before.wrapping_add(cursor.zigzag()?);
    let max_time = min_time.wrapping_add(cursor.varint()? as i64);
    if count == 0 || min_time > max_time {
        return Err(Damage("a chunk contradicts itself"));
    }
    let (samples, side) = (cursor.varint_u32()? as usize, cursor.varint_u32()? as usize);
    if side_kind == SideKind::Longs && side == 0 {
        return Err(Damage("a chunk contradicts itself"));
    }
    let (data, none) = (Bytes::new(), ColumnBytes::default());
    let head = Chunk {
        kind,
        count,
        min_time,
        max_time,
        data,
        side: none.clone(),
        side_kind,
        stamps: none,
    };
    Ok((head, samples, side))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn chunk(kind: ChunkKind, min_time: i64, max_time: i64, data: &'static [u8]) -> Chunk {
        let (data, side) = (Bytes::from_static(data), Bytes::from_static(&data[..1]).into());
        let (side_kind, stamps) = (SideKind::Starts, ColumnBytes::default());
        Chunk { kind, count: 3, min_time, max_time, data, side, side_kind, stamps }
    }

    #[test]
    fn a_frame_comes_back_and_notices_every_flip() {
        let chunks = [
            chunk(ChunkKind::Xor, 1_000, 2_000, b"samples"),
            chunk(ChunkKind::FloatHistogram, -5, 1_500, b"others"),
            chunk(ChunkKind::Histogram, i64::MIN, i64::MAX, b"extreme"),
            chunk(ChunkKind::Packed, 0, 3_000, b"packed"),
            Chunk {
                side_kind: SideKind::Longs,
                ..chunk(ChunkKind::Packed, 3_001, 3_002, b"integers")
            },
        ];
        let mut out = Vec::new();
        assert_eq!(put_frame(&mut out, 86_400_000, &chunks), out.len());
        let frame = Bytes::from(out);
        assert_eq!(chunks_of(&frame, 86_400_000), Ok(chunks.to_vec()));
        for at in 0..frame.len() {
            let mut flipped = frame.to_vec();
            flipped[at] ^= 2;
            assert!(chunks_of(&flipped.into(), 86_400_000).is_err());
        }
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_refused_quietly(mut bytes: Vec<u8>) {
            seal(&mut bytes, 0);
            let _ = chunks_of(&bytes.into(), 0);
        }
    }
}
