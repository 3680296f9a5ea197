//! Operators between two operands: scalars, a vector and a scalar, two vectors.

mod element;
mod group;
mod join;
mod matching;
mod scalar;
mod set;

pub use element::Operation;
pub use join::Join;
pub use scalar::{ScalarSide, scalars, vector_and_scalar};
pub use set::{And, Or, Stays};
