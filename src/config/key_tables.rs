//! The keys of all tables within settings, for the reference page.

use super::keys::KeyTable;
use super::{clusters, global, tag_index, ttl_by_metric, web};

/// All tables, in the order of the reference page.
pub fn key_tables() -> Vec<KeyTable> {
    let mut tables = vec![clusters::read_table(), clusters::metadata_table()];
    tables.extend([tag_index::table(), ttl_by_metric::table(), global::table()]);
    tables.extend(web::tables());
    tables
}
