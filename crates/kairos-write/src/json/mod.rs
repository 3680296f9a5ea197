//! JSON as gson 2.2.4 reads it, over a slice.
//!
//! The tokens, the places of errors and the texts are those of gson, since KairosDB's answers have them. Nesting is
//! limited to [`MAX_DEPTH`]; memory is used only for texts with escapes. It knows nothing of metrics.

mod element;
mod fault;
mod reader;
mod text;
mod typed;

pub(crate) use element::{Cause, Element, Leaf};
pub(crate) use fault::{Fault, Kind};
pub use reader::MAX_DEPTH;
pub(crate) use reader::{Leniency, Reader, Token};
