//! The owner of the data folder and its subfolders. Files that root writes into another user's folder cannot be read or
//! replaced by that user's process afterwards, so such a start is refused.
//!
//! A missing folder has no owner; users other than root are refused by the system itself.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::geteuid;

use super::error::ServerError;
use crate::config::StoreConfig;

/// The system's list of users.
const USERS: &str = "/etc/passwd";

/// Refuses to write as root into another user's folder: the data folder, or a subfolder where this store keeps files.
pub fn refuse_foreign(data_dir: &Path, store: &StoreConfig) -> Result<(), ServerError> {
    let below = match store {
        StoreConfig::Embedded => ["embedded", "embedded/wal", "embedded/parts"],
        StoreConfig::Cassandra { .. } => ["cassandra", "cassandra/wal", "cassandra/read-cache"],
    };
    let below = below.into_iter().map(|name| data_dir.join(name));
    for path in std::iter::once(data_dir.to_owned()).chain(below) {
        if let Some(user) = foreign(&path) {
            return Err(ServerError::Foreign { path, user });
        }
    }
    Ok(())
}

/// The owner of the folder if this process is root and the owner is not; a name, or `'#1234'` with the user
/// ID: both quoted for `sudo -u` in a shell.
fn foreign(folder: &Path) -> Option<String> {
    let owner = std::fs::metadata(folder).ok()?.uid();
    if !geteuid().is_root() || owner == 0 {
        return None;
    }
    let users = std::fs::read_to_string(USERS).unwrap_or_default();
    Some(name(&users, owner).map_or_else(|| format!("'#{owner}'"), str::to_owned))
}

/// The name of a user in lines `name:password:uid:...`.
fn name(users: &str, uid: u32) -> Option<&str> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _, number) = (fields.next()?, fields.next()?, fields.next()?);
        (number.parse() == Ok(uid) && !name.is_empty()).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_names() {
        let users =
            "root:x:0:0:root:/:/bin/sh\nbroken\n:x:7:\npk:x:901:901::/var/lib/pk:/bin/false\n";
        for (uid, want) in [(0, Some("root")), (901, Some("pk")), (7, None), (90, None)] {
            assert_eq!(name(users, uid), want, "{uid}");
        }
    }

    #[test]
    fn only_root_in_the_folder_of_another_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let refuse = |folder: &Path| refuse_foreign(folder, &StoreConfig::Embedded);
        assert!(refuse(folder.path()).is_ok(), "our own");
        assert!(refuse(&folder.path().join("absent")).is_ok(), "nobody's yet");
        // Only root can change the owner of a folder.
        let given = std::os::unix::fs::chown(folder.path(), Some(65_533), None);
        assert_eq!(given.is_ok(), geteuid().is_root());
        assert_eq!(foreign(folder.path()).is_some(), geteuid().is_root());
    }
}
