//! Which parts of the language are switched on.

use super::names::Names;

/// Which parts of the language are switched on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Features {
    /// What Prometheus has without any flag.
    Stable,
    /// Also experimental functions and aggregators, and `fill`.
    Experimental,
}

/// How queries are parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Syntax {
    /// The enabled parts of the language.
    pub features: Features,
    /// Which names need no quotes.
    pub names: Names,
}

impl Syntax {
    /// All features and all names.
    pub const ALL: Self = Self { features: Features::Experimental, names: Names::Unicode };
}

/// Names are those that Prometheus accepts without any flag.
impl From<Features> for Syntax {
    fn from(features: Features) -> Self {
        Self { features, names: Names::Ascii }
    }
}
