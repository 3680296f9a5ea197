//! What a delete leaves behind in a store that marks what is deleted, and removes it later.

use std::ops::Add;

/// What a delete would leave behind, in the tables of KairosDB's schema.
///
/// It is counted from the index before anything is deleted. Tombstones and deleted index rows are upper bounds, because
/// a delete finds out only on its way whether
///
/// - a row of points that it deletes in part is empty afterwards: else its index row stays, and should;
/// - another promkairos runs: then index rows stay, but those of the legacy index;
/// - KairosDB wrote an index row too: then that row stays. Where it wrote rows of a large window that would go with one
///   range tombstone, up to 10,000 rows get a tombstone each instead, beyond what is counted;
/// - a row stands in the index and in the legacy index: it is counted twice, and deleted once;
/// - other series have rows in the window: then its row of the time index stays.
///
/// Costs can be added up. A series that several selectors select counts several times then.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeleteCost {
    /// Windows with rows of the series. A window is a metric in one row time (three weeks by default) under one
    /// table name.
    pub windows: u64,
    /// Index rows that are deleted, at most.
    pub index_rows_deleted: u64,
    /// Index rows that stay, at least, whether they lead to points afterwards or not: those of windows that did not
    /// end a day ago, and those beyond what one delete takes of a window. Queries go on reading them.
    pub index_rows_left: u64,
    /// Tombstones that the delete leaves, at most.
    pub tombstones: Tombstones,
}

/// Tombstones by the table that they are in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tombstones {
    /// Rows of points, each with one tombstone: of the whole partition, or of a range of it.
    pub data_points: u64,
    /// One for each index row, or one range tombstone for all rows of a large window.
    pub row_keys: u64,
    /// One for each window whose last index row goes.
    pub row_key_time_index: u64,
    /// One for each row of the legacy index.
    pub row_key_index: u64,
    /// One for each row of the tag index, or one for each partition of it where all rows of a large window go.
    pub tag_indexed_row_keys: u64,
}

impl DeleteCost {
    /// The cost where a delete takes the points alone and lets all index rows stay.
    pub fn of_points_alone(self) -> Self {
        let data_points = self.tombstones.data_points;
        Self {
            index_rows_deleted: 0,
            index_rows_left: self.index_rows_left + self.index_rows_deleted,
            tombstones: Tombstones { data_points, ..Tombstones::default() },
            ..self
        }
    }
}

impl Add for DeleteCost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            windows: self.windows + other.windows,
            index_rows_deleted: self.index_rows_deleted + other.index_rows_deleted,
            index_rows_left: self.index_rows_left + other.index_rows_left,
            tombstones: self.tombstones + other.tombstones,
        }
    }
}

impl Add for Tombstones {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            data_points: self.data_points + other.data_points,
            row_keys: self.row_keys + other.row_keys,
            row_key_time_index: self.row_key_time_index + other.row_key_time_index,
            row_key_index: self.row_key_index + other.row_key_index,
            tag_indexed_row_keys: self.tag_indexed_row_keys + other.tag_indexed_row_keys,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_alone_leave_no_tombstones_in_an_index() {
        let tombstones = Tombstones {
            data_points: 5,
            row_keys: 3,
            row_key_time_index: 1,
            row_key_index: 2,
            tag_indexed_row_keys: 6,
        };
        let (windows, index_rows_deleted, index_rows_left) = (2, 3, 2);
        let cost = DeleteCost { windows, index_rows_deleted, index_rows_left, tombstones };
        let alone = cost.of_points_alone();
        let tombstones = Tombstones { data_points: 5, ..Tombstones::default() };
        let (index_rows_deleted, index_rows_left) = (0, 5);
        assert_eq!(alone, DeleteCost { windows, index_rows_deleted, index_rows_left, tombstones });
        let both = cost + alone;
        assert_eq!((both.windows, both.index_rows_deleted, both.index_rows_left), (4, 3, 7));
        assert_eq!(both.tombstones, Tombstones { data_points: 10, ..cost.tombstones });
    }
}
