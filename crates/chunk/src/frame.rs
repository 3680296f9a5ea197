//! A chunk as bytes in a file or in a log.
//!
//! ```text
//! 1 byte   kind
//! varints  number of points · zigzag of the first time · last time − first time
//!          · lengths of data, starts and stamps
//! bytes    data · starts · stamps
//! ```
//!
//! There is no checksum: the file format around the frame has one. Reading copies nothing and does
//! not decode the points; see [`Chunk::validate`].

use bytes::Bytes;

use super::chunk::{Chunk, ChunkKind};
use super::error::ChunkError;
use promkairos_model::varint::{self, unzigzag, zigzag};

/// Appends `chunk` to `out`.
pub fn encode_chunk(chunk: &Chunk, out: &mut Vec<u8>) {
    out.push(chunk.kind as u8);
    let numbers = [
        u64::from(chunk.count),
        zigzag(chunk.min_time),
        chunk.max_time.wrapping_sub(chunk.min_time) as u64,
        chunk.data.len() as u64,
        chunk.starts.len() as u64,
        chunk.stamps.len() as u64,
    ];
    for number in numbers {
        varint::push(out, number);
    }
    for part in [&chunk.data[..], &chunk.starts, &chunk.stamps] {
        out.extend_from_slice(part);
    }
}

/// The chunk at the start of `bytes`, and its length in bytes.
pub fn decode_chunk(bytes: &Bytes) -> Result<(Chunk, usize), ChunkError> {
    let mut at = 0;
    let mut take = || {
        let byte = *bytes.get(at).ok_or(ChunkError::Truncated)?;
        at += 1;
        Ok(byte)
    };
    let kind = ChunkKind::try_from(take()?)?;
    let mut numbers = [0; 6];
    for number in &mut numbers {
        *number = varint::read(&mut take, ChunkError::Field("varint"))?;
    }
    let [count, min_time, width, lengths @ ..] = numbers;
    let count = u16::try_from(count).ok().filter(|&count| count > 0);
    let min_time = unzigzag(min_time);
    let max_time = min_time.wrapping_add(width as i64);
    if max_time < min_time {
        return Err(ChunkError::TimeRange);
    }
    let mut part = |length: u64| {
        let end = usize::try_from(length).ok().and_then(|length| at.checked_add(length));
        let end = end.filter(|&end| end <= bytes.len()).ok_or(ChunkError::Truncated)?;
        let part = bytes.slice(at..end);
        at = end;
        Ok(part)
    };
    let [data, starts, stamps] = lengths;
    let chunk = Chunk {
        kind,
        count: count.ok_or(ChunkError::Field("number of points"))?,
        min_time,
        max_time,
        data: part(data)?,
        starts: part(starts)?.into(),
        stamps: part(stamps)?.into(),
    };
    Ok((chunk, at))
}
