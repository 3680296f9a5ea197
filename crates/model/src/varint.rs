//! Varints (seven bits per byte, lowest first, the high bit set on all bytes but the last), and
//! zigzag, which maps signed numbers to unsigned ones so that small magnitudes stay small.
//!
//! The only varint code for protobuf, KairosDB's longs, chunks and own files. Written varints are
//! minimal; read varints have at most 64 bits and need not be minimal. The caller provides the
//! bytes and the errors.

/// Passes the bytes of `value` to `put`.
#[inline]
pub fn write(mut value: u64, mut put: impl FnMut(u8)) {
    while value >= 0x80 {
        put(value as u8 | 0x80);
        value >>= 7;
    }
    put(value as u8);
}

/// Appends `value` to `out`.
#[inline]
pub fn push(out: &mut Vec<u8>, value: u64) {
    write(value, |byte| out.push(byte));
}

/// Appends the zigzag of `value` to `out`.
#[inline]
pub fn push_zigzag(out: &mut Vec<u8>, value: i64) {
    push(out, zigzag(value));
}

/// Length of the varint of `value` in bytes.
#[inline]
pub const fn len(value: u64) -> usize {
    (u64::BITS - (value | 1).leading_zeros()).div_ceil(7) as usize
}

/// Reads a number from the bytes that `take` returns; more than 64 bits are the error `too_long`.
#[inline]
pub fn read<E>(mut take: impl FnMut() -> Result<u8, E>, too_long: E) -> Result<u64, E> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take()?;
        if shift == 63 && byte > 1 {
            break;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(too_long)
}

/// Maps signed to unsigned: 0, −1, 1, −2 … to 0, 1, 2, 3 …
#[inline]
pub const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The inverse of [`zigzag`].
#[inline]
pub const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read_all(bytes: &[u8]) -> Result<(u64, usize), &'static str> {
        let mut rest = bytes.iter();
        let value = read(|| rest.next().copied().ok_or("truncated"), "too long")?;
        Ok((value, bytes.len() - rest.len()))
    }

    #[test]
    fn edges() {
        let check = |value: i64, bytes: &[u8]| {
            let mut out = Vec::new();
            push_zigzag(&mut out, value);
            assert_eq!(out, bytes);
            assert_eq!(read_all(bytes), Ok((zigzag(value), bytes.len())));
        };
        check(0, &[0]);
        check(-1, &[1]);
        check(63, &[0x7e]);
        check(64, &[0x80, 1]);
        check(i64::MAX, &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
        check(i64::MIN, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
        assert_eq!(read_all(&[0x80, 0, 7]), Ok((0, 2)), "not minimal, still a varint");
        assert_eq!(read_all(&[0x80]), Err("truncated"));
        let too_long = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2];
        assert_eq!(read_all(&too_long), Err("too long"));
        let eleven = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x81, 0];
        assert_eq!(read_all(&eleven), Err("too long"));
    }

    proptest! {
        #[test]
        fn numbers_come_back(value: i64, shift in 0u32..64) {
            let value = value >> shift;
            prop_assert_eq!(unzigzag(zigzag(value)), value);
            let mut out = Vec::new();
            push(&mut out, value as u64);
            prop_assert_eq!(out.len(), len(value as u64));
            prop_assert_eq!(read_all(&out), Ok((value as u64, out.len())));
        }
    }
}
