//! Operators between two operands: scalars, a vector and a scalar, two vectors.

mod element;
mod group;
mod join;
mod matching;
mod scalar;
mod set;

pub(crate) use element::Operation;
pub(crate) use join::Join;
pub(crate) use scalar::{ScalarSide, scalars, vector_and_scalar};
pub(crate) use set::{And, Or};
