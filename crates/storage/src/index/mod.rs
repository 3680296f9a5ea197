//! Label indexes: which series have which label, and the evaluation of matchers over them.
//!
//! A series is a dense `u32` within its index. An index in memory (the head) and one in a
//! file (a part) implement [`LabelIndex`]; [`evaluate`](fn@evaluate) is the only code that
//! turns matchers into sets of series.

#[cfg(test)]
mod cases;
mod evaluate;
mod lists;
mod memory;
mod names;
mod postings;

pub use evaluate::{LabelIndex, ValueJudge, evaluate};
pub use lists::{ListId, Lists};
pub use memory::{Labelled, MemoryIndex};
pub use names::{growth, table_bytes};
pub use postings::Among;
