//! Reads numbers and slices from the front of a cell or key, with checks.
//!
//! Every error names the object that was read; nothing is allocated for a declared length.

use super::DecodeError;
use promkairos_model::varint;

/// The bytes left to read, and the name of the object that they belong to.
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

    /// Checks that at least `each` bytes are left for each of `number` items, and returns the number.
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

    /// A big-endian double; its bits are kept.
    pub(super) fn double(&mut self) -> Result<f64, DecodeError> {
        self.array().map(|bits| f64::from_bits(u64::from_be_bytes(bits)))
    }

    pub(super) fn varint(&mut self) -> Result<u64, DecodeError> {
        let too_long = DecodeError::OutOfRange(self.what);
        varint::read(|| self.byte(), too_long)
    }

    pub(super) fn zigzag(&mut self) -> Result<i64, DecodeError> {
        self.varint().map(varint::unzigzag)
    }

    /// Checks that no bytes are left.
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

    #[test]
    fn errors_name_what_was_read() {
        let too_long = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2];
        assert_eq!(Reader::new(&too_long, "test").varint(), Err(DecodeError::OutOfRange("test")));
        assert_eq!(Reader::new(&[0x80], "test").varint(), Err(DecodeError::Truncated("test")));
        assert_eq!(Reader::new(&[0x7f, 1], "test").zigzag(), Ok(-64));
    }
}
