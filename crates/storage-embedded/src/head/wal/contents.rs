//! Counts the content of log records: records, samples, series.
//!
//! Counts as a replay does: refused parts of a request are left out, and a series counts once, in
//! however many records it is. A record that cannot be decoded is counted separately and is no
//! error; callers decide whether it is damage.

use std::collections::HashSet;

use xxhash_rust::xxh3::xxh3_64;

use super::record::Record;
use promkairos_model::{Body, RawLabels};
use promkairos_wire::{self, Policy, Scratch};

/// Counts of the content of some records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Contents {
    /// The number of records, including undecoded ones.
    pub records: u64,
    /// Records that cannot be decoded.
    pub undecoded: u64,
    /// Floats and histograms in the decoded records.
    pub samples: u64,
    /// Different series in the decoded records.
    pub series: u64,
}

/// Counts what records hold.
#[derive(Default)]
pub(super) struct Tally {
    counted: Contents,
    /// Hashes of label sets.
    series: HashSet<u64>,
    scratch: Scratch,
}

impl Tally {
    /// Counts a record; seals and gaps do not count.
    pub(super) fn add(&mut self, record: &Record<'_>) {
        let (protocol, rejected, compressed) = match record {
            Record::Write { protocol, rejected, body } => (*protocol, rejected, *body),
            Record::Delete { .. } => {
                self.counted.records += 1;
                return;
            }
            Record::Seal(_) | Record::Gap => return,
        };
        self.counted.records += 1;
        let body = Body { protocol, compressed };
        match promkairos_wire::decode(body, &mut self.scratch, Policy::Replay(rejected)) {
            Ok(batch) => {
                self.counted.samples += (batch.samples.len() + batch.histograms.len()) as u64;
                let series = batch.series.iter().filter(|series| !series.is_empty());
                self.series.extend(series.map(|series| hash(series.labels)));
            }
            Err(_) => self.counted.undecoded += 1,
        }
    }

    /// What was counted.
    pub(super) fn contents(&self) -> Contents {
        Contents { series: self.series.len() as u64, ..self.counted }
    }
}

/// The order of labels does not count.
fn hash(labels: RawLabels<'_>) -> u64 {
    labels.to_labels().map_or(xxh3_64(labels.as_bytes()), |labels| xxh3_64(labels.as_bytes()))
}
