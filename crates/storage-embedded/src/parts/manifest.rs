//! The manifest: the list of all files of the embedded store. Only listed files exist.
//!
//! The manifest is one small file, replaced as a whole by rename, so that every change of the store
//! is one atomic step. Parts are listed by precedence: at equal timestamps of one series the later
//! part wins. A tombstone cuts the parts whose `cut_through` is below its number. Pure bytes: no
//! I/O. `docs/EMBEDDED-FORMAT.md` has the layout.

use std::sync::Arc;
use std::time::Duration;

use promkairos_model::{MatchOp, Matcher, TimeRange};
use promkairos_storage::codec::{Cursor, Damage, put_bytes, put_varint, put_zigzag, seal, unseal};

/// First bytes of a manifest.
const HEAD: &[u8; 8] = b"pkmani\x02\n";
/// First bytes of version 1, which does not have the time of a merge.
const HEAD_1: &[u8; 8] = b"pkmani\x01\n";

/// The whole state of a store except the content of its parts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Manifest {
    /// All files, past and present, have lower ids.
    pub(super) next_id: u64,
    /// `through` of the last flush.
    pub(super) flushed_through: u64,
    /// Number of the last tombstone ever.
    pub(super) last_tombstone: u64,
    /// Id of the metadata file; 0 = none yet.
    pub(super) metadata: u64,
    pub(super) parts: Vec<PartEntry>,
    pub(super) tombstones: Vec<Arc<Tombstone>>,
}

/// What the rows of a part are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resolution {
    /// The points as they were written.
    Raw,
}

/// One part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PartEntry {
    pub(super) id: u64,
    /// First millisecond of its time partition.
    pub(super) partition: i64,
    /// Length of its file.
    pub(super) bytes: u64,
    /// Earliest and latest timestamp in it.
    pub(super) range: TimeRange,
    pub(super) series: u32,
    pub(super) points: u64,
    pub(super) exemplars: u64,
    /// Tombstones up to this number do not concern it: they are older than it or were applied.
    pub(super) cut_through: u64,
    /// Checksum of its footer.
    pub(super) footer_crc: u32,
    /// When compaction wrote it, in milliseconds since 1970; 0 = written by a flush.
    pub(super) merged: i64,
    /// Not in the manifest: no version has parts that are not raw.
    pub(super) resolution: Resolution,
}

impl PartEntry {
    /// Whether compaction wrote it less than `time` before `now`, or less than `time` after `now`:
    /// clocks are set back in everyday use. A time further ahead is from a wrong clock.
    pub(super) fn was_merged_within(&self, time: Duration, now: i64) -> bool {
        self.merged != 0 && u128::from(now.abs_diff(self.merged)) < time.as_millis()
    }
}

/// A delete that is applied on reading.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tombstone {
    pub(super) number: u64,
    pub(super) matchers: Vec<Matcher>,
    pub(super) range: TimeRange,
}

impl Tombstone {
    /// Whether it may delete something in this part.
    pub(super) fn concerns(&self, part: &PartEntry) -> bool {
        self.number > part.cut_through && self.range.overlaps(&part.range)
    }
}

