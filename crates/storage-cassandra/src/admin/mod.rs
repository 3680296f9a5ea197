//! What operators ask for: how a selection is carried out, and jobs on the tag index.

pub(crate) mod drop;
pub(crate) mod explain;
pub(crate) mod job;
pub(crate) mod jobs;
pub(crate) mod status;
