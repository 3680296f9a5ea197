//! The rows of `data_points`: writes, reads, and the read cache in front of the reads. No series is
//! searched here.

pub(crate) mod cached_reader;
pub(crate) mod dead_cells;
pub(crate) mod epochs;
pub(crate) mod exemplars;
pub(crate) mod late_write_tracker;
pub(crate) mod point_store;
pub(crate) mod read_cache;
pub(crate) mod reader;
pub(crate) mod remover;
pub(crate) mod series_reader;
pub(crate) mod spacing;
pub(crate) mod statements;
pub(crate) mod writer;
