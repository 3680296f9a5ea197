//! Which parts of the language are switched on.

/// Which parts of the language are switched on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Features {
    /// What Prometheus has without any flag.
    Stable,
    /// Also experimental functions and aggregators, `anchored`, `smoothed` and `fill`.
    Experimental,
}
