//! The metadata file: type, help and unit of every metric family.
//!
//! Pure bytes: no I/O. The file is rewritten when something changed. The manifest names the current
//! file, so metadata changes in the same step as the parts.
//!
//! ```text
//! ┌──────────┬──────────┬──────────────────────────────────────────────────────┬────────────┐
//! │ 8 B head │ varint n │ n times: family · u8 type · help · unit (with lengths) │ u32 crc32c │
//! └──────────┴──────────┴──────────────────────────────────────────────────────┴────────────┘
//! ```
//!
//! In version 1 each name of a series from remote write 2.0 is a family: `x_bucket`, `x_sum` and
//! `x_count` for the classic histogram `x`. They are joined when such a file is read.

use std::collections::BTreeMap;

use promkairos_model::{Metadata, MetricType, with_parts_joined};
use promkairos_storage::codec::{Cursor, Damage, put_bytes, put_varint, seal, unseal};

/// First bytes of a metadata file.
const HEAD: &[u8; 8] = b"pkmeta\x02\n";
const HEAD_V1: &[u8; 8] = b"pkmeta\x01\n";

/// Metadata by metric family.
pub type MetadataMap = BTreeMap<String, Metadata>;

/// The bytes of the file.
pub fn encode(map: &MetadataMap) -> Vec<u8> {
    let mut out = HEAD.to_vec();
    put_varint(&mut out, map.len() as u64);
    for (family, metadata) in map {
        put_bytes(&mut out, family.as_bytes());
        out.push(metadata.kind as u8);
        put_bytes(&mut out, metadata.help.as_bytes());
        put_bytes(&mut out, metadata.unit.as_bytes());
    }
    seal(&mut out, 0);
    out
}

/// Reads what [`encode`] wrote; an error says what is wrong with the bytes.
pub fn decode(bytes: &[u8]) -> Result<MetadataMap, Damage> {
    let content = unseal(bytes)?;
    let (content, is_of_series) = match (content.strip_prefix(HEAD), content.strip_prefix(HEAD_V1))
    {
        (Some(content), _) => (content, false),
        (None, Some(content)) => (content, true),
        (None, None) => {
            return Err(Damage("metadata of a version that this program does not know"));
        }
    };
    let mut cursor = Cursor(content);
    let mut map = MetadataMap::new();
    for _ in 0..cursor.varint()? {
        let family = cursor.text()?.to_owned();
        let kind = MetricType::from_number(cursor.u8()?.into());
        let metadata = Metadata { kind, help: cursor.text()?.into(), unit: cursor.text()?.into() };
        map.insert(family, metadata);
    }
    if !cursor.is_empty() {
        return Err(Damage("the metadata is too long"));
    }
    Ok(if is_of_series { with_parts_joined(map) } else { map })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_comes_back_and_notices_every_flip() {
        let entry =
            |kind, help: &str, unit: &str| Metadata { kind, help: help.into(), unit: unit.into() };
        let map = MetadataMap::from([
            ("a".into(), entry(MetricType::StateSet, "what\nit is", "")),
            ("b_seconds".into(), entry(MetricType::Counter, "", "seconds")),
        ]);
        let bytes = encode(&map);
        assert_eq!(decode(&bytes), Ok(map));
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            assert!(decode(&flipped).is_err());
            assert!(decode(&bytes[..at]).is_err());
        }
    }

    #[test]
    fn parts_in_a_file_of_version_1_are_joined() {
        let histogram = Metadata { kind: MetricType::Histogram, ..Metadata::default() };
        let parts = ["a_bucket", "a_count", "a_sum"].map(|name| (name.into(), histogram.clone()));
        let mut old = encode(&MetadataMap::from(parts.clone()));
        assert_eq!(
            decode(&old),
            Ok(MetadataMap::from(parts)),
            "this version takes none for a part"
        );
        old.truncate(old.len() - 4);
        old[..HEAD_V1.len()].copy_from_slice(HEAD_V1);
        seal(&mut old, 0);
        assert_eq!(decode(&old), Ok(MetadataMap::from([("a".into(), histogram)])));
    }
}
