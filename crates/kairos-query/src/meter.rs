//! The memory of an evaluation beside its input, as the caller counts it.
//!
//! Bytes are reported before they are allocated, some ahead, so that the caller is not called for each point. The
//! caller is also called now and then without more bytes, so that it can end an evaluation whose client is gone.

use crate::error::QueryError;

/// Bytes that are reported ahead.
const AHEAD: usize = 64 << 10;

/// Takes the bytes that the evaluation is about to hold, all together, or refuses them.
type Cover<'a> = Box<dyn FnMut(usize) -> Result<(), QueryError> + 'a>;

/// What was reported to the caller.
#[derive(Default)]
pub(crate) struct Meter<'a> {
    cover: Option<Cover<'a>>,
    covered: usize,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(cover: impl FnMut(usize) -> Result<(), QueryError> + 'a) -> Self {
        Self { cover: Some(Box::new(cover)), covered: 0 }
    }

    /// Reports the same bytes again.
    pub(crate) fn check(&mut self) -> Result<(), QueryError> {
        self.cover.as_mut().map_or(Ok(()), |cover| cover(self.covered))
    }

    /// Data of `bytes` bytes is in lists, which may be twice as large.
    pub(crate) fn cover(&mut self, bytes: usize) -> Result<(), QueryError> {
        let bytes = bytes.saturating_mul(2);
        if bytes <= self.covered {
            return Ok(());
        }
        self.covered = bytes.saturating_add(AHEAD);
        self.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_reported_ahead_and_once() {
        let mut reported = Vec::new();
        let mut meter = Meter::new(|bytes| {
            reported.push(bytes);
            match bytes > 3 * AHEAD {
                true => Err(QueryError::Evaluation("too much".into())),
                false => Ok(()),
            }
        });
        for bytes in 0..=AHEAD {
            meter.cover(bytes).expect("there is room");
        }
        meter.cover(3 * AHEAD / 2 + 1).expect_err("there is none");
        drop(meter);
        assert!(reported.is_sorted() && reported.len() == 3, "{reported:?}");
    }
}
