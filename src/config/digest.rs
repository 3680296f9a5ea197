//! SHA-256: a change of a file is noticed by it.

use ring::digest::{SHA256, digest};

/// SHA-256 of some bytes.
pub(super) type Digest = [u8; 32];

/// The SHA-256 of some bytes.
pub(super) fn sha256(bytes: &[u8]) -> Digest {
    let digest = digest(&SHA256, bytes);
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}
