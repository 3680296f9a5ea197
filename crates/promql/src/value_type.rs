//! What an expression gives: a scalar, an instant vector, a range vector or a string.

use std::fmt;

/// The type of a value. `Display` is its short name; errors use [`ValueType::documented`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ValueType {
    /// One number.
    Scalar,
    /// Series with one point each, all at one time.
    Vector,
    /// Series with points over a window.
    Matrix,
    /// A string.
    String,
}

impl ValueType {
    /// Its name as the documentation of PromQL has it.
    pub const fn documented(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Vector => "instant vector",
            Self::Matrix => "range vector",
            Self::String => "string",
        }
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scalar => "scalar",
            Self::Vector => "vector",
            Self::Matrix => "matrix",
            Self::String => "string",
        })
    }
}