impl Manifest {
    /// The bytes of the file.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = HEAD.to_vec();
        let Self { next_id, flushed_through, last_tombstone, metadata, .. } = *self;
        for number in [next_id, flushed_through, last_tombstone, metadata, self.parts.len() as u64]
        {
            put_varint(&mut out, number);
        }
        for part in &self.parts {
            // A second resolution needs a version that stores it.
            let Resolution::Raw = part.resolution;
            put_varint(&mut out, part.id);
            put_zigzag(&mut out, part.partition);
            put_varint(&mut out, part.bytes);
            put_range(&mut out, part.range);
            for number in [part.series.into(), part.points, part.exemplars, part.cut_through] {
                put_varint(&mut out, number);
            }
            out.extend_from_slice(&part.footer_crc.to_le_bytes());
            put_zigzag(&mut out, part.merged);
        }
        put_varint(&mut out, self.tombstones.len() as u64);
        for tombstone in &self.tombstones {
            put_varint(&mut out, tombstone.number);
            put_range(&mut out, tombstone.range);
            put_varint(&mut out, tombstone.matchers.len() as u64);
            for matcher in &tombstone.matchers {
                out.push(matcher.op().number());
                put_bytes(&mut out, matcher.name().as_bytes());
                put_bytes(&mut out, matcher.value().as_bytes());
            }
        }
        seal(&mut out, 0);
        out
    }

    /// Reads what [`Self::encode`] wrote, and version 1; an error says what is wrong with the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damage> {
        let content = unseal(bytes)?;
        let (content, has_merges) = match (content.strip_prefix(HEAD), content.strip_prefix(HEAD_1))
        {
            (Some(content), _) => (content, true),
            (_, Some(content)) => (content, false),
            (None, None) => {
                return Err(Damage("not a manifest of version 1 or 2, which this program knows"));
            }
        };
        let mut cursor = Cursor(content);
        let mut manifest = Self {
            next_id: cursor.varint()?,
            flushed_through: cursor.varint()?,
            last_tombstone: cursor.varint()?,
            metadata: cursor.varint()?,
            ..Self::default()
        };
        for _ in 0..cursor.varint()? {
            manifest.parts.push(decode_part(&mut cursor, has_merges)?);
        }
        for _ in 0..cursor.varint()? {
            manifest.tombstones.push(Arc::new(decode_tombstone(&mut cursor)?));
        }
        if !cursor.is_empty() {
            return Err(Damage("the manifest is too long"));
        }
        Ok(manifest)
    }

    /// Drops tombstones that concern no part, except those with a number above `needed_from`.
    pub(super) fn drop_spent_tombstones(&mut self, needed_from: u64) {
        let parts = &self.parts;
        self.tombstones.retain(|tombstone| {
            tombstone.number > needed_from || parts.iter().any(|part| tombstone.concerns(part))
        });
    }
}

fn decode_part(cursor: &mut Cursor<'_>, has_merges: bool) -> Result<PartEntry, Damage> {
    Ok(PartEntry {
        id: cursor.varint()?,
        partition: cursor.zigzag()?,
        bytes: cursor.varint()?,
        range: range(cursor)?,
        series: cursor.varint_u32()?,
        points: cursor.varint()?,
        exemplars: cursor.varint()?,
        cut_through: cursor.varint()?,
        footer_crc: cursor.u32()?,
        merged: if has_merges { cursor.zigzag()? } else { 0 },
        resolution: Resolution::Raw,
    })
}

fn decode_tombstone(cursor: &mut Cursor<'_>) -> Result<Tombstone, Damage> {
    let number = cursor.varint()?;
    let range = range(cursor)?;
    let mut matchers = Vec::new();
    for _ in 0..cursor.varint()? {
        let op = MatchOp::from_number(cursor.u8()?);
        let op = op.ok_or(Damage("a matcher of an unknown kind"))?;
        let (name, value) = (cursor.text()?, cursor.text()?);
        let matcher = Matcher::new(op, name, value);
        matchers.push(matcher.map_err(|_| Damage("a matcher that is no regular expression"))?);
    }
    Ok(Tombstone { number, matchers, range })
}

fn put_range(out: &mut Vec<u8>, range: TimeRange) {
    put_zigzag(out, range.start);
    put_zigzag(out, range.end);
}

