//! Refuses environment variables that look like settings but are not: a misspelt setting would
//! otherwise silently keep its default.
//!
//! Kubernetes and Docker set variables for a service named promkairos; these are ignored. So are the
//! variables of this project's own scripts.

use super::arguments::nearest;
use super::error::ConfigError;
use super::setting::Setting;
use super::settings::SETTINGS;

const PREFIX: &str = "PROMKAIROS_";

/// The key of `--config`, which has a variable but is not a setting: no file has it.
const CONFIG: &str = "config";

/// Prefixes of the variables of this project's tests and scripts.
const SCRIPTS: [&str; 2] = ["PROMKAIROS_TEST_", "PROMKAIROS_PEERS"];

/// Refuses the first variable, in alphabetical order, that is not a setting.
pub(super) fn check(variables: impl Iterator<Item = (String, String)>) -> Result<(), ConfigError> {
    let unknown = variables.filter(|(name, value)| is_unknown(name, value)).min();
    match unknown {
        None => Ok(()),
        Some((name, _)) => {
            let keys = SETTINGS.iter().map(Setting::key).chain([CONFIG.to_owned()]);
            let meant = nearest(&name[PREFIX.len()..], keys);
            let similar = meant.map(|key| format!("{PREFIX}{}", key.to_ascii_uppercase()));
            Err(ConfigError::UnknownVariable { name, similar })
        }
    }
}

/// The variables of this process; what is not Unicode is converted lossily.
pub(super) fn variables() -> impl Iterator<Item = (String, String)> {
    let shown = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    std::env::vars_os().map(move |(name, value)| (shown(name), shown(value)))
}

fn is_unknown(name: &str, value: &str) -> bool {
    name.starts_with(PREFIX)
        && name != "PROMKAIROS_CONFIG"
        && !SETTINGS.iter().map(Setting::variable).any(|known| known == name)
        && !SCRIPTS.iter().any(|script| name.starts_with(script))
        && !is_of_a_service(name, value)
}

/// Whether an orchestrator sets it for a service: `P_SERVICE_HOST`, `P_SERVICE_PORT`,
/// `P_SERVICE_PORT_HTTP`, `P_PORT=tcp://...`, and `P_PORT_9201_TCP` with any suffix.
fn is_of_a_service(name: &str, value: &str) -> bool {
    let of_a_port = name.split("_PORT_").skip(1).any(|rest| {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let protocol = &rest[digits..];
        digits > 0 && ["_TCP", "_UDP", "_SCTP"].iter().any(|known| protocol.starts_with(known))
    });
    name.ends_with("_SERVICE_HOST")
        || name.ends_with("_SERVICE_PORT")
        || name.contains("_SERVICE_PORT_")
        || (name.ends_with("_PORT") && value.contains("://"))
        || of_a_port
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(variables: &[(&str, &str)]) -> Option<String> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        check(variables.iter().map(owned)).err().map(|error| error.to_string())
    }

    #[test]
    fn what_is_no_setting_is_refused() {
        let check = |name: &str, want: &str| {
            let error = refused(&[("PATH", "/bin"), (name, "x")]);
            assert_eq!(error.as_deref(), Some(want));
        };
        check(
            "PROMKAIROS_RETENTON",
            "unknown environment variable PROMKAIROS_RETENTON, did you mean PROMKAIROS_RETENTION?",
        );
        check("PROMKAIROS_ZZZ", "unknown environment variable PROMKAIROS_ZZZ");
        check(
            "PROMKAIROS_CONFIGS",
            "unknown environment variable PROMKAIROS_CONFIGS, did you mean PROMKAIROS_CONFIG?",
        );
        check("PROMKAIROS_PORT", "unknown environment variable PROMKAIROS_PORT");
        let two = refused(&[("PROMKAIROS_ZZZ", "1"), ("PROMKAIROS_QQQ", "2")]);
        assert_eq!(two.as_deref(), Some("unknown environment variable PROMKAIROS_QQQ"));
    }

    #[test]
    fn what_others_set_is_left_alone() {
        for (name, value) in [
            ("PROMKAIROS_LISTEN", "a:1"),
            ("PROMKAIROS_CONFIG", "x.toml"),
            ("PROMKAIROS_TEST_SEED", "7"),
            ("PROMKAIROS_PEERS", "peers"),
            ("PROMKAIROS_SERVICE_HOST", "10.0.0.1"),
            ("PROMKAIROS_SERVICE_PORT", "9201"),
            ("PROMKAIROS_SERVICE_PORT_HTTP", "9201"),
            ("PROMKAIROS_PORT", "tcp://10.0.0.1:9201"),
            ("PROMKAIROS_PORT_9201_TCP", "tcp://10.0.0.1:9201"),
            ("PROMKAIROS_PORT_9201_TCP_ADDR", "10.0.0.1"),
            ("PROMKAIROS_READ_PORT_80_TCP_PROTO", "tcp"),
            ("OTHER_ZZZ", "1"),
        ] {
            assert_eq!(refused(&[(name, value)]), None, "{name}");
        }
    }
}
