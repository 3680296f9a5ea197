//! The tombstones and index rows that a delete leaves in a store that only marks deleted data and removes it later.

use std::ops::Add;

/// What a delete would leave behind, in the tables of KairosDB's schema.
///
/// It is counted from the index before anything is deleted. Tombstones and deleted index rows are upper bounds,
/// because only the delete itself finds out whether
///
/// - a row of points has points left after a partial delete: then its index row stays, as it should;
/// - another promkairos runs: then index rows stay, except those of the legacy index;
/// - KairosDB wrote an index row too: then this row stays. If it is in a large window that one range tombstone would
///   delete, up to 10,000 rows get a tombstone each instead, which are not counted;
/// - a row is in the index and in the legacy index: it is counted twice, and deleted once;
/// - other series have rows in the window: then its row of the time index stays.
///
/// Costs can be added. A series that several selectors select is then counted several times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeleteCost {
    /// Windows with rows of the series. A window is a metric in one row time (three weeks by default) under one
    /// table name.
    pub windows: u64,
    /// Upper bound of the index rows that are deleted.
    pub index_rows_deleted: u64,
    /// Lower bound of the index rows that stay, whether they lead to points afterwards or not: rows of windows that did
    /// not end a day ago, and rows beyond the number that one delete takes from a window. Queries still read them.
    pub index_rows_left: u64,
    /// Upper bounds of the tombstones that the delete leaves.
    pub tombstones: Tombstones,
}

/// Tombstones by table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tombstones {
    /// Rows of points, with one tombstone each for the whole partition or for a range of it.
    pub data_points: u64,
    /// One for each index row, or one range tombstone for all rows of a large window.
    pub row_keys: u64,
    /// One for each window whose last index row is deleted.
    pub row_key_time_index: u64,
    /// One for each row of the legacy index.
    pub row_key_index: u64,
    /// One for each row of the tag index, or one for each of its partitions if all rows of a large window are deleted.
    pub tag_indexed_row_keys: u64,
}

impl DeleteCost {
    /// The cost of a delete that removes only points and keeps all index rows.
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
