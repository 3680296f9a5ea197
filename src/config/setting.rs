//! The definition of a setting: its name, its default and its help.

/// One setting.
pub struct Setting {
    /// Its name as a flag, without the dashes.
    pub name: &'static str,
    /// The form of the value, for the help.
    pub value: &'static str,
    /// The default value; `None` = not set, or derived from other settings.
    pub default: Option<&'static str>,
    /// One sentence.
    pub help: &'static str,
}

/// A row of the table of settings.
pub(super) const fn setting(
    name: &'static str,
    value: &'static str,
    default: Option<&'static str>,
    help: &'static str,
) -> Setting {
    Setting { name, value, default, help }
}

#[cfg(test)]
mod tests {
    use super::super::SETTINGS;
    use crate::telemetry::{HEAD_SIZE, Metrics, RATE};

    #[test]
    fn limits_that_are_counted_are_settings() {
        let text = Metrics::new().encode();
        let counted: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("promkairos_limits_reached_total{limit=\""))
            .filter_map(|line| line.split('"').next())
            .filter(|name| ![HEAD_SIZE, RATE].contains(name))
            .collect();
        assert!(counted.len() > 30, "{counted:?}");
        for name in counted {
            assert!(SETTINGS.iter().any(|setting| setting.name == name), "{name}");
        }
    }
}
