//! File names of the embedded store, and its time partitions.
//!
//! A partition is a day, or all of time ([`WIDE`]) for parts with few points each of many days.
//!
//! ```text
//! MANIFEST                        what exists
//! metadata-0000000012             metadata of metric families
//! 2026-11-21.0000000012.part      points of one day (UTC), and their index
//! many-days.0000000012.part       points of any days
//! *.tmp                           being written; not listed, so it does not exist
//! ```

use promkairos_model::limits::PARTITION_MS;

/// Name of the manifest.
pub(super) const MANIFEST: &str = "MANIFEST";

/// The partition of parts that have points of many days. No day begins at this time.
pub(super) const WIDE: i64 = 1;

/// First millisecond of the day that `timestamp` belongs to.
pub(super) fn partition_of(timestamp: i64) -> i64 {
    timestamp.div_euclid(PARTITION_MS).saturating_mul(PARTITION_MS)
}

/// Last millisecond of a day.
pub(super) fn partition_end(partition: i64) -> i64 {
    partition.saturating_add(PARTITION_MS - 1)
}

/// The name of a day.
pub(super) fn day(partition: i64) -> String {
    let (year, month, day) = date(partition.div_euclid(PARTITION_MS));
    format!("{year:04}-{month:02}-{day:02}")
}

/// Name of a part file.
pub(super) fn part(partition: i64, id: u64) -> String {
    match partition {
        WIDE => format!("many-days.{id:010}.part"),
        day_start => format!("{}.{id:010}.part", day(day_start)),
    }
}

/// Name of a metadata file.
pub(super) fn metadata(id: u64) -> String {
    format!("metadata-{id:010}")
}

/// Name that a file has while it is written.
pub(super) fn temporary(name: &str) -> String {
    format!("{name}.tmp")
}

/// Whether the store owns a file of this name; other files are not touched.
pub(super) fn is_ours(name: &str) -> bool {
    name.ends_with(".part") || name.starts_with("metadata-") || name.ends_with(".tmp")
}

/// Year, month and day of a day counted from 1970-01-01, in the Gregorian calendar.
fn date(day: i64) -> (i64, i64, i64) {
    // Counted in eras of 400 years from 0000-03-01, so that a leap day comes last in its year.
    let day = day.saturating_add(719_468);
    let (era, day) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + carry, month, of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_named_after_its_day() {
        let check = |timestamp, want: &str| assert_eq!(part(partition_of(timestamp), 12), want);
        check(0, "1970-01-01.0000000012.part");
        check(-1, "1969-12-31.0000000012.part");
        check(951_782_400_000, "2000-02-29.0000000012.part");
        check(951_868_800_000, "2000-03-01.0000000012.part");
        check(1_795_219_199_999, "2026-11-20.0000000012.part");
        check(-62_135_596_800_000, "0001-01-01.0000000012.part");
        check(253_402_300_799_999, "9999-12-31.0000000012.part");
        assert_eq!(part(WIDE, 12), "many-days.0000000012.part");
    }

    #[test]
    fn every_millisecond_lies_in_its_partition() {
        for timestamp in [0, -1, 1, PARTITION_MS, PARTITION_MS - 1, -PARTITION_MS] {
            let start = partition_of(timestamp);
            assert!(start <= timestamp && timestamp <= partition_end(start));
            assert_eq!(start % PARTITION_MS, 0);
            assert_ne!(start, WIDE);
        }
    }
}
