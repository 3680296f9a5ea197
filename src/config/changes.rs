//! The differences between two readings of the settings. Which of them apply without a restart is in the table of
//! settings.

use super::cassandra::CassandraConfig;
use super::cassandra::tls::FILES;
use super::root::Config;
use super::settings::SETTINGS;

/// A setting whose file may change while the setting's own text stays the same.
const PASSWORD_FILE: &str = "cassandra-password-file";

/// The names of the settings whose text differs, in the order of the help. Settings that name files
/// with passwords or certificates of any cluster differ if the content of the file does.
pub fn changed(one: &Config, other: &Config) -> Vec<&'static str> {
    let names = SETTINGS.iter().map(|setting| setting.name);
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
    use super::super::settings::is_live;
    use super::super::testing;
    use super::*;

    fn load(settings: &[&str]) -> Config {
        testing::load(settings).expect("valid")
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
