//! Every setting, once: the tables of the groups, and all of them in the order of the help.
//!
//! The name `a-b` is the flag `--a-b`, the variable `PROMKAIROS_A_B` and the key `a_b` of the file. A new setting is a
//! new row, and the code that uses its value.

mod cassandra;
mod limits;
mod operation;
mod queries;
mod server;
mod storage;

use super::setting::{Group, Setting};

/// All groups, in the order of the help.
pub const GROUPS: [Group; 6] = [
    Group { title: "Server and store", settings: server::SETTINGS },
    Group { title: "Cassandra", settings: CASSANDRA },
    Group { title: "Memory, log and retention", settings: storage::SETTINGS },
    Group { title: "Limits of connections and requests", settings: limits::SETTINGS },
    Group { title: "Queries", settings: queries::SETTINGS },
    Group { title: "Operation", settings: operation::SETTINGS },
];

/// Settings that need `--store cassandra`.
pub(super) const CASSANDRA: &[Setting] = cassandra::SETTINGS;

/// All settings, in the order of the help.
pub const SETTINGS: &[Setting] = &joined();

const COUNT: usize = {
    let (mut count, mut group) = (0, 0);
    while group < GROUPS.len() {
        count += GROUPS[group].settings.len();
        group += 1;
    }
    count
};

const fn joined() -> [Setting; COUNT] {
    let mut all = [GROUPS[0].settings[0]; COUNT];
    let (mut at, mut group) = (0, 0);
    while group < GROUPS.len() {
        let (settings, mut row) = (GROUPS[group].settings, 0);
        while row < settings.len() {
            all[at] = settings[row];
            (at, row) = (at + 1, row + 1);
        }
        group += 1;
    }
    all
}

/// The setting of this name.
pub(super) fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

/// The words that the setting of this name accepts.
pub(super) fn words(name: &str) -> &'static [&'static str] {
    find(name).map_or(&[], Setting::words)
}

/// Whether a setting applies as soon as it is read again, without a restart.
pub fn is_live(name: &str) -> bool {
    find(name).is_some_and(|setting| setting.is_reloadable)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::testing::load;
    use super::super::units::parse_size;
    use super::*;

    #[test]
    fn a_name_is_used_once() {
        let names: HashSet<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
        assert_eq!(names.len(), SETTINGS.len());
        assert!(SETTINGS.iter().all(|setting| !setting.help.is_empty()));
        assert!(!is_live("listen") && is_live("retention") && is_live("log-level"));
    }

    #[test]
    fn bounds_allow_the_default() {
        let bounded = SETTINGS.iter().filter_map(|setting| Some((setting, setting.bounds?)));
        let mut count = 0;
        for (setting, bounds) in bounded {
            let default = setting.default.and_then(|text| parse_size(text).ok());
            assert_eq!(default.map(|size| bounds.check(size)), default.map(|_| Ok(())));
            assert!(setting.meaning().ends_with(&format!("; {}", bounds.told())));
            count += 1;
        }
        assert_eq!(count, 11);
    }

    #[test]
    fn every_word_of_a_row_is_valid() {
        let key = rcgen::KeyPair::generate().expect("a key");
        let ca = rcgen::CertificateParams::default().self_signed(&key).expect("signed").pem();
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), ca).expect("written");
        let ca = format!("--cassandra-tls-ca={}", file.path().display());
        let mut count = 0;
        for setting in SETTINGS {
            for word in setting.words() {
                let flag = format!("--{}={word}", setting.name);
                // The store that accepts every other word.
                let store = (setting.name != "store").then_some("--store=cassandra");
                let ca = (flag == "--cassandra-tls=true").then_some(&*ca);
                let flags: Vec<&str> = [&*flag].into_iter().chain(store).chain(ca).collect();
                let read = load(&flags);
                assert!(read.is_ok(), "{flag}: {:?}", read.err());
                count += 1;
            }
        }
        assert!(count > 30, "{count}");
    }

    #[test]
    fn reads_have_the_consistencies_of_writes_but_one() {
        let mut levels = words("cassandra-write-consistency").to_vec();
        levels.retain(|level| *level != "EACH_QUORUM");
        assert_eq!(words("cassandra-read-consistency"), levels);
    }
}
