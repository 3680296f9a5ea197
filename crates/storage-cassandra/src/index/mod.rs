//! The series index: which series a window has, by memory, by the tag index, by `row_keys` and by the legacy index,
//! and the index rows that a write needs. Reads and writes no points.

pub(crate) mod cached_window;
pub(crate) mod finder;
pub(crate) mod forget;
pub(crate) mod found;
pub(crate) mod index_row;
pub(crate) mod label_answers;
pub(crate) mod labels;
pub(crate) mod legacy;
pub(crate) mod legacy_extents;
pub(crate) mod memory;
pub(crate) mod mtime;
pub(crate) mod pages;
pub(crate) mod prewrite;
pub(crate) mod prewrite_schedule;
pub(crate) mod routing;
pub(crate) mod series_cache;
pub(crate) mod series_index;
pub(crate) mod split_point;
pub(crate) mod standing;
pub(crate) mod statements;
pub(crate) mod tag_index;
pub(crate) mod tombstones;
pub(crate) mod window;
pub(crate) mod window_reader;
pub(crate) mod writer;
