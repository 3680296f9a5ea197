//! The bytes of the log: segment headers and records. No I/O.
//!
//! All numbers are little-endian. A checksum covers the log's key and everything else in its header
//! or record. The key is random and not part of a record, so that a request body cannot contain
//! bytes that pass for a record.
//!
//! ```text
//! header  ┌───────┬─────────┬───────────┬──────────────┬─────────┬───────────┬────────┐
//!  48 B   │ magic │ version │ first seq │ previous seq │ key u64 │ bytes u64 │ crc32c │
//!         │  8 B  │   u32   │    u64    │     u64      │         │ allocated │  u32   │
//!         └───────┴─────────┴───────────┴──────────────┴─────────┴───────────┴────────┘
//! record  ┌────────────┬────────┬────────────┬─────────┬─────────┬─────────┬─────────┐
//!         │ length u32 │ crc32c │ version u8 │ kind u8 │ seq u64 │ ms i64  │ payload │
//!         └────────────┴────────┴────────────┴─────────┴─────────┴─────────┴─────────┘
//!                      length counts what follows the crc; 0 = no record here
//! write   │ protocol u8 │ rejected u32 │ { kind u8, number u32 } … │ snappy body
//!           1, 2: remote write 1.0, 2.0; 3: 2.0 with type and unit as labels, whatever is set now;
//!           4: 2.0 whose samples may have a field of our own, number 100, sint64: an integer
//!           rejected, by kind and number in the body: 0 series, 1 float, 2 histogram, 3 exemplar, 4 metadata,
//!           5 family of a series
//! delete  │ start i64 │ end i64 │ matchers u32 │ { op u8, len u32, name, len u32, value } …
//! seal    │ durable end u64 : everything before this offset of the segment is on disk
//! gap     │ (empty) : repair took out the records up to and including this sequence
//! ```

use promkairos_model::limits;
use promkairos_model::{MatchOp, Matcher, Protocol, Target, TimeRange};
use promkairos_storage::codec::{Cursor, Damage};

/// Bytes of a segment header.
pub(super) const HEADER_LEN: usize = 48;
/// Offset of the key in a header.
pub(super) const KEY_AT: u64 = 28;
/// Bytes of a seal.
pub(super) const SEAL_LEN: usize = FRAME_LEN + FIXED_LEN + 8;
/// Bytes before the part that `length` counts.
pub(super) const FRAME_LEN: usize = 8;
/// Bytes of a record from its version to its time.
const FIXED_LEN: usize = 18;
/// Largest valid `length`: a whole body and as many rejections as a request can have.
const MAX_LENGTH: usize = limits::MAX_BODY_BYTES
    + 5 * (limits::MAX_SERIES_PER_REQUEST + 2 * limits::MAX_SAMPLES_PER_REQUEST)
    + 1024;

const MAGIC: [u8; 8] = *b"PKWAL\r\n\x1a";
const HEADER_VERSION: u32 = 1;
const RECORD_VERSION: u8 = 1;

/// Nothing was ever written there.
pub(super) const NO_RECORD: &str = "zeros where a record should be";
const IMPOSSIBLE: Damage = Damage("the record's checksum matches but its content is impossible");

const WRITE: u8 = 1;
const DELETE: u8 = 2;
const SEAL: u8 = 3;
const GAP: u8 = 4;

/// The header of a segment file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// Its records have this sequence or a later one.
    pub(super) first: u64,
    /// Last sequence in the log before this segment; 0 = none.
    pub(super) previous: u64,
    /// Key of the checksums.
    pub(super) key: u64,
    /// Length of the file when it was created, in bytes.
    pub(super) bytes: u64,
}

/// One record.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry<'a> {
    /// Position in the log, from 1, rising.
    pub sequence: u64,
    /// When it was accepted, in milliseconds since 1970.
    pub accepted: i64,
    /// Its content.
    pub record: Record<'a>,
}

