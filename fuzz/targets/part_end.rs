//! The end of a part file, its directory and its footer: any bytes are read or refused; what is read is
//! written and read again as the same.
//!
//! Checksum and tail of a footer are computed here, because no random change would get past them;
//! the layout repeats `docs/EMBEDDED-FORMAT.md`.
use promkairos::storage::embedded::directory::{Directory, Footer};
use promkairos::storage::embedded::old_directory;

/// The number of the version and the bytes after it, or the directory.
pub(crate) fn check(data: &[u8]) {
    check_directory(data);
    let _ = old_directory::decode(data);
    let _ = Footer::decode(data);
    for version in [1, 2, 3] {
        let mut footer = u32::from(version).to_le_bytes().to_vec();
        footer.extend(data);
        footer.extend(crc32c::crc32c(&footer).to_le_bytes());
        footer.extend([b'p', b'k', b'p', b'a', b'r', b't', version, b'E']);
        let Ok(read) = Footer::decode(&footer) else { continue };
        assert_eq!(read.encode(), footer);
        footer.pop();
        Footer::decode(&footer).expect_err("its end is missing");
    }
}

fn check_directory(data: &[u8]) {
    let Ok(directory) = Directory::decode(data) else { return };
    let written = directory.encode();
    // The written form of a number is the shortest.
    assert!(written.len() <= data.len(), "{} bytes of {}", written.len(), data.len());
    let again = Directory::decode(&written).expect("our own directory");
    assert_eq!(again.encode(), written);
    let torn = &written[..written.len() - 1];
    Directory::decode(torn).expect_err("its end is missing");
}
