//! The reset hint of a histogram chunk: the two highest bits of its third byte.

use crate::chunk::Chunk;
use promkairos_model::ResetHint;

impl Chunk {
    /// The stored hint about a reset before the first histogram. It refers to the previous chunk at
    /// the time of writing; reading points does not use it.
    pub fn reset_before(&self) -> ResetHint {
        match self.data.get(FLAGS_AT) {
            Some(flags) if !self.kind.is_floats() => hint_of(*flags),
            _ => ResetHint::Unknown,
        }
    }

    /// The chunk without a stored hint about a reset before it.
    pub fn without_reset_before(&self) -> Self {
        let mut chunk = self.clone();
        if matches!(self.reset_before(), ResetHint::Reset | ResetHint::NotReset) {
            let mut data = self.data.to_vec();
            data[FLAGS_AT] &= !flags(ResetHint::Gauge);
            chunk.data = data.into();
        }
        chunk
    }
}

/// Position of the hint in the data.
const FLAGS_AT: usize = 2;

pub(super) const fn flags(hint: ResetHint) -> u8 {
    match hint {
        ResetHint::Unknown => 0,
        ResetHint::Reset => 0b1000_0000,
        ResetHint::NotReset => 0b0100_0000,
        ResetHint::Gauge => 0b1100_0000,
    }
}

pub(super) const fn hint_of(flags: u8) -> ResetHint {
    match flags >> 6 {
        0b00 => ResetHint::Unknown,
        0b10 => ResetHint::Reset,
        0b01 => ResetHint::NotReset,
        _ => ResetHint::Gauge,
    }
}
