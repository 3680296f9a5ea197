//! Fixed minimum and maximum of settings, enforced when they are read and named in the help and on the
//! reference page. Bounds that depend on other settings are checked where those settings are read.

use crate::model::ShownSize;

/// The bounds of a setting.
#[derive(Debug, Clone, Copy)]
pub(super) enum Bounds {
    /// A number from 1 to this one.
    Number(u64),
    /// A size from the first to the second number of bytes.
    Size(u64, u64),
}

/// From 1 to `most`.
pub(super) const fn number(most: usize) -> Bounds {
    Bounds::Number(most as u64)
}

/// A size from `least` to `most` bytes.
pub(super) const fn size(least: u64, most: usize) -> Bounds {
    Bounds::Size(least, most as u64)
}

/// No upper bound.
pub(super) const ANY: usize = usize::MAX;

impl Bounds {
    /// Refuses a value outside the bounds; the error names them.
    pub(super) fn check(self, value: u64) -> Result<(), String> {
        let (Self::Number(most) | Self::Size(_, most)) = self;
        let least = if let Self::Size(least, _) = self { least } else { 1 };
        match (least..=most).contains(&value) {
            true => Ok(()),
            false => Err(format!("must be {}", self.told())),
        }
    }

    /// The bounds in words, such as `at least 8 bytes, at most 1KiB`.
    pub(super) fn told(self) -> String {
        const OPEN: u64 = ANY as u64;
        match self {
            Self::Number(most) => format!("at most {most}"),
            Self::Size(least, OPEN) => format!("at least {}", ShownSize::of(least)),
            Self::Size(least, most) => {
                format!("at least {}, at most {}", ShownSize::of(least), ShownSize::of(most))
            }
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
