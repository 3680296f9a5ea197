//! The files of the project that its style is checked in.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

/// A text file.
pub(super) struct File {
    /// Relative to the root of the project.
    pub(super) path: String,
    pub(super) text: String,
}

impl File {
    /// All before the module of unit tests.
    pub(super) fn code(&self) -> &str {
        static TESTS: LazyLock<Regex> = LazyLock::new(|| {
            let module = r"(?m)^#\[cfg\(test\)\]\n(?:pub(?:\([^)]*\))? )?mod \w+ \{";
            Regex::new(module).expect("valid")
        });
        TESTS.split(&self.text).next().unwrap_or_default()
    }
}

/// Where the project lies.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(super) fn rust_files() -> Vec<File> {
    ["src", "crates", "tests", "bench", "fuzz", "xtask", "build.rs"]
        .into_iter()
        .flat_map(sources)
        .collect()
}

/// The files with code in a folder, which must be there and have some.
pub(super) fn sources(folder: &str) -> Vec<File> {
    let mut files = files_below(&root().join(folder));
    files.retain(|file| file.path.ends_with(".rs"));
    assert!(!files.is_empty(), "{folder} has no code");
    files
}

/// Every text file of the project but the lock file, which names registries by its nature.
pub(super) fn text_files() -> Vec<File> {
    let mut files = files_below(root());
    files.retain(|file| file.path != "Cargo.lock");
    files
}

/// Text files below a folder, without what the `.gitignore` keeps out.
pub(super) fn files_below(path: &Path) -> Vec<File> {
    const NOT_OURS: &[&str] = &[".git", ".peers", "target", "corpus", "artifacts"];
    let mut files = Vec::new();
    let mut open: Vec<PathBuf> = vec![path.to_owned()];
    while let Some(path) = open.pop() {
        let relative = path.strip_prefix(root()).expect("below the root").to_owned();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if relative == Path::new("data") || NOT_OURS.contains(&name) {
            continue;
        }
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).expect("a folder");
            open.extend(entries.map(|entry| entry.expect("an entry").path()));
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            files.push(File { path: relative.to_str().expect("UTF-8").to_owned(), text });
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// The files with code of the program and its crates.
pub(super) fn product() -> Vec<File> {
    ["src", "crates"].into_iter().flat_map(sources).collect()
}

/// The lines that are not comments.
pub(super) fn code_lines(code: &str) -> impl Iterator<Item = &str> {
    code.lines().filter(|line| !line.trim_start().starts_with("//"))
}
