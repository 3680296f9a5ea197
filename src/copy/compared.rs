//! The result of a comparison.
//!
//! Invariant: it counts what was compared so far, each series of a day once, so that a comparison can resume from it.

use serde::{Deserialize, Serialize};

use crate::model::Metadata;

/// Most differences that are listed.
const LISTED: usize = 100;

/// The result of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compared {
    /// Points of the source.
    pub points: u64,
    /// Points of the target.
    pub target_points: u64,
    /// Checksum of the source's points, as hexadecimal digits; equals the target's if there are
    /// no differences.
    pub checksum: String,
    /// Checksum of the target's points.
    pub target_checksum: String,
    /// Exemplars of the source.
    pub exemplars: u64,
    /// Families of metadata of the source.
    pub metadata: u64,
    /// Families that the target describes otherwise. Not a difference: the target keeps its metadata.
    pub metadata_otherwise: u64,
    /// The first of these families.
    pub first_otherwise: Option<String>,
    /// Series and days, families of metadata included, that are not the same.
    pub differences: u64,
    /// Differences where the target has all that the source has, and more.
    pub differences_of_more: u64,
    /// Points, exemplars and families of the source that the target has not.
    pub missing: u64,
    /// Points, exemplars and families that both have, with other values.
    pub different: u64,
    /// Points, exemplars and families that only the target has.
    pub too_many: u64,
    /// The first differences. If there are too many, those where the target lacks something come first.
    pub listed: Vec<Difference>,
}

/// A difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The series, or the family.
    pub of: String,
    /// First millisecond of the day; none for metadata.
    pub day: Option<i64>,
    /// What differs.
    pub what: What,
    /// In the source and not in the target.
    pub missing: u64,
    /// In both, with other values.
    pub different: u64,
    /// In the target and not in the source.
    pub too_many: u64,
}

/// The kind of data that differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// Points.
    Points,
    /// Exemplars.
    Exemplars,
    /// Metadata.
    Metadata,
}

impl Difference {
    /// Whether the target has all that the source has, and more.
    fn is_of_more(&self) -> bool {
        self.missing == 0 && self.different == 0
    }
}

impl Compared {
    pub(super) fn note(&mut self, difference: Difference) {
        self.missing = self.missing.saturating_add(difference.missing);
        self.different = self.different.saturating_add(difference.different);
        self.too_many = self.too_many.saturating_add(difference.too_many);
        self.differences = self.differences.saturating_add(1);
        self.differences_of_more =
            self.differences_of_more.saturating_add(difference.is_of_more().into());
        if self.listed.len() >= LISTED {
            if difference.is_of_more() {
                return;
            }
            // A difference of the lesser kind gives way.
            match self.listed.iter().rposition(Difference::is_of_more) {
                Some(at) => self.listed.remove(at),
                None => return,
            };
        }
        self.listed.push(difference);
    }
}

/// A family, the source's metadata, and the target's, if it knows the family.
pub(super) type BothMetadata = (String, Metadata, Option<Metadata>);

impl Compared {
    pub(super) fn compare_metadata(&mut self, both: Vec<BothMetadata>) {
        for (family, said, known) in both {
            self.metadata += 1;
            match known {
                None => {
                    let (day, what) = (None, What::Metadata);
                    let (missing, different, too_many) = (1, 0, 0);
                    self.note(Difference { of: family, day, what, missing, different, too_many });
                }
                Some(known) if known != said => {
                    self.metadata_otherwise += 1;
                    self.first_otherwise.get_or_insert(family);
                }
                Some(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_listed_rather_than_what_is_too_many() {
        let difference = |of: usize, missing, too_many| {
            let (of, day, what) = (of.to_string(), Some(0), What::Points);
            Difference { of, day, what, missing, different: 0, too_many }
        };
        let mut compared = Compared::default();
        compared.note(difference(0, 1, 1));
        (1..=LISTED).for_each(|of| compared.note(difference(of, 0, 1)));
        compared.note(difference(500, 1, 0));
        assert_eq!((compared.differences, compared.differences_of_more), (102, 100));
        let listed: Vec<&str> = compared.listed.iter().map(|one| one.of.as_str()).collect();
        assert_eq!((listed.len(), listed[0], listed[98], listed[99]), (LISTED, "0", "98", "500"));
        (0..LISTED).for_each(|of| compared.note(difference(1_000 + of, 1, 0)));
        assert!(compared.listed.iter().all(|one| one.missing == 1));
        assert_eq!(compared.listed.len(), LISTED);
    }
}
