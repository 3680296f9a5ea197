//! SHA-256: what tokens are kept as, and by which a change of a file is seen.

use ring::digest::{SHA256, digest};

/// SHA-256 of some bytes.
pub(super) type Digest = [u8; 32];

/// The SHA-256 of some bytes.
pub(super) fn sha256(bytes: &[u8]) -> Digest {
    let digest = digest(&SHA256, bytes);
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}
