//! A text that is never printed: a password, a key, the hash of a password.
//!
//! Its `Debug` hides it, and it has no `Display`; code that needs the text calls [`Secret::reveal`].

use std::fmt;
use std::io;
use std::path::Path;

use super::file;

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides a text.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The single line of a file, without its end. No line, or several, is an error.
    pub fn from_file(path: &Path) -> io::Result<Self> {
        let refused = |why| Err(io::Error::new(io::ErrorKind::InvalidData, why));
        let text = file::read_text(path)?;
        match text.trim_end_matches(['\r', '\n']) {
            "" => refused("the file is empty"),
            lines if lines.contains('\n') => refused("the file has more than one line"),
            line => Ok(Self(line.to_owned())),
        }
    }

    /// The text itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_holds_one_line() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let read = |text: &str| {
            std::fs::write(file.path(), text).expect("written");
            Secret::from_file(file.path()).map_err(|error| error.to_string())
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
