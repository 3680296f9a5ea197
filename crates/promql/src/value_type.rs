//! What an expression gives: a scalar, an instant vector, a range vector or a string.

use super::named_enum::named_enum;

named_enum! {
    /// The type of a value. Its name is the short one; errors use [`ValueType::documented`].
    pub enum ValueType {
        /// One number.
        Scalar = "scalar",
        /// Series with one point each, all at one time.
        Vector = "vector",
        /// Series with points over a window.
        Matrix = "matrix",
        /// A string.
        String = "string",
    }
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
