//! Snappy blocks; the declared length is checked before memory is allocated.
//!
//! Only the block format is supported, not the framed one.

use promkairos_model::limits::MAX_DECODED_BYTES;

use super::WireError;

/// The decoded length that a block declares, in bytes; an error beyond the limit.
pub fn declared_len(block: &[u8]) -> Result<usize, WireError> {
    let declared = snap::raw::decompress_len(block)?;
    if declared > MAX_DECODED_BYTES {
        return Err(WireError::TooLarge { declared, limit: MAX_DECODED_BYTES });
    }
    Ok(declared)
}

/// Decodes a block into `buffer`, which never shrinks, and returns the decoded part.
pub fn decompress<'a>(block: &[u8], buffer: &'a mut Vec<u8>) -> Result<&'a [u8], WireError> {
    let length = declared_len(block)?;
    if buffer.len() < length {
        buffer.resize(length, 0);
    }
    let written = snap::raw::Decoder::new().decompress(block, &mut buffer[..length])?;
    Ok(&buffer[..written])
}

/// Encodes `raw` as a block.
pub fn compress(raw: &[u8]) -> Result<Vec<u8>, WireError> {
    Ok(snap::raw::Encoder::new().compress_vec(raw)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(block: &[u8]) -> WireError {
        let mut buffer = Vec::new();
        let error = decompress(block, &mut buffer).expect_err("refused");
        assert!(buffer.capacity() <= MAX_DECODED_BYTES);
        error
    }

    #[test]
    fn a_block_there_and_back_with_a_used_buffer() {
        let mut buffer = vec![7; 100];
        for raw in [&b""[..], b"abc", &[1; 5000]] {
            let block = compress(raw).expect("small");
            assert_eq!(decompress(&block, &mut buffer), Ok(raw));
        }
    }

    #[test]
    fn a_declared_length_beyond_the_limit_allocates_nothing() {
        for block in [&b"\x80\x80\x80\x80\x0c\xc4abc"[..], b"\x80\x80\xc0\x10\xc4abc"] {
            let mut buffer = Vec::new();
            let error = decompress(block, &mut buffer).expect_err("too large");
            assert!(matches!(error, WireError::TooLarge { limit: MAX_DECODED_BYTES, .. }));
            assert_eq!(buffer.capacity(), 0);
        }
    }

    #[test]
    fn what_is_not_a_block() {
        let good = compress(b"some text, some text, some text").expect("small");
        let mut longer = good.clone();
        longer.push(0);
        for block in [
            &b""[..],
            b"\x00\x01\x02\x03",
            b"\x80\x80\x80\x80\x80\x20\xc4abc",
            b"\x08\x0d\x78\x01",
            b"\xff\x06\x00\x00sNaPpY",
            &longer,
        ] {
            assert!(matches!(refused(block), WireError::Snappy(_)), "{block:?}");
        }
        for end in 0..good.len() {
            assert!(matches!(refused(&good[..end]), WireError::Snappy(_)), "{end}");
        }
    }
}