fn range(cursor: &mut Cursor<'_>) -> Result<TimeRange, Damage> {
    Ok(TimeRange::new(cursor.zigzag()?, cursor.zigzag()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let part = PartEntry {
            id: 7,
            partition: -86_400_000,
            bytes: 1 << 33,
            range: TimeRange::new(-86_399_999, -1),
            series: 3,
            points: 4,
            exemplars: 5,
            cut_through: 1,
            footer_crc: 0xdead_beef,
            merged: 1_700_000_000_000,
            resolution: Resolution::Raw,
        };
        let matchers = vec![
            Matcher::equal("a", "1"),
            Matcher::new(MatchOp::NotRegex, "b", "x.*").expect("valid"),
        ];
        let tombstone =
            |number, range| Arc::new(Tombstone { number, matchers: matchers.clone(), range });
        Manifest {
            next_id: 9,
            flushed_through: 1_000,
            last_tombstone: 3,
            metadata: 8,
            parts: vec![part],
            tombstones: vec![
                tombstone(1, TimeRange::ALL),
                tombstone(2, TimeRange::ALL),
                tombstone(3, TimeRange::new(0, 5)),
            ],
        }
    }

    #[test]
    fn a_manifest_comes_back_and_notices_every_flip() {
        let manifest = manifest();
        let bytes = manifest.encode();
        assert_eq!(Manifest::decode(&bytes), Ok(manifest));
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 4;
            assert_eq!(Manifest::decode(&flipped), Err(Damage("the checksum is wrong")));
            assert!(Manifest::decode(&bytes[..at]).is_err());
        }
    }

    #[test]
    fn a_manifest_of_version_1_knows_no_merges() {
        let mut manifest = manifest();
        let entry = manifest.parts[0];
        manifest.parts = vec![PartEntry { merged: 0, ..entry }, PartEntry { merged: 0, ..entry }];
        let bytes = manifest.encode();
        let crc = entry.footer_crc.to_le_bytes();
        let mut old = HEAD_1.to_vec();
        let mut rest = &bytes[HEAD.len()..bytes.len() - 4];
        while let Some(at) = rest.windows(crc.len()).position(|four| four == crc) {
            let end = at + crc.len();
            old.extend_from_slice(&rest[..end]);
            // Without the zero behind it.
            rest = &rest[end + 1..];
        }
        old.extend_from_slice(rest);
        seal(&mut old, 0);
        assert_eq!(old.len() + 2, bytes.len());
        assert_eq!(Manifest::decode(&old), Ok(manifest));
    }

    #[test]
    fn a_version_that_is_not_known_is_refused() {
        let mut bytes = manifest().encode();
        bytes.truncate(bytes.len() - 4);
        bytes[6] = 3;
        seal(&mut bytes, 0);
        assert_eq!(
            Manifest::decode(&bytes),
            Err(Damage("not a manifest of version 1 or 2, which this program knows"))
        );
    }

    #[test]
    fn a_clock_that_jumps_ends_a_rest() {
        const HOUR: i64 = 3_600_000;
        let hour = Duration::from_secs(3_600);
        let merged = |merged| PartEntry { merged, ..manifest().parts[0] };
        for (at, now, want) in [
            (5 * HOUR, 5 * HOUR, true),
            (5 * HOUR, 6 * HOUR - 1, true),
            (5 * HOUR, 6 * HOUR, false),
            (5 * HOUR, i64::MAX, false),
            // Set back a little, and by much.
            (5 * HOUR, 4 * HOUR + 1, true),
            (5 * HOUR, 4 * HOUR, false),
            (i64::MAX, i64::MIN, false),
            (-HOUR, -HOUR, true),
            // A flush wrote it.
            (0, 0, false),
            (0, 1, false),
        ] {
            assert_eq!(merged(at).was_merged_within(hour, now), want, "{at} {now}");
        }
    }

    #[test]
    fn a_tombstone_lasts_as_long_as_a_part_it_concerns() {
        let mut manifest = manifest();
        let mut left = |needed_from| {
            manifest.drop_spent_tombstones(needed_from);
            manifest.tombstones.iter().map(|t| t.number).collect::<Vec<_>>()
        };
        assert_eq!(left(2), [2, 3]);
        assert_eq!(left(3), [2]);
    }
}
