//! Integers of 64 bits beside floats: KairosDB's type `long`.
//!
//! A chunk keeps an integer as the nearest float, so that readers of floats read it as any other. Its side column says
//! how to find the integer again:
//!
//! ```text
//! 0        the point is a float, not an integer
//! z + 1    an integer; z is the zigzag of the integer − its float
//! ```
//!
//! Up to 2^53 an integer is its float, and z is 0. Beyond that they differ by at most 512.

use super::error::ChunkError;
use promkairos_model::varint::{unzigzag, zigzag};

const CONTRADICTS: ChunkError = ChunkError::Field("integer");

/// The entry of an integer in a side column.
pub(super) fn entry_of(long: i64) -> i64 {
    let apart = i128::from(long) - (long as f64) as i128;
    zigzag(apart as i64) as i64 + 1
}

/// The integer of an entry with its float; `None` = the point is a float.
pub(super) fn long_of(entry: i64, float: f64) -> Result<Option<i64>, ChunkError> {
    if entry == 0 {
        return Ok(None);
    }
    let apart = unzigzag(entry.wrapping_sub(1).cast_unsigned());
    // Saturates for floats that no integer has.
    let long = (float as i128).checked_add(apart.into()).and_then(|long| i64::try_from(long).ok());
    let long = long.filter(|long| (*long as f64).to_bits() == float.to_bits());
    long.map(Some).ok_or(CONTRADICTS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_ends_come_back() {
        let two53 = 1 << 53;
        for long in [0, 1, -1, two53, two53 + 1, -two53 - 1, i64::MAX, i64::MAX - 1, i64::MIN] {
            assert_eq!(long_of(entry_of(long), long as f64), Ok(Some(long)));
        }
        assert_eq!(entry_of(two53), 1);
        for float in [0.5, f64::NAN, f64::INFINITY, -0.0, 1e300] {
            assert_eq!(long_of(0, float), Ok(None));
            assert_eq!(long_of(1, float), Err(CONTRADICTS));
        }
        assert_eq!(long_of(3, 7.0), Err(CONTRADICTS), "6 has another float");
    }

    proptest! {
        #[test]
        fn every_integer_comes_back(long: i64) {
            prop_assert_eq!(long_of(entry_of(long), long as f64), Ok(Some(long)));
        }

        #[test]
        fn what_is_read_has_its_float(entry: i64, bits: u64) {
            let float = f64::from_bits(bits);
            if let Ok(Some(long)) = long_of(entry, float) {
                prop_assert_eq!((long as f64).to_bits(), bits);
            }
        }
    }
}
