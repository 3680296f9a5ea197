//! Row keys, cells and columns of the KairosDB schema: what decodes encodes to the same bytes.
use promkairos::kairos::{Cell, DataType, Offset, RowKey, TimeUnit};

pub(crate) fn check(data: &[u8]) {
    if let Ok(key) = RowKey::decode(data) {
        assert_eq!(key.encode().expect("it was a key"), data);
    }
    let [selector, column @ .., _] = data else { return };
    let units = [TimeUnit::Milliseconds, TimeUnit::Seconds, TimeUnit::Legacy];
    let unit = units[usize::from(selector % 3)];
    let types = [
        "kairos_legacy",
        "kairos_long",
        "kairos_double",
        "kairos_string",
        "prom_double",
        "prom_histogram",
        "prom_exemplar",
        "other",
    ];
    let data_type = DataType::parse(types[usize::from(selector / 3) % types.len()]);
    if let Some((offset, value)) = column.split_at_checked(4)
        && let Ok(offset) = Offset::from_bytes(offset, unit)
        && let Ok(Cell::Histogram { histogram, .. }) = Cell::decode(&data_type, offset, value)
    {
        histogram.validate().expect("a decoded histogram is valid");
    }
}
