//! Rows of the index tables of the KairosDB schema: what decodes encodes to the same meaning.
use promkairos::kairos::index::{LegacyIndexRow, MetadataRow, StringIndexRow};
use promkairos::kairos::{TableName, TimeUnit, cell};

pub(crate) fn check(data: &[u8]) {
    for table_name in TableName::ALL {
        if let Ok(row) = StringIndexRow::decode(StringIndexRow::key(table_name), data) {
            let row = row.expect("a list of names");
            assert_eq!((row.table_name, row.metric.as_bytes()), (table_name, data));
        }
    }
    if let Ok(row) = LegacyIndexRow::decode(data) {
        let (key, column1) = row.encode().expect("it was a row");
        assert_eq!((key, &column1[..]), (row.row_key.metric.as_bytes().to_vec(), data));
    }
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(row) = MetadataRow::decode("family", text)
    {
        let again = MetadataRow::decode("family", &row.value()).expect("what was written");
        assert_eq!(again.metadata, row.metadata);
    }
    let _ = cell::decode_exemplar_column(data, TimeUnit::Milliseconds);
}
