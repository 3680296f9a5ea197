//! Limits the metadata that is accepted, against senders that create ever more metric families.
//!
//! The embedded store keeps all metadata in memory, rewrites it whole on a change, and never deletes any. So its
//! bytes have a limit. An entry of the same size as before is always accepted; a new family or longer texts are
//! refused if they do not fit. A store that keeps metadata in memory reports it after a start (`limiter_warmup`); the
//! total may exceed the limit. Over Cassandra only metadata accepted since the start counts.
//!
//! Metadata counts from its acceptance, even if the store then fails to store it: the sender retries. A family is
//! identified by a 64-bit hash of its name, with a random key of this process.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use parking_lot::RwLock;
use promkairos_model::limits::FAMILY_BYTES;
use promkairos_model::{Metadata, RejectReason, Rejections, ShownSize, WriteBatch};

/// The setting that limits metadata.
const SETTING: &str = "max-metadata-size";

/// All known families.
#[derive(Default)]
pub(super) struct Families {
    hasher: RandomState,
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    /// Bytes of each family.
    sizes: HashMap<u64, u32>,
    /// Bytes of all families.
    bytes: u64,
}

impl Families {
    /// Bytes of all metadata.
    pub(super) fn bytes(&self) -> u64 {
        self.known.read().bytes
    }

    /// Adds the metadata that the store has, whatever the limit is.
    pub(super) fn learn(&self, all: &[(String, Metadata)]) {
        let mut known = self.known.write();
        for (family, metadata) in all {
            let size = size_of(family, &metadata.help, &metadata.unit);
            known.take(self.hasher.hash_one(family.as_str()), size, u64::MAX);
        }
    }

    /// Removes refused entries from a batch, and returns which ones and why.
    pub(super) fn judge(&self, most: usize, batch: &mut WriteBatch<'_>) -> Rejections {
        let mut rejections = Rejections::default();
        // Version 2 sends metadata with every request, so it is usually known: first try without the write lock.
        let sizes: Vec<(u64, u32)> = batch
            .metadata
            .iter()
            .map(|e| (self.hasher.hash_one(e.family), size_of(e.family, e.help, e.unit)))
            .collect();
        if self.known.read().has_all(&sizes) {
            return rejections;
        }
        let mut known = self.known.write();
        let mut position = 0;
        batch.metadata.retain(|entry| {
            let ((hash, size), target) = (sizes[position], batch.metadata_targets.get(position));
            position += 1;
            let is_taken = known.take(hash, size, most as u64);
            if !is_taken && let Some(target) = target {
                let (families, bytes) = (known.sizes.len(), ShownSize::of(known.bytes));
                let what = format!(
                    "no metadata of {}: {families} metric families have {bytes} of it",
                    entry.family
                );
                let reason = RejectReason::Limit {
                    what,
                    setting: SETTING,
                    most: ShownSize::of(most).to_string(),
                };
                rejections.push(*target, reason, String::new);
            }
            is_taken
        });
        // Targets serve only to name refused entries, and no longer match the entries that are left.
        batch.metadata_targets.clear();
        rejections
    }
}

impl Known {
    fn has_all(&self, sizes: &[(u64, u32)]) -> bool {
        sizes.iter().all(|(hash, size)| self.sizes.get(hash) == Some(size))
    }

    /// Counts a family, unless the total would exceed `most`.
    fn take(&mut self, hash: u64, size: u32, most: u64) -> bool {
        let before = self.sizes.get(&hash).copied().unwrap_or(0);
        let after = self.bytes - u64::from(before) + u64::from(size);
        if size > before && after > most {
            return false;
        }
        self.sizes.insert(hash, size);
        self.bytes = after;
        true
    }
}

fn size_of(family: &str, help: &str, unit: &str) -> u32 {
    let bytes = family.len() + help.len() + unit.len() + FAMILY_BYTES;
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use promkairos_model::{MetadataEntry, MetricType, Target};

    /// The targets of the refused families among `sent`, pairs of family and help.
    fn send(families: &Families, most: usize, sent: &[(&str, &str)]) -> Vec<Target> {
        let mut batch = WriteBatch::default();
        for (number, (family, help)) in (0..).zip(sent) {
            let kind = MetricType::Gauge;
            batch.metadata.push(MetadataEntry { family, kind, help, unit: "" });
            batch.metadata_targets.push(Target::Metadata(number));
        }
        let refused = families.judge(most, &mut batch);
        assert_eq!(batch.metadata.len() + refused.len(), sent.len());
        assert!(refused.counts().iter().all(|(setting, _)| *setting == SETTING));
        refused.targets().to_vec()
    }

    #[test]
    fn new_families_and_longer_texts_are_refused_beyond_the_limit() {
        let families = Families::default();
        let most = 2 * FAMILY_BYTES + 10;
        let two = [("a", "1234"), ("b", "1234")];
        assert!(send(&families, most, &two).is_empty());
        assert_eq!(families.bytes(), most as u64);
        // Known families are accepted beside a refused one.
        let more = [("a", "1234"), ("c", ""), ("b", "1234"), ("c", "")];
        assert_eq!(send(&families, most, &more), [1, 3].map(Target::Metadata));
        assert_eq!(send(&families, most, &[("a", "12345")]), [Target::Metadata(0)]);
        assert!(send(&families, most, &[("a", "12"), ("b", "123456")]).is_empty());
        assert_eq!(families.bytes(), most as u64);
    }

    #[test]
    fn what_the_store_has_is_known_though_it_is_more_than_the_limit() {
        let families = Families::default();
        let metadata = |help: &str| Metadata { help: help.into(), ..Metadata::default() };
        families.learn(&[("a".into(), metadata("123")), ("b".into(), metadata(""))]);
        assert_eq!(families.bytes(), 2 * FAMILY_BYTES as u64 + 5);
        assert!(send(&families, 1, &[("a", "123"), ("b", ""), ("a", "1")]).is_empty());
        assert_eq!(send(&families, 1, &[("b", "1"), ("c", "")]), [0, 1].map(Target::Metadata));
    }

    #[test]
    fn the_reason_names_the_family_and_the_setting() {
        let families = Families::default();
        let (kind, unit) = (MetricType::Gauge, "");
        let metadata = vec![MetadataEntry { family: "up", kind, help: "", unit }];
        let metadata_targets = vec![Target::Family(7)];
        let mut batch = WriteBatch { metadata, metadata_targets, ..WriteBatch::default() };
        let refused = families.judge(50, &mut batch);
        assert_eq!(refused.targets(), [Target::Family(7)]);
        let want = "no metadata of up: 0 metric families have 0 bytes of it, and the setting \
                    max-metadata-size is 50 bytes";
        assert_eq!(refused.kept()[0].to_string(), want);
    }
}
