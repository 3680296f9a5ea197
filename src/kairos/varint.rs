//! Base-128 varints and zigzag, as KairosDB packs its longs, and slices taken with care.

use super::DecodeError;

pub(super) fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(super) fn push_zigzag(out: &mut Vec<u8>, value: i64) {
    push_varint(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// The bytes still to be read, and what they are a part of.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { rest: bytes, what }
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// A number of items that take at least `each` bytes, if so many bytes are left at all.
    pub(super) fn at_most(&self, number: u64, each: usize) -> Result<usize, DecodeError> {
        usize::try_from(number)
            .ok()
            .filter(|number| *number <= self.rest.len() / each)
            .ok_or(DecodeError::Truncated(self.what))
    }

    pub(super) fn rest(self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, rest) =
            self.rest.split_first_chunk().ok_or(DecodeError::Truncated(self.what))?;
        self.rest = rest;
        Ok(*head)
    }

    pub(super) fn byte(&mut self) -> Result<u8, DecodeError> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn bytes(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let (head, rest) =
            self.rest.split_at_checked(len).ok_or(DecodeError::Truncated(self.what))?;
        self.rest = rest;
        Ok(head)
    }

    /// A double by its bits, big-endian.
    pub(super) fn double(&mut self) -> Result<f64, DecodeError> {
        self.array().map(|bits| f64::from_bits(u64::from_be_bytes(bits)))
    }

    pub(super) fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(DecodeError::OutOfRange(self.what))
    }

    pub(super) fn zigzag(&mut self) -> Result<i64, DecodeError> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Nothing may be left.
    pub(super) fn end(self) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            bytes => Err(DecodeError::TrailingBytes { what: self.what, bytes }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn edges() {
        let check = |value: i64, bytes: &[u8]| {
            let mut out = Vec::new();
            push_zigzag(&mut out, value);
            assert_eq!(out, bytes);
            assert_eq!(Reader::new(bytes, "test").zigzag(), Ok(value));
        };
        check(0, &[0]);
        check(-1, &[1]);
        check(63, &[0x7e]);
        check(64, &[0x80, 1]);
        check(i64::MAX, &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
        check(i64::MIN, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
        let too_long = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2];
        assert_eq!(Reader::new(&too_long, "test").varint(), Err(DecodeError::OutOfRange("test")));
        assert_eq!(Reader::new(&[0x80], "test").varint(), Err(DecodeError::Truncated("test")));
    }

    proptest! {
        #[test]
        fn round_trip(value: i64) {
            let mut out = Vec::new();
            push_zigzag(&mut out, value);
            let mut reader = Reader::new(&out, "test");
            prop_assert_eq!(reader.zigzag(), Ok(value));
            prop_assert_eq!(reader.end(), Ok(()));
        }
    }
}
