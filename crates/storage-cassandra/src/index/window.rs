//! A window: the series of one metric in one row time under one table name. It is a partition of
//! `row_keys`, and the key under which readers, writers and the tag index remember things.

use scylla::value::{CqlTimestamp, CqlValue};

use crate::identity::Identity;
use promkairos_kairos::index::RowKeyRow;
use promkairos_kairos::{RowKey, RowTime, TableName};

/// A window, borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WindowKey<'a> {
    pub(crate) metric: &'a str,
    pub(crate) table_name: TableName,
    pub(crate) row_time: RowTime,
}

impl<'a> From<&'a RowKey> for WindowKey<'a> {
    fn from(key: &'a RowKey) -> Self {
        let RowKey { metric, row_time, data_type, .. } = key;
        Self { metric, table_name: data_type.table_name(), row_time: *row_time }
    }
}

impl<'a> From<&'a RowKeyRow> for WindowKey<'a> {
    fn from(row: &'a RowKeyRow) -> Self {
        Self { table_name: row.table_name, ..Self::from(&row.key) }
    }
}

impl<'a> WindowKey<'a> {
    /// The identity under which the window is remembered.
    pub(crate) fn identity(&self) -> Identity {
        Identity::of(&[self.metric.as_bytes(), self.table_name.as_str().as_bytes()])
            .with(self.row_time.millis())
    }

    /// Whether both have the same table name and row time.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        (self.table_name, self.row_time) == (other.table_name, other.row_time)
    }

    /// The window of another metric with the same table name and row time.
    pub(crate) fn with_metric(self, metric: &str) -> WindowKey<'_> {
        WindowKey { metric, ..self }
    }

    pub(crate) fn to_window(self) -> Window {
        let Self { metric, table_name, row_time } = self;
        Window { metric: metric.into(), table_name, row_time }
    }

    /// The values of the partition key, as statements take them.
    pub(crate) fn values(&self) -> (&'a str, &'static str, CqlTimestamp) {
        (self.metric, self.table_name.as_str(), CqlTimestamp(self.row_time.millis()))
    }

    /// The values of the partition key, as a list.
    pub(crate) fn columns(&self) -> Vec<CqlValue> {
        let (metric, table_name, row_time) = self.values();
        let text = |text: &str| CqlValue::Text(text.to_owned());
        vec![text(metric), text(table_name), CqlValue::Timestamp(row_time)]
    }

    /// The values of the key of the tag index partition for a pair of tag and value.
    pub(crate) fn pair_columns(&self, pair: &str) -> Vec<CqlValue> {
        let mut columns = self.columns();
        columns.push(CqlValue::Text(pair.to_owned()));
        columns
    }
}

/// A window, owned. The order is that of KairosDB's index: by metric, table name, row time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Window {
    pub(crate) metric: Box<str>,
    pub(crate) table_name: TableName,
    pub(crate) row_time: RowTime,
}

impl Window {
    /// A window from the three columns of an index row; None for a table name that KairosDB does not have.
    pub(crate) fn of_columns((metric, table, time): (&str, &str, CqlTimestamp)) -> Option<Self> {
        let table_name = TableName::parse(table)?;
        Some(Self { metric: metric.into(), table_name, row_time: RowTime::from_stored(time.0) })
    }

    pub(crate) fn key(&self) -> WindowKey<'_> {
        let Self { metric, table_name, row_time } = self;
        WindowKey { metric, table_name: *table_name, row_time: *row_time }
    }
}
