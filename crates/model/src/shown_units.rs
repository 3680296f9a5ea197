//! Formats sizes and durations for people, in the units of settings.
//!
//! Whole numbers are exact (durations to the millisecond); only a size with a decimal point is
//! rounded. Timestamps are formatted in `time`; settings are parsed in `config`.

use std::fmt;
use std::time::Duration;

/// A number of bytes: `256MiB`, as in settings, or `237.4MiB`; small sizes exactly, such as `17000 bytes`.
#[derive(Debug, Clone, Copy)]
pub struct ShownSize(u64);

/// A smaller size that is not a whole number of units is printed in bytes.
const ROUNDED_FROM: u64 = 100 << 10;

impl ShownSize {
    /// A size from a number of bytes of any integer type.
    pub fn of(bytes: impl TryInto<u64>) -> Self {
        Self(bytes.try_into().unwrap_or(u64::MAX))
    }
}

impl fmt::Display for ShownSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] =
            [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        let bytes = self.0;
        match UNITS.iter().find(|(unit, _)| bytes >= *unit) {
            Some((unit, name)) if bytes.is_multiple_of(*unit) => {
                write!(f, "{}{name}", bytes / unit)
            }
            Some((unit, name)) if bytes >= ROUNDED_FROM => {
                let tenths = (u128::from(bytes) * 10 + u128::from(unit / 2)) / u128::from(*unit);
                write!(f, "{}.{}{name}", tenths / 10, tenths % 10)
            }
            _ => write!(f, "{bytes} bytes"),
        }
    }
}

/// A duration as in settings: a number of the largest unit that fits exactly.
pub(super) struct ShownDuration(pub(super) Duration);

impl fmt::Display for ShownDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u128, &str); 4] =
            [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
        let whole = self.0.as_millis();
        let fits = UNITS.iter().find(|(unit, _)| whole > 0 && whole.is_multiple_of(*unit));
        let (unit, name) = fits.copied().unwrap_or((1, "ms"));
        write!(f, "{}{name}", whole / unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_units_are_exact_large_sizes_rounded_and_small_ones_in_bytes() {
        for (bytes, want) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1024, "1KiB"),
            (17_000, "17000 bytes"),
            (100_000, "100000 bytes"),
            (1_000_000, "976.6KiB"),
            (1 << 20, "1MiB"),
            (3 << 19, "1.5MiB"),
            (248_979_456, "237.4MiB"),
            (268_435_456, "256MiB"),
            (1 << 40, "1TiB"),
            (1000 << 40, "1000TiB"),
            (u64::MAX, "16777216.0TiB"),
        ] {
            assert_eq!(ShownSize(bytes).to_string(), want, "{bytes}");
        }
        assert_eq!(ShownSize::of(-1_i64).to_string(), ShownSize(u64::MAX).to_string());
    }

    #[test]
    fn durations_are_shown_in_the_largest_unit_that_fits() {
        for (millis, want) in [
            (0, "0ms"),
            (1, "1ms"),
            (1_500, "1500ms"),
            (90_000, "90s"),
            (5_400_000, "90m"),
            (365 * 86_400_000, "365d"),
        ] {
            assert_eq!(ShownDuration(Duration::from_millis(millis)).to_string(), want);
        }
    }
}
