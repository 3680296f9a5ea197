//! The differences between two readings of the settings, and which of them apply without a restart.

use super::cassandra::tls::FILES;
use super::{CassandraConfig, Config};

/// Settings that apply as soon as they are read again.
const LIVE: [&str; 47] = [
    "cassandra-username",
    PASSWORD_FILE,
    FILES[0],
    FILES[1],
    FILES[2],
    "cassandra-ttl-by-metric",
    "tag-indexed-row-key-lookup-metrics",
    "retention",
    "max-concurrent-requests",
    "max-request-body-size",
    "max-decoded-body-size",
    "max-series-per-request",
    "max-samples-per-request",
    "max-samples-per-second",
    "max-sample-age",
    "max-sample-lead",
    "max-active-series",
    "max-active-series-per-metric",
    "max-metadata-size",
    "series-limit-answer",
    "max-labels-per-series",
    "max-label-name-size",
    "max-label-value-size",
    "max-labels-size",
    "max-label-results",
    "max-label-results-size",
    "label-max-concurrency",
    "label-max-wait",
    "query-timeout",
    "query-max-series",
    "query-max-samples-read",
    "query-max-duration",
    "query-max-samples",
    "query-max-memory",
    "query-max-concurrency",
    "query-max-queue",
    "query-max-depth",
    "query-lookback-delta",
    "promql-experimental",
    "promql-delayed-name-removal",
    "use-start-timestamps",
    "promql-unquoted-utf8-names",
    "slow-query-log",
    "external-labels",
    "scrape-interval",
    "evaluation-interval",
    "log-level",
];

/// A setting whose file may change while the setting's own text stays the same.
const PASSWORD_FILE: &str = "cassandra-password-file";

/// Whether a setting applies as soon as it is read again, without a restart.
pub fn is_live(name: &str) -> bool {
    LIVE.contains(&name)
}

/// The names of the settings whose text differs, in the order of the help. Settings that name files
/// with passwords or certificates of any cluster differ if the content of the file does.
pub fn changed(one: &Config, other: &Config) -> Vec<&'static str> {
    let names = super::SETTINGS.iter().map(|setting| setting.name);
    let holds_other = |name: &str| match name {
        PASSWORD_FILE => differ(one, other, |cluster| cluster.credentials.clone()),
        name => {
            FILES.contains(&name)
                && differ(one, other, |cluster| cluster.tls.as_ref()?.digest(name))
        }
    };
    names.filter(|name| holds_other(name) || one.said.get(name) != other.said.get(name)).collect()
}

/// Whether a property of a cluster differs that is in both configurations. Clusters that were added
/// or removed count as a change of another setting.
fn differ<T: PartialEq>(
    one: &Config,
    other: &Config,
    what: impl Fn(&CassandraConfig) -> T,
) -> bool {
    one.clusters().any(|(cluster, known)| {
        let same = other.clusters().find(|(name, _)| *name == cluster);
        same.is_some_and(|(_, now)| what(known) != what(now))
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Config, SETTINGS, arguments};
    use super::*;

    fn load(settings: &[&str]) -> Config {
        let arguments_of = std::iter::once("promkairos").chain(settings.iter().copied());
        let command = clap::Command::new("promkairos").args(arguments());
        Config::load(&command.try_get_matches_from(arguments_of).expect("known")).expect("valid")
    }

    #[test]
    fn what_is_live_is_a_setting() {
        for name in &LIVE {
            assert!(SETTINGS.iter().any(|setting| setting.name == *name), "{name}");
        }
        assert!(!is_live("listen") && is_live("retention") && is_live("log-level"));
    }

    #[test]
    fn changes_are_by_the_text() {
        let (one, other) = (load(&["--retention=1d"]), load(&["--max-active-series=5"]));
        assert_eq!(changed(&one, &other), ["retention", "max-active-series"]);
        assert!(changed(&one, &load(&["--retention=1d"])).is_empty());
    }

    #[test]
    fn another_cluster_is_one_change() {
        let more = "--cassandra-read-clusters=[{name = \"a\", contact_points = \"h:1\"}]";
        let one = load(&["--store=cassandra"]);
        let other = load(&["--store=cassandra", more]);
        assert_eq!(changed(&one, &other), ["cassandra-read-clusters"]);
        assert_eq!(changed(&other, &one), ["cassandra-read-clusters"]);
        assert_eq!(changed(&load(&[]), &one), ["store"]);
    }

    #[test]
    fn another_password_is_a_change_though_its_file_is_the_same() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let flag = format!("--cassandra-password-file={}", file.path().display());
        let read = |password: &str| {
            std::fs::write(file.path(), password).expect("written");
            load(&["--store=cassandra", "--cassandra-username=a", &flag])
        };
        let [one, other] = ["one", "two"].map(read);
        assert_eq!(changed(&one, &other), ["cassandra-password-file"]);
        assert!(changed(&one, &read("one")).is_empty());
    }

    #[test]
    fn another_certificate_is_a_change_though_its_file_is_the_same() {
        let folder = tempfile::tempdir().expect("a folder");
        let names = ["ca", "cert", "key"];
        let flags = names
            .map(|name| format!("--cassandra-tls-{name}={}", folder.path().join(name).display()));
        let write = |name: &str, pem: &str| {
            std::fs::write(folder.path().join(name), pem).expect("written");
        };
        let [ours, other] = [(), ()].map(|()| rcgen::KeyPair::generate().expect("a key"));
        let certificate = |key: &rcgen::KeyPair| {
            rcgen::CertificateParams::default().self_signed(key).expect("signed").pem()
        };
        let read = || {
            let flags = flags.iter().map(String::as_str);
            let all: Vec<&str> =
                ["--store=cassandra", "--cassandra-tls"].into_iter().chain(flags).collect();
            load(&all)
        };
        write("ca", &certificate(&ours));
        write("cert", &certificate(&ours));
        write("key", &ours.serialize_pem());
        let mut last = read();
        let mut check = |want: &[&str]| {
            let now = read();
            assert_eq!(changed(&last, &now), want);
            assert!(want.iter().all(|name| is_live(name)));
            assert!(changed(&now, &read()).is_empty());
            last = now;
        };
        write("ca", &certificate(&other));
        check(&["cassandra-tls-ca"]);
        write("cert", &certificate(&ours));
        check(&["cassandra-tls-cert"]);
        write("cert", &certificate(&other));
        write("key", &other.serialize_pem());
        check(&["cassandra-tls-cert", "cassandra-tls-key"]);
    }
}
