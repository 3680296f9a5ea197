//! Fixed minimum and maximum of settings, enforced when they are read and named in the help and on the
//! reference page. Bounds that depend on other settings are checked where those settings are read.

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

/// From 1 to `most`.
pub(super) const fn number(most: usize) -> Bounds {
    Bounds { least: 1, most: most as u64, unit: Unit::Number }
}

/// A size from `least` to `most` bytes.
pub(super) const fn size(least: u64, most: usize) -> Bounds {
    Bounds { least, most: most as u64, unit: Unit::Size }
}

/// No upper bound.
pub(super) const ANY: usize = usize::MAX;

impl Bounds {
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
    use super::*;

    #[test]
    fn they_are_told_in_the_units_of_people() {
        assert_eq!(size(8, 1 << 10).told(), "at least 8 bytes, at most 1KiB");
        assert_eq!(size(16 << 20, ANY).told(), "at least 16MiB");
        assert_eq!(number(128).told(), "at most 128");
        assert_eq!(size(1500, 3 << 30).told(), "at least 1500 bytes, at most 3GiB");
    }
}
