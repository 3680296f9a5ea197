//! Rows of metadata of the KairosDB schema, which keep their meaning when encoded again, and columns of exemplars.
use promkairos::kairos::index::MetadataRow;
use promkairos::kairos::{TimeUnit, cell};

pub(crate) fn check(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(row) = MetadataRow::decode("family", text)
    {
        let again = MetadataRow::decode("family", &row.value()).expect("what was written");
        assert_eq!(again.metadata, row.metadata);
    }
    let _ = cell::decode_exemplar_column(data, TimeUnit::Milliseconds);
}
