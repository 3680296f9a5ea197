//! The metadata file of the embedded store: any bytes are read or refused; what is read is written and
//! read again as the same.
//!
//! Head and checksum are computed here, because no random change would get past them.
use promkairos::storage::embedded::metadata::{decode, encode};

const HEAD: &[u8] = b"pkmeta\x01\n";

/// The bytes between head and checksum.
pub(crate) fn check(data: &[u8]) {
    let _ = decode(data);
    let mut file = [HEAD, data].concat();
    file.extend(crc32c::crc32c(&file).to_le_bytes());
    let Ok(families) = decode(&file) else { return };
    let written = encode(&families);
    assert!(written.len() <= file.len(), "{} bytes of {}", written.len(), file.len());
    let again = decode(&written).expect("our own metadata");
    assert_eq!(again, families);
    assert_eq!(encode(&again), written);
    let mut torn = written;
    torn.truncate(torn.len() - 1);
    decode(&torn).expect_err("its end is missing");
}
