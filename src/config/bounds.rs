//! Fixed minimum and maximum of settings, enforced when they are read and named in the help and on the
//! reference page. Bounds that depend on other settings are checked where those settings are read.

use crate::limits;
use crate::model::ShownSize;

/// The bounds of a setting.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    least: u64,
    most: u64,
    unit: Unit,
}

#[derive(Debug, Clone, Copy)]
enum Unit {
    Number,
    Size,
}

const fn number(most: usize) -> Bounds {
    Bounds { least: 1, most: most as u64, unit: Unit::Number }
}

const fn size(least: u64, most: usize) -> Bounds {
    Bounds { least, most: most as u64, unit: Unit::Size }
}

/// No upper bound.
const ANY: usize = usize::MAX;

/// All settings that have fixed bounds.
const BOUNDS: [(&str, Bounds); 11] = [
    ("wal-limit", size(64 << 20, ANY)),
    ("flush-memory", size(16 << 20, ANY)),
    ("max-request-body-size", size(1 << 10, limits::MAX_BODY_BYTES)),
    ("max-decoded-body-size", size(1 << 10, limits::MAX_DECODED_BYTES)),
    ("max-series-per-request", number(limits::MAX_SERIES_PER_REQUEST)),
    ("max-samples-per-request", number(limits::MAX_SAMPLES_PER_REQUEST)),
    ("max-labels-per-series", number(limits::LABEL_LIMITS.labels)),
    ("max-label-name-size", size(8, limits::LABEL_LIMITS.name_bytes)),
    ("max-label-value-size", size(8, limits::LABEL_LIMITS.value_bytes)),
    ("max-labels-size", size(16, limits::LABEL_LIMITS.total_bytes)),
    ("query-max-depth", number(limits::MAX_QUERY_DEPTH)),
];

impl Bounds {
    /// The bounds of a setting; `None` = it has no fixed bounds.
    pub(super) fn of(name: &str) -> Option<Self> {
        BOUNDS.iter().find(|(known, _)| *known == name).map(|(_, bounds)| *bounds)
    }

    /// Refuses a value outside the bounds; the error names them.
    pub(super) fn check(self, value: u64) -> Result<(), String> {
        match (self.least..=self.most).contains(&value) {
            true => Ok(()),
            false => Err(format!("must be {}", self.told())),
        }
    }

    /// The bounds in words, such as `at least 8 bytes, at most 1KiB`.
    pub(super) fn told(self) -> String {
        let is_open = self.most == ANY as u64;
        let least = format!("at least {}", self.unit.shown(self.least));
        let most = format!("at most {}", self.unit.shown(self.most));
        match self.unit {
            Unit::Number => most,
            Unit::Size if is_open => least,
            Unit::Size => format!("{least}, {most}"),
        }
    }
}

impl Unit {
    fn shown(self, value: u64) -> String {
        match self {
            Self::Number => value.to_string(),
            Self::Size => ShownSize::of(value).to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{SETTINGS, parse_size};
    use super::*;

    #[test]
    fn bounds_are_of_settings_that_say_them_in_the_help() {
        for (name, bounds) in BOUNDS {
            let setting = SETTINGS.iter().find(|setting| setting.name == name).expect(name);
            let meaning = setting.meaning();
            assert!(meaning.ends_with(&format!("; {}", bounds.told())), "{name}: {meaning}");
            // The bounds allow more than the default.
            if let (Some(text), Unit::Size) = (setting.default, bounds.unit) {
                let default = parse_size(text).expect(name);
                assert!((bounds.least..=bounds.most).contains(&default), "{name}: {default}");
            }
        }
    }

    #[test]
    fn they_are_told_in_the_units_of_people() {
        assert_eq!(size(8, 1 << 10).told(), "at least 8 bytes, at most 1KiB");
        assert_eq!(size(16 << 20, ANY).told(), "at least 16MiB");
        assert_eq!(number(128).told(), "at most 128");
        assert_eq!(size(1500, 3 << 30).told(), "at least 1500 bytes, at most 3GiB");
    }
}
