//! SHA-256: the stored form of tokens, and how a change of a file is noticed.

use ring::digest::{SHA256, digest};

/// SHA-256 of some bytes.
pub(super) type Digest = [u8; 32];

/// The SHA-256 of some bytes.
pub(super) fn sha256(bytes: &[u8]) -> Digest {
    let digest = digest(&SHA256, bytes);
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}
