//! A 128-bit hash that identifies a point or an index row where keeping its bytes would cost too
//! much. A collision is far less likely than a broken disk.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

/// The hash of some parts, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Identity(u128);

impl Identity {
    /// Hashes parts. Their lengths are hashed too, so that the borders of parts count.
    pub(crate) fn of(parts: &[&[u8]]) -> Self {
        let mut hasher = Xxh3::new();
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self(hasher.digest128())
    }

    /// The hash of this identity and some parts, in order.
    pub(crate) fn and(self, parts: &[&[u8]]) -> Self {
        let mut hasher = Xxh3::new();
        hasher.update(&self.0.to_le_bytes());
        hasher.update(&Self::of(parts).0.to_le_bytes());
        Self(hasher.digest128())
    }

    /// The hash of this identity and another, in order.
    pub(crate) fn join(self, other: Self) -> Self {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&self.0.to_le_bytes());
        bytes[16..].copy_from_slice(&other.0.to_le_bytes());
        Self(xxhash_rust::xxh3::xxh3_128(&bytes))
    }

    /// The low 64 bits, for a hash table.
    pub(crate) fn short(self) -> u64 {
        self.0 as u64
    }

    /// The hash of this identity and a number.
    pub(crate) fn with(self, number: i64) -> Self {
        let mut bytes = [0; 24];
        bytes[..16].copy_from_slice(&self.0.to_le_bytes());
        bytes[16..].copy_from_slice(&number.to_le_bytes());
        Self(xxhash_rust::xxh3::xxh3_128(&bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_run_together() {
        assert_ne!(Identity::of(&[b"ab", b"c"]), Identity::of(&[b"a", b"bc"]));
        assert_ne!(Identity::of(&[b"ab"]), Identity::of(&[b"ab", b""]));
        assert_eq!(Identity::of(&[b"ab"]).with(1), Identity::of(&[b"ab"]).with(1));
        assert_ne!(Identity::of(&[b"ab"]).with(1), Identity::of(&[b"ab"]).with(2));
        let [a, b] = ["a", "b"].map(|part| Identity::of(&[part.as_bytes()]));
        assert_ne!(a.join(b), b.join(a));
    }
}
