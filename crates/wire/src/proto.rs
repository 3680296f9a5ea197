//! A small protobuf reader over a slice: keys, varints, fixed 64-bit values and
//! length-delimited fields.
//!
//! It never reads past the end, never allocates and never trusts a length. The messages are in
//! `v1`, `v2` and `histogram`. Groups are refused.

use promkairos_model::varint;

/// Why a message cannot be read. One byte, because it is in every result of the hot path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    /// The message ends within a field.
    Truncated,
    /// A varint of more than 64 bits.
    LongVarint,
    /// A field number that is 0 or has more than 29 bits.
    FieldNumber,
    /// A known field with a wrong wire type.
    WireType,
    /// A group, or a wire type that does not exist.
    Group,
}

/// Wire type of varints.
pub(super) const VARINT: u32 = 0;
/// Wire type of eight-byte values.
pub(super) const FIXED64: u32 = 1;
/// Wire type of strings, messages and packed values.
pub(super) const BYTES: u32 = 2;
/// Wire type of four-byte values.
const FIXED32: u32 = 5;

/// The key of a field: its number and wire type.
pub(super) const fn key(field: u32, wire_type: u32) -> u32 {
    field << 3 | wire_type
}

/// Reads one message from front to back.
#[derive(Debug, Clone)]
pub(super) struct Reader<'a> {
    input: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// A reader of the message `input`.
    pub(super) fn new(input: &'a [u8]) -> Self {
        Self { input, at: 0 }
    }

    /// Bytes read so far.
    #[inline]
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// The next key; `None` at the end of the message.
    #[inline]
    pub(super) fn key(&mut self) -> Result<Option<u32>, Broken> {
        if self.at == self.input.len() {
            return Ok(None);
        }
        let key = self.varint()?;
        match u32::try_from(key) {
            Ok(key) if key >= 1 << 3 => Ok(Some(key)),
            _ => Err(Broken::FieldNumber),
        }
    }

    /// A varint of up to ten bytes.
    #[inline(always)]
    pub(super) fn varint(&mut self) -> Result<u64, Broken> {
        match self.input.get(self.at..) {
            Some(&[byte, ..]) if byte < 0x80 => {
                self.at += 1;
                Ok(u64::from(byte))
            }
            Some(&[low, high, ..]) if high < 0x80 => {
                self.at += 2;
                Ok(u64::from(low & 0x7f) | u64::from(high) << 7)
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, Broken> {
        let next = || {
            let byte = *self.input.get(self.at).ok_or(Broken::Truncated)?;
            self.at += 1;
            Ok(byte)
        };
        varint::read(next, Broken::LongVarint)
    }

    /// Skips consecutive length-delimited fields with `key`.
    #[inline]
    pub(super) fn skip_run(&mut self, key: u8) -> Result<(), Broken> {
        while self.input.get(self.at) == Some(&key) {
            self.at += 1;
            self.bytes()?;
        }
        Ok(())
    }

    /// A varint as `int64`.
    #[inline]
    pub(super) fn int64(&mut self) -> Result<i64, Broken> {
        Ok(self.varint()? as i64)
    }

    /// A varint as `uint32`: protobuf keeps the low 32 bits.
    pub(super) fn uint32(&mut self) -> Result<u32, Broken> {
        Ok(self.varint()? as u32)
    }

    /// A zigzag varint as `sint32`.
    pub(super) fn sint32(&mut self) -> Result<i32, Broken> {
        let raw = self.varint()? as u32;
        Ok(varint::unzigzag(raw.into()) as i32)
    }

    /// A zigzag varint as `sint64`.
    pub(super) fn sint64(&mut self) -> Result<i64, Broken> {
        self.varint().map(varint::unzigzag)
    }

    /// Eight bytes as `double`, its bits kept.
    #[inline]
    pub(super) fn double(&mut self) -> Result<f64, Broken> {
        let rest = &self.input[self.at..];
        let bytes = rest.first_chunk::<8>().ok_or(Broken::Truncated)?;
        self.at += 8;
        Ok(f64::from_bits(u64::from_le_bytes(*bytes)))
    }

    /// A length and that many bytes.
    #[inline]
    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Broken> {
        let length = self.varint()?;
        let rest = &self.input[self.at..];
        let length = usize::try_from(length).map_err(|_| Broken::Truncated)?;
        let bytes = rest.get(..length).ok_or(Broken::Truncated)?;
        self.at += length;
        Ok(bytes)
    }

    /// Skips the value of an unknown field. `known` are the field numbers of the message: a known
    /// field with a wrong wire type is an error.
    pub(super) fn skip(&mut self, key: u32, known: &[u32]) -> Result<(), Broken> {
        if known.contains(&(key >> 3)) {
            return Err(Broken::WireType);
        }
        match key & 7 {
            VARINT => self.varint().map(drop),
            FIXED64 => self.advance(8),
            BYTES => self.bytes().map(drop),
            FIXED32 => self.advance(4),
            _ => Err(Broken::Group),
        }
    }

    fn advance(&mut self, count: usize) -> Result<(), Broken> {
        if self.input.len() - self.at < count {
            return Err(Broken::Truncated);
        }
        self.at += count;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints() {
        let read = |bytes: &[u8]| Reader::new(bytes).varint();
        assert_eq!(read(b"\x00"), Ok(0));
        assert_eq!(read(b"\xac\x02"), Ok(300));
        assert_eq!(read(b"\x80\x00"), Ok(0), "not minimal, still a varint");
        assert_eq!(read(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), Ok(u64::MAX));
        let too_long = Err(Broken::LongVarint);
        assert_eq!(read(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"), too_long);
        assert_eq!(read(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x81\x00"), too_long);
        assert_eq!(read(b""), Err(Broken::Truncated));
        assert_eq!(read(b"\x80"), Err(Broken::Truncated));
    }

    #[test]
    fn zigzag() {
        assert_eq!(Reader::new(b"\x09").sint32(), Ok(-5));
        assert_eq!(Reader::new(b"\xff\xff\xff\xff\x0f").sint32(), Ok(i32::MIN));
        let least = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
        assert_eq!(Reader::new(least).sint64(), Ok(i64::MIN));
    }

    #[test]
    fn lengths_beyond_the_end_and_groups_are_refused() {
        assert_eq!(Reader::new(b"\x03ab").bytes(), Err(Broken::Truncated));
        let huge = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
        assert_eq!(Reader::new(huge).bytes(), Err(Broken::Truncated));
        assert_eq!(Reader::new(b"1234567").double(), Err(Broken::Truncated));
        for (wire_type, rest) in [(1, 7), (5, 3), (2, 0), (0, 0), (3, 9), (4, 9), (6, 9), (7, 9)] {
            let rest = vec![0x80; rest];
            assert!(Reader::new(&rest).skip(key(9, wire_type), &[]).is_err(), "{wire_type}");
        }
        assert!(Reader::new(b"\x01").skip(key(1, VARINT), &[1]).is_err());
        assert_eq!(Reader::new(b"\x01").skip(key(2, VARINT), &[1]), Ok(()));
    }

    #[test]
    fn field_number_zero_is_refused() {
        assert!(Reader::new(b"\x07").key().is_err());
        assert!(Reader::new(b"\x80\x80\x80\x80\x80\x01").key().is_err());
        assert_eq!(Reader::new(b"\x08").key(), Ok(Some(8)));
        assert_eq!(Reader::new(b"").key(), Ok(None));
    }
}
