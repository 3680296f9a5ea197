//! Settings that accept a few fixed words, for shell completions. Their values are validated where
//! they are read.

use super::setting::Setting;

/// The words that the setting accepts; empty where its values are not a fixed list.
pub fn choices(setting: &Setting) -> &'static [&'static str] {
    match setting.name {
        _ if setting.value == "true|false" => &["true", "false"],
        "store" => &["embedded", "cassandra"],
        "ack" => &["wal", "store"],
        "cassandra-read-consistency" => {
            &["ONE", "TWO", "THREE", "QUORUM", "ALL", "LOCAL_ONE", "LOCAL_QUORUM"]
        }
        "cassandra-write-consistency" => {
            &["ONE", "TWO", "THREE", "QUORUM", "ALL", "LOCAL_ONE", "LOCAL_QUORUM", "EACH_QUORUM"]
        }
        "cassandra-compression" => &["none", "lz4", "snappy"],
        "tag-index-trust" => &["configured", "verify"],
        "series-limit-answer" => &["400", "429"],
        "log-format" => &["text", "json"],
        "log-level" => &["off", "error", "warn", "info", "debug", "trace"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Command;

    use super::*;
    use crate::config::{Config, SETTINGS, arguments};

    #[test]
    fn every_choice_is_valid() {
        let command = Command::new("t").args(arguments());
        let key = rcgen::KeyPair::generate().expect("a key");
        let ca = rcgen::CertificateParams::default().self_signed(&key).expect("signed").pem();
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), ca).expect("written");
        let ca = format!("--cassandra-tls-ca={}", file.path().display());
        let mut count = 0;
        for setting in SETTINGS {
            for choice in choices(setting) {
                let flag = format!("--{}={choice}", setting.name);
                // The store that accepts every other choice.
                let store = (setting.name != "store").then_some("--store=cassandra");
                let ca = (flag == "--cassandra-tls=true").then_some(&*ca);
                let arguments = ["t", &flag].into_iter().chain(store).chain(ca);
                let matches = command.clone().get_matches_from(arguments);
                let read = Config::load(&matches);
                assert!(read.is_ok(), "{flag}: {:?}", read.err());
                count += 1;
            }
        }
        assert!(count > 30, "{count}");
    }

    #[test]
    fn every_word_that_is_valid_is_a_choice() {
        let command = Command::new("t").args(arguments());
        // The words of `others` are not in one list where they are read.
        let listed = SETTINGS.iter().filter(|setting| {
            let is_switch = setting.value == "true|false";
            let others = ["log-level", "cassandra-read-consistency"].contains(&setting.name);
            !choices(setting).is_empty() && !is_switch && !others
        });
        let mut count = 0;
        for setting in listed {
            let flag = format!("--{}=no-such-word", setting.name);
            let store = (setting.name != "store").then_some("--store=cassandra");
            let arguments = ["t", &flag].into_iter().chain(store);
            let read = Config::load(&command.clone().get_matches_from(arguments));
            let error = read.expect_err("refused").to_string();
            let (_, words) = error.rsplit_once("must be one of ").expect(&error);
            let words: BTreeSet<&str> = words.split(", ").collect();
            assert_eq!(words, choices(setting).iter().copied().collect(), "{}", setting.name);
            count += 1;
        }
        assert!(count >= 6, "{count}");
    }
}
