//! A text that is never printed: a password, a key, the hash of a password.
//!
//! Its `Debug` hides it and it has no `Display`; who needs it says so.

use std::fmt;
use std::io;
use std::path::Path;

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides a text.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// What a file holds, without the ends of lines at its end.
    pub fn from_file(path: &Path) -> io::Result<Self> {
        let text = std::fs::read_to_string(path)?;
        Ok(Self(text.trim_end_matches(['\r', '\n']).to_owned()))
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
