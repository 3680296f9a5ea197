//! A frame of a part file or of the read cache: any bytes are read or refused; what is read is
//! written and read again as the same, and its points never panic.
//!
//! The checksum is computed here, because no random change would get past it.
use bytes::Bytes;
use promkairos::storage::frame::{chunks_of, put_frame};

/// The base time of the first chunk, in 8 bytes, and the frame without its checksum.
pub(crate) fn check(data: &[u8]) {
    let Some((base, content)) = data.split_first_chunk() else { return };
    let base = i64::from_le_bytes(*base);
    let _ = chunks_of(&Bytes::copy_from_slice(content), base);
    let frame = Bytes::from([content, &crc32c::crc32c(content).to_le_bytes()].concat());
    let Ok(chunks) = chunks_of(&frame, base) else { return };
    let held: usize = chunks.iter().map(|chunk| chunk.data.len() + chunk.side.len()).sum();
    assert!(held <= content.len(), "{held} of {}", content.len());
    for chunk in &chunks {
        assert!(chunk.count > 0 && chunk.min_time <= chunk.max_time, "{chunk:?}");
        let points = chunk.points().count();
        assert!(points <= usize::from(chunk.count) + 1, "{points} of {}", chunk.count);
        if chunk.validate().is_ok() {
            assert_eq!(points, usize::from(chunk.count));
        }
    }
    let mut written = Vec::new();
    assert_eq!(put_frame(&mut written, base, &chunks), written.len());
    assert!(written.len() <= frame.len(), "a number has no shorter form than the one written");
    assert_eq!(chunks_of(&written.clone().into(), base), Ok(chunks));
    written.truncate(written.len() - 1);
    chunks_of(&written.into(), base).expect_err("its end is missing");
}
