//! The manifest of the embedded store: any bytes are read or refused; what is read is written and read
//! again as the same.
//!
//! Head and checksum are made here, as no random change would get past them; the layout is that of
//! `docs/EMBEDDED-FORMAT.md`, said a second time.
use promkairos::storage::embedded::manifest::Manifest;

const HEAD: &[u8] = b"pkmani\x01\n";

/// What stands between head and checksum.
pub(crate) fn check(data: &[u8]) {
    let _ = Manifest::decode(data);
    let mut file = [HEAD, data].concat();
    file.extend(crc32c::crc32c(&file).to_le_bytes());
    let Ok(manifest) = Manifest::decode(&file) else { return };
    let written = manifest.encode();
    assert!(written.len() <= file.len(), "a number has no shorter form than the one written");
    let again = Manifest::decode(&written).expect("our own manifest");
    assert_eq!(again, manifest);
    assert_eq!(again.encode(), written);
    let mut torn = written;
    torn.truncate(torn.len() - 1);
    Manifest::decode(&torn).expect_err("its end is missing");
}
