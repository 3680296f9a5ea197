//! The web configuration: an accepted file never prints its secrets.
use std::fs;

use promkairos::config::WebConfig;

pub(crate) fn check(data: &[u8]) {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let path = folder.path().join("web.yml");
    fs::write(&path, data).expect("a file");
    if let Ok(config) = WebConfig::read(&path) {
        assert!(!format!("{config:?}").contains("$2"), "the hash of a password");
    }
}
