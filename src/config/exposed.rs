//! Warns about files with secrets that every user of the machine can read. They are not refused: some
//! container volumes cannot restrict the mode of their files.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The warning about a file with a secret that every user of the machine can read. `None` = the file
/// or a folder above it keeps other users out, or the file is gone.
pub(super) fn exposed(path: &Path) -> Option<String> {
    const TO_READ: u32 = 0o004;
    const TO_PASS: u32 = 0o001;
    let whole = path.canonicalize().ok()?;
    let lets = |path: &Path, bit: u32| {
        path.metadata().is_ok_and(|metadata| metadata.permissions().mode() & bit != 0)
    };
    let is_open =
        lets(&whole, TO_READ) && whole.ancestors().skip(1).all(|folder| lets(folder, TO_PASS));
    is_open.then(|| {
        let path = path.display();
        format!(
            "{path} holds a secret, and every user of this machine can read it: chmod o= {path}"
        )
    })
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;

    use super::*;

    #[test]
    fn a_file_that_everybody_can_read_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, link) = (folder.path().join("password"), folder.path().join("link"));
        std::fs::write(&path, "p").expect("written");
        std::os::unix::fs::symlink(&path, &link).expect("made");
        let set = |path: &Path, mode| {
            std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("set");
        };
        for (of_folder, of_file, is_open) in [
            (0o755, 0o644, true),
            (0o751, 0o604, true),
            (0o755, 0o640, false),
            (0o755, 0o600, false),
            (0o750, 0o644, false),
            (0o700, 0o666, false),
        ] {
            set(folder.path(), of_folder);
            set(&path, of_file);
            for named in [&path, &link] {
                let said = exposed(named);
                assert_eq!(said.is_some(), is_open, "{of_folder:o} {of_file:o}: {said:?}");
                assert!(said.is_none_or(|said| said.starts_with(&named.display().to_string())));
            }
        }
        assert_eq!(exposed(&folder.path().join("gone")), None);
    }
}
