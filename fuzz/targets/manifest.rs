//! The manifest of the embedded store, in both versions: any bytes are read or refused; what is
//! read is written and read again as the same.
//!
//! Head and checksum are computed here, because no random change would get past them; the layout
//! repeats `docs/EMBEDDED-FORMAT.md`.
use promkairos::storage::embedded::manifest::Manifest;

const HEADS: [&[u8]; 2] = [b"pkmani\x01\n", b"pkmani\x02\n"];
/// Least bytes of a part in version 1. In version 2 it is one byte more.
const PART: usize = 13;

/// The bytes between head and checksum.
pub(crate) fn check(data: &[u8]) {
    let _ = Manifest::decode(data);
    for head in HEADS {
        let mut file = [head, data].concat();
        file.extend(crc32c::crc32c(&file).to_le_bytes());
        let Ok(manifest) = Manifest::decode(&file) else { continue };
        let written = manifest.encode();
        let added = if head == HEADS[0] { data.len() / PART } else { 0 };
        let shortest = "a number has no shorter form than the one written";
        assert!(written.len() <= file.len() + added, "{shortest}");
        let again = Manifest::decode(&written).expect("our own manifest");
        assert_eq!(again, manifest);
        assert_eq!(again.encode(), written);
        let mut torn = written;
        torn.truncate(torn.len() - 1);
        Manifest::decode(&torn).expect_err("its end is missing");
    }
}
