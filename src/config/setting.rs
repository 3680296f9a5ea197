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
