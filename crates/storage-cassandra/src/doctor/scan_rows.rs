//! The rows of the scans, each with the token of its partition as last column, and their texts. No I/O.

use std::collections::BTreeMap;

use scylla::value::CqlTimestamp;

use crate::cut::Cut;
use crate::doctor::check::Doctor;
use crate::doctor::scan::ScanRow;
use crate::doctor::settings::Depth;
use crate::doctor::shown::Shown;
use crate::identity::Identity;
use promkairos_kairos::RowKey;
use promkairos_model::{Printable, ShownMetric, ShownTime};

/// Key, token.
pub(super) type DataScanRow = (Vec<u8>, i64);
/// Metric, table name, row time, token.
pub(super) type TimeScanRow = (String, String, CqlTimestamp, i64);
/// Metric, table name, row time, data type, tags, `mtime` in milliseconds, value, TTL, write time, token;
/// data type and tags are null in a partition without rows.
pub(super) type RowKeyScanRow = (
    String,
    String,
    CqlTimestamp,
    Option<String>,
    Option<BTreeMap<String, String>>,
    Option<i64>,
    Option<String>,
    Option<i32>,
    Option<i64>,
    i64,
);
/// Metric, table name, row time, pair, hash, data type, tags, `mtime` in milliseconds, token.
pub(super) type TagScanRow = (
    String,
    String,
    CqlTimestamp,
    String,
    Option<i32>,
    Option<String>,
    Option<BTreeMap<String, String>>,
    Option<i64>,
    i64,
);
/// Metric as bytes, row key, token.
pub(super) type LegacyScanRow = (Vec<u8>, Vec<u8>, i64);

impl ScanRow for DataScanRow {
    fn position(&self) -> (i64, Identity) {
        (self.1, Identity::of(&[]))
    }

    fn partition(&self) -> (&str, String) {
        let shown = match RowKey::decode(&self.0) {
            Ok(key) => Shown(&key).to_string(),
            Err(_) => Cut(&self.0.escape_ascii().to_string()).to_string(),
        };
        ("", shown)
    }

    fn is_read_later(doctor: &Doctor) -> bool {
        doctor.settings.depth == Depth::Cells
    }
}

impl ScanRow for TimeScanRow {
    fn position(&self) -> (i64, Identity) {
        (self.3, Identity::of(&[self.1.as_bytes()]).with(self.2.0))
    }

    fn partition(&self) -> (&str, String) {
        (&self.0, Cut(&ShownMetric(&self.0).to_string()).to_string())
    }
}

impl ScanRow for RowKeyScanRow {
    fn position(&self) -> (i64, Identity) {
        (self.9, identity_of(self.3.as_ref(), self.4.as_ref()))
    }

    fn partition(&self) -> (&str, String) {
        (&self.0, shown_window(&self.0, &self.1, self.2))
    }
}

impl ScanRow for TagScanRow {
    fn position(&self) -> (i64, Identity) {
        let row = identity_of(self.5.as_ref(), self.6.as_ref());
        (self.8, row.with(self.4.map_or(i64::MIN, i64::from)))
    }

    fn partition(&self) -> (&str, String) {
        let (window, pair) =
            (shown_window(&self.0, &self.1, self.2), Printable(&self.3).to_string());
        (&self.0, format!("{window}, {}", Cut(&pair)))
    }
}

impl ScanRow for LegacyScanRow {
    fn position(&self) -> (i64, Identity) {
        (self.2, Identity::of(&[&self.1]))
    }

    fn partition(&self) -> (&str, String) {
        ("", Cut(&self.0.escape_ascii().to_string()).to_string())
    }
}

/// The identity of a row with this type and these tags.
fn identity_of(data_type: Option<&String>, tags: Option<&BTreeMap<String, String>>) -> Identity {
    let mut parts = vec![data_type.map_or(&[][..], |name| name.as_bytes())];
    for (name, value) in tags.into_iter().flatten() {
        parts.extend([name.as_bytes(), value.as_bytes()]);
    }
    Identity::of(&parts)
}

/// A partition of `row_keys` as text for people.
pub(super) fn shown_window(metric: &str, table: &str, time: CqlTimestamp) -> String {
    let (metric, table) = (ShownMetric(metric).to_string(), Printable(table));
    format!("{}, {table}, {}", Cut(&metric), ShownTime(time.0))
}
