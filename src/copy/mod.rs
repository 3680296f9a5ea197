//! Copies the content of one store into another, and compares the two afterwards.
//!
//! A copy goes day by day (UTC), selector by selector, in pieces: runs of series, sorted by labels,
//! with their points of the day. The [`Progress`] names the last piece that the target has
//! acknowledged, as all pieces before it; a copy that resumes there writes at most the pieces in
//! flight again, which is harmless. The progress includes the plan of the days and the comparison.
//! Memory holds a few pieces, and exemplars of a part of a day if a day has too many.
//!
//! Not here: opening and locking of stores, and what a server accepts or deletes while a copy runs.

pub mod answers;
mod batch;
mod compare;
mod compared;
mod comparison;
mod days;
mod digest;
mod endpoint;
mod error;
mod exemplars;
mod job;
pub mod left_out;
mod outside;
mod plan;
mod position;
mod progress;
mod remote;
mod runs;
pub mod state;
mod transfer;

pub use compared::{Compared, Difference, What};
pub use endpoint::{Endpoint, Starts, StoreEndpoint};
pub use error::CopyError;
pub use job::{Job, Selector};
pub use left_out::LeftOut;
pub use progress::{Progress, Stage, Totals};
pub use remote::{Remote, distrusted, is_distrust, read_answer};
pub use state::{JobText, StateFile};
pub use transfer::Copier;
