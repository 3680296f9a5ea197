//! `row_keys.mtime`: a time UUID that every insert into a partition replaces.
//!
//! Our ids carry a node id of this process, which distinguishes our changes from a neighbour's.
//! `mtime` is only a hint: the insert with the later stamp wins, not the one that came last.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use scylla::value::CqlTimeuuid;

/// The `mtime` of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mtime {
    pub(crate) id: CqlTimeuuid,
    /// Write time of that insert, in milliseconds.
    pub(crate) stamp: i64,
}

impl Mtime {
    /// Replaces an `mtime` that a server does not read: no later read trusts a window that was read with it.
    pub(crate) fn unread() -> Self {
        Self { id: CqlTimeuuid::nil(), stamp: i64::MAX }
    }
}

/// Makes the ids of our inserts.
pub(crate) struct Mtimes {
    node: [u8; 8],
    last: AtomicU64,
}

impl Default for Mtimes {
    fn default() -> Self {
        let mut node = random().to_be_bytes();
        // RFC 9562: the variant, and the bit that marks a node id that is not a network card's.
        node[0] = node[0] & 0x3F | 0x80;
        node[2] |= 1;
        Self { node, last: AtomicU64::new(0) }
    }
}

impl Mtimes {
    /// An id for an insert at `now`, in milliseconds since 1970. No two ids are equal.
    pub(crate) fn next(&self, now: i64) -> CqlTimeuuid {
        /// Units of 100 ns from 1582-10-15, where the time of UUIDs begins, to 1970.
        const EPOCH: u64 = 0x01B2_1DD2_1381_4000;
        let ticks = now.max(0).unsigned_abs().saturating_mul(10_000).saturating_add(EPOCH);
        let next = |last: u64| Some(ticks.max(last + 1));
        let last = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        let ticks = last.map_or(ticks, |last| ticks.max(last + 1)) & 0x0FFF_FFFF_FFFF_FFFF;
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&(ticks as u32).to_be_bytes());
        bytes[4..6].copy_from_slice(&((ticks >> 32) as u16).to_be_bytes());
        bytes[6..8].copy_from_slice(&((ticks >> 48) as u16 | 0x1000).to_be_bytes());
        bytes[8..].copy_from_slice(&self.node);
        CqlTimeuuid::from_bytes(bytes)
    }

    /// A number that no other process has.
    pub(crate) fn node(&self) -> u64 {
        u64::from_be_bytes(self.node)
    }

    /// Whether this process made the id.
    pub(crate) fn is_ours(&self, id: CqlTimeuuid) -> bool {
        id.as_bytes()[8..] == self.node
    }
}

/// A number that no other process has, from the only source of randomness in the standard library.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_time_uuids_that_differ_and_are_known_again() {
        let (ours, others) = (Mtimes::default(), Mtimes::default());
        let ids: Vec<CqlTimeuuid> = [0, 0, 1_700_000_000_000, 5].map(|now| ours.next(now)).into();
        for (at, id) in ids.iter().enumerate() {
            let bytes = id.as_bytes();
            assert_eq!((bytes[6] >> 4, bytes[8] >> 6), (1, 2), "version and variant");
            assert!(ours.is_ours(*id) && !others.is_ours(*id));
            assert!(!ids[..at].contains(id));
        }
        // 1,700,000,000,000 ms since 1970, as other implementations encode it.
        assert_eq!(&ids[2].as_bytes()[..8], &[0x04, 0xaf, 0xc0, 0x00, 0x83, 0x3b, 0x11, 0xee][..]);
    }
}