/// The content of a record.
#[derive(Debug, Clone, PartialEq)]
pub enum Record<'a> {
    /// A batch was accepted.
    Write {
        /// Which message the body holds.
        protocol: Protocol,
        /// The refused parts of it.
        rejected: Vec<Target>,
        /// The body as it came: a snappy block.
        body: &'a [u8],
    },
    /// Points were deleted.
    Delete {
        /// In this range.
        range: TimeRange,
        /// Of the series that match.
        matchers: Vec<Matcher>,
    },
    /// Everything before this offset of the segment is durable.
    Seal(u64),
    /// Repair removed the records that were here.
    Gap,
}

impl Entry<'_> {
    /// Whether it may be at this offset of a segment, behind the record `last`: sequences rise, and
    /// a seal covers only bytes before it.
    pub(super) fn may_follow(&self, last: u64, offset: u64) -> bool {
        match self.record {
            Record::Seal(end) => end <= offset,
            _ => self.sequence > last,
        }
    }
}

impl Header {
    /// The bytes of the header.
    pub(super) fn encode(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        out[..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&HEADER_VERSION.to_le_bytes());
        for (at, value) in [(12, self.first), (20, self.previous), (28, self.key), (36, self.bytes)]
        {
            out[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        let crc = crc32c::crc32c(&out[..44]);
        out[44..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads a header; an error says what is wrong with it.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let bytes = bytes.get(..HEADER_LEN).ok_or("the file ends inside its header")?;
        if bytes[..8] != MAGIC {
            return Err("this is not a segment of a log");
        }
        if crc32c::crc32c(&bytes[..44]).to_le_bytes() != bytes[44..] {
            return Err("the header's checksum does not match");
        }
        let mut numbers = Cursor(&bytes[8..]);
        if numbers.u32() != Ok(HEADER_VERSION) {
            return Err("the header has an unknown version");
        }
        let mut next = || numbers.u64().map_err(|Damage(what)| what);
        let header = Self { first: next()?, previous: next()?, key: next()?, bytes: next()? };
        match header.first.max(header.previous) {
            u64::MAX => Err("the header has a number of a record that is never given"),
            _ => Ok(header),
        }
    }
}

/// Appends a record to `out`.
pub(super) fn encode(out: &mut Vec<u8>, key: u64, entry: &Entry<'_>) {
    let start = out.len();
    out.extend_from_slice(&[0; FRAME_LEN]);
    out.push(RECORD_VERSION);
    out.push(match entry.record {
        Record::Write { .. } => WRITE,
        Record::Delete { .. } => DELETE,
        Record::Seal(_) => SEAL,
        Record::Gap => GAP,
    });
    out.extend_from_slice(&entry.sequence.to_le_bytes());
    out.extend_from_slice(&entry.accepted.to_le_bytes());
    match &entry.record {
        Record::Write { protocol, rejected, body } => {
            out.push(*protocol as u8);
            out.extend_from_slice(&(rejected.len() as u32).to_le_bytes());
            for target in rejected {
                let (kind, number) = target_bytes(*target);
                out.push(kind);
                out.extend_from_slice(&number.to_le_bytes());
            }
            out.extend_from_slice(body);
        }
        Record::Delete { range, matchers } => encode_delete(out, *range, matchers),
        Record::Seal(end) => out.extend_from_slice(&end.to_le_bytes()),
        Record::Gap => {}
    }
    let length = (out.len() - start - FRAME_LEN) as u32;
    let crc = checksum(key, length, &out[start + FRAME_LEN..]);
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    out[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
}

fn encode_delete(out: &mut Vec<u8>, range: TimeRange, matchers: &[Matcher]) {
    out.extend_from_slice(&range.start.to_le_bytes());
    out.extend_from_slice(&range.end.to_le_bytes());
    out.extend_from_slice(&(matchers.len() as u32).to_le_bytes());
    for matcher in matchers {
        out.push(matcher.op().number());
        for text in [matcher.name(), matcher.value()] {
            out.extend_from_slice(&(text.len() as u32).to_le_bytes());
            out.extend_from_slice(text.as_bytes());
        }
    }
}

/// The length of the record that begins with these bytes, frame included. An error says why no record does.
pub(super) fn framed_length(frame: [u8; FRAME_LEN]) -> Result<usize, &'static str> {
    let [a, b, c, d, ..] = frame;
    match u32::from_le_bytes([a, b, c, d]) as usize {
        0 if frame == [0; FRAME_LEN] => Err(NO_RECORD),
        length if (FIXED_LEN..=MAX_LENGTH).contains(&length) => Ok(FRAME_LEN + length),
        _ => Err("the length of the record is impossible"),
    }
}

/// Whether a record might begin with these bytes (a frame, a version and a kind).
pub(super) fn may_begin(head: &[u8]) -> bool {
    matches!(head.get(FRAME_LEN..), Some([RECORD_VERSION, WRITE..=GAP, ..]))
}

/// Reads one record with its frame; `bytes` is exactly what [`framed_length`] said.
pub(super) fn decode(bytes: &[u8], key: u64) -> Result<Entry<'_>, &'static str> {
    let mut input = Cursor(bytes);
    let (Ok(length), Ok(crc)) = (input.u32(), input.u32()) else {
        return Err("the record is cut off");
    };
    if length as usize != input.0.len() {
        return Err("the record is cut off");
    }
    if checksum(key, length, input.0) != crc {
        return Err("the record's checksum does not match");
    }
    decode_checked(input).map_err(|_| IMPOSSIBLE.0)
}

/// The content of a record with its frame, whatever its checksum. For reports only.
pub(super) fn decode_damaged(bytes: &[u8]) -> Option<Record<'_>> {
    Some(decode_checked(Cursor(bytes.get(FRAME_LEN..)?)).ok()?.record)
}

fn decode_checked(mut input: Cursor<'_>) -> Result<Entry<'_>, Damage> {
    let (version, kind) = (input.u8()?, input.u8()?);
    let (sequence, accepted) = (input.u64()?, input.u64()? as i64);
    // The largest number is never used: each sequence has a next one.
    if version != RECORD_VERSION || sequence == u64::MAX {
        return Err(IMPOSSIBLE);
    }
    let record = match kind {
        WRITE => decode_write(input)?,
        DELETE => decode_delete(input)?,
        SEAL => Record::Seal(input.u64()?),
        GAP => Record::Gap,
        _ => return Err(IMPOSSIBLE),
    };
    Ok(Entry { sequence, accepted, record })
}

fn decode_write(mut input: Cursor<'_>) -> Result<Record<'_>, Damage> {
    let protocol = match input.u8()? {
        1 => Protocol::V1,
        2 => Protocol::V2,
        3 => Protocol::V2Typed,
        4 => Protocol::V2Longs,
        _ => return Err(IMPOSSIBLE),
    };
    let count = input.u32()? as usize;
    let mut targets = Cursor(input.take(count.checked_mul(5).ok_or(IMPOSSIBLE)?)?);
    let mut rejected = Vec::with_capacity(count);
    while !targets.is_empty() {
        rejected.push(target_of(targets.u8()?, targets.u32()?)?);
    }
    Ok(Record::Write { protocol, rejected, body: input.0 })
}

fn decode_delete(mut input: Cursor<'_>) -> Result<Record<'_>, Damage> {
    let range = TimeRange::new(input.u64()? as i64, input.u64()? as i64);
    let count = input.u32()?;
    let mut matchers = Vec::new();
    for _ in 0..count {
        let op = MatchOp::from_number(input.u8()?).ok_or(IMPOSSIBLE)?;
        let (name, value) = (text(&mut input)?, text(&mut input)?);
        matchers.push(Matcher::new(op, name, value).map_err(|_| IMPOSSIBLE)?);
    }
    Ok(Record::Delete { range, matchers })
}

fn text<'a>(input: &mut Cursor<'a>) -> Result<&'a str, Damage> {
    let len = input.u32()? as usize;
    std::str::from_utf8(input.take(len)?).map_err(|_| IMPOSSIBLE)
}

fn checksum(key: u64, length: u32, rest: &[u8]) -> u32 {
    let mut seed = [0; 12];
    seed[..8].copy_from_slice(&key.to_le_bytes());
    seed[8..].copy_from_slice(&length.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c(&seed), rest)
}

fn target_bytes(target: Target) -> (u8, u32) {
    match target {
        Target::Series(n) => (0, n),
        Target::Sample(n) => (1, n),
        Target::Histogram(n) => (2, n),
        Target::Exemplar(n) => (3, n),
        Target::Metadata(n) => (4, n),
        Target::Family(n) => (5, n),
    }
}

fn target_of(kind: u8, number: u32) -> Result<Target, Damage> {
    let kinds = [
        Target::Series,
        Target::Sample,
        Target::Histogram,
        Target::Exemplar,
        Target::Metadata,
        Target::Family,
    ];
    kinds.get(usize::from(kind)).map(|kind| kind(number)).ok_or(IMPOSSIBLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> Vec<Entry<'static>> {
        let rejected = vec![
            Target::Series(3),
            Target::Sample(70_000),
            Target::Histogram(0),
            Target::Exemplar(1),
            Target::Metadata(u32::MAX),
            Target::Family(6),
        ];
        let matchers = vec![
            Matcher::equal("__name__", "up"),
            Matcher::new(MatchOp::NotRegex, "job", "a|b.*").expect("a valid pattern"),
        ];
        [
            Record::Write { protocol: Protocol::V2, rejected, body: b"snappy" },
            Record::Write { protocol: Protocol::V1, rejected: vec![], body: b"" },
            Record::Write { protocol: Protocol::V2Typed, rejected: vec![], body: b"typed" },
            Record::Write { protocol: Protocol::V2Longs, rejected: vec![], body: b"integers" },
            Record::Delete { range: TimeRange::new(-5, i64::MAX), matchers },
            Record::Seal(u64::MAX),
            Record::Gap,
        ]
        .into_iter()
        .zip(1..)
        .map(|(record, sequence)| Entry { sequence, accepted: -1 - sequence as i64, record })
        .collect()
    }

    #[test]
    fn a_record_comes_back_and_no_flipped_bit_passes() {
        for entry in entries() {
            let mut bytes = Vec::new();
            encode(&mut bytes, 7, &entry);
            let frame = bytes[..FRAME_LEN].try_into().expect("a frame");
            assert_eq!(framed_length(frame), Ok(bytes.len()));
            assert_eq!(decode(&bytes, 7), Ok(entry.clone()));
            assert!(decode(&bytes, 8).is_err(), "the key counts");
            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(decode(&flipped, 7).is_err(), "bit {bit} of {entry:?}");
            }
        }
    }

    #[test]
    fn each_number_has_a_next_one() {
        let of = |sequence| {
            let mut bytes = Vec::new();
            encode(&mut bytes, 1, &Entry { sequence, accepted: 0, record: Record::Gap });
            decode(&bytes, 1).is_ok()
        };
        assert_eq!((of(u64::MAX - 1), of(u64::MAX)), (true, false));
        let header = |first, previous| Header { first, previous, key: 1, bytes: 4096 };
        for (header, want) in [
            (header(2, u64::MAX - 1), true),
            (header(2, u64::MAX), false),
            (header(u64::MAX, 1), false),
        ] {
            assert_eq!(Header::decode(&header.encode()).is_ok(), want, "{header:?}");
        }
    }

    #[test]
    fn a_seal_has_the_length_of_a_seal() {
        let mut bytes = Vec::new();
        encode(&mut bytes, 1, &Entry { sequence: 1, accepted: 0, record: Record::Seal(9) });
        assert_eq!(bytes.len(), SEAL_LEN);
    }

    #[test]
    fn a_header_comes_back_and_no_flipped_bit_passes() {
        let header = Header { first: 1, previous: 0, key: u64::MAX, bytes: 4096 };
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes), Ok(header));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&flipped).is_err(), "bit {bit}");
        }
        assert!(Header::decode(&bytes[..47]).is_err());
    }

    #[test]
    fn impossible_lengths_are_refused_before_anything_is_read() {
        assert_eq!(framed_length([0; 8]), Err(NO_RECORD));
        assert!(framed_length([0, 0, 0, 0, 1, 0, 0, 0]).is_err());
        assert!(framed_length([1, 0, 0, 0, 0, 0, 0, 0]).is_err());
        assert!(framed_length([0xff; 8]).is_err());
    }
}
