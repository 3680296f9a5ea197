//! Reads files that hold settings: whole, of a bounded size, and without blocking.
//!
//! The server reads some of them again while it runs. A user who may write such a file may replace it
//! with a pipe without a writer, or with a device that never ends.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::model::Secret;

/// Most bytes of such a file.
const MOST: u64 = 16 << 20;

/// The bytes of a file; an error for a pipe or a socket, and for what is larger than 16 MiB.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let refused = |why: &str| Err(io::Error::new(ErrorKind::InvalidData, why));
    // Opens a pipe even if it has no writer.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).expect("a flag of the system");
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_fifo() || kind.is_socket() {
        return refused("a pipe or a socket, not a file");
    }
    let mut bytes = Vec::new();
    file.take(MOST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST {
        return refused("larger than 16 MiB");
    }
    Ok(bytes)
}

/// The text of a file, with the same limits as [`read`].
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    let not_utf8 = |_| io::Error::new(ErrorKind::InvalidData, "not UTF-8");
    String::from_utf8(read(path)?).map_err(not_utf8)
}

/// The one line that a file holds, without its end. A file without a line, or with several, is an error.
pub(crate) fn read_secret(path: &Path) -> io::Result<Secret> {
    let refused = |why| Err(io::Error::new(ErrorKind::InvalidData, why));
    let text = read_text(path)?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => refused("the file is empty"),
        lines if lines.contains('\n') => refused("the file has more than one line"),
        line => Ok(Secret::new(line.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_or_never_begins_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let why = |path: &Path| read(path).expect_err("refused").to_string();
        assert_eq!(why(Path::new("/dev/zero")), "larger than 16 MiB");
        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).expect("made");
        assert_eq!(why(&pipe), "a pipe or a socket, not a file");
        let large = folder.path().join("large");
        std::fs::File::create(&large).and_then(|file| file.set_len(MOST + 1)).expect("made");
        assert_eq!(why(&large), "larger than 16 MiB");
        assert_eq!(read(Path::new("/dev/null")).expect("nothing"), b"");
        std::fs::write(&large, "a").expect("written");
        assert_eq!(read_text(&large).expect("a text"), "a");
    }

    #[test]
    fn a_file_holds_one_line() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let read = |text: &str| {
            std::fs::write(file.path(), text).expect("written");
            read_secret(file.path()).map_err(|error| error.to_string())
        };
        for text in [" p w ", " p w \n", " p w \r\n"] {
            assert_eq!(read(text).expect("one line").reveal(), " p w ");
        }
        for text in ["", "\n"] {
            assert_eq!(read(text).expect_err("none"), "the file is empty");
        }
        assert_eq!(read("a\nb\n").expect_err("two"), "the file has more than one line");
    }
}
