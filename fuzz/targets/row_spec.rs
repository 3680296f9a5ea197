//! The row spec in the table `spec`: any two texts are refused, or divide time so that every timestamp is
//! found again where it was put. The input is a timestamp in eight bytes, then both texts, a line each.
use promkairos::kairos::RowSpec;
use promkairos::model::TimeRange;

pub(crate) fn check(data: &[u8]) {
    let Some((timestamp, texts)) = data.split_first_chunk() else { return };
    let timestamp = i64::from_be_bytes(*timestamp);
    let Ok(texts) = std::str::from_utf8(texts) else { return };
    let (unit, width) = texts.split_once('\n').unwrap_or((texts, ""));
    let Ok(spec) = RowSpec::parse(unit, width) else { return };
    assert_eq!(spec.unit().as_str(), unit);
    assert_eq!(Ok(spec.width()), width.parse());
    assert!(spec.width() >= 1 && spec.index_ttl_seconds() >= 0);
    // The row before would begin before the earliest time.
    if timestamp < i64::MIN + spec.width() {
        return;
    }
    let (row, offset) = spec.split(timestamp);
    let kept = spec.timestamp(row, offset);
    // With seconds the fraction is lost.
    assert!((0..1000).contains(&(timestamp - kept)), "{timestamp} is kept as {kept}");
    let within = TimeRange::new(kept, kept);
    let bounds = spec.row_time_bounds(within).expect("a range that is not empty");
    assert!((bounds.first..=bounds.last).contains(&row));
    let columns = spec.columns(row, within).expect("the row has the timestamp");
    assert!((columns.start..columns.end).contains(&offset.to_bytes()));
    assert!(spec.columns(row, TimeRange::new(kept, kept - 1)).is_none());
    if timestamp >= 0 {
        let mut rows = spec.row_times_since_1970(TimeRange::new(timestamp, timestamp));
        assert_eq!((rows.next(), rows.next()), (Some(row), None));
    }
}
