//! Cuts the ring of tokens into equal slices, so that a scan can continue where it stopped; and
//! limits the rate of a scan. Only for Murmur3 tokens, the default of every cluster.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The first and the last token of a slice.
pub(super) fn slice(number: u32, of: u32) -> (i64, i64) {
    let bound = |number: u32| {
        let tokens = (u128::from(u64::MAX) + 1) * u128::from(number) / u128::from(of.max(1));
        i128::from(i64::MIN) + tokens.cast_signed()
    };
    let token = |bound: i128| i64::try_from(bound).expect("number is below of");
    (token(bound(number)), token(bound(number + 1) - 1))
}

/// Limits the reads per second.
pub(super) struct ReadRate {
    /// None = no limit.
    each: Option<Duration>,
    next: Mutex<Instant>,
}

impl ReadRate {
    pub(super) fn new(per_second: Option<u32>) -> Self {
        let each = per_second.map(|rate| Duration::from_secs(1) / rate.max(1));
        Self { each, next: Mutex::new(Instant::now()) }
    }

    /// Waits until `reads` more reads are allowed.
    pub(super) async fn take(&self, reads: u32) {
        let Some(each) = self.each else { return };
        let turn = {
            let mut next = self.next.lock();
            let turn = (*next).max(Instant::now());
            *next = turn + each * reads;
            turn
        };
        tokio::time::sleep_until(turn).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_cover_the_ring_without_a_gap() {
        for of in [1, 2, 3, 7, 256, 1_000] {
            let mut next = i128::from(i64::MIN);
            for number in 0..of {
                let (first, last) = slice(number, of);
                assert_eq!(i128::from(first), next, "{number} of {of}");
                assert!(first <= last);
                next = i128::from(last) + 1;
            }
            assert_eq!(next, i128::from(i64::MAX) + 1);
        }
    }
}
