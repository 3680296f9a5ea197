//! Counts what histories met, so that a test can refuse a run that met too little.

use crate::disk::Failed;

/// Number of successes and of errors.
#[derive(Debug, Default, Clone, Copy)]
pub struct Outcomes {
    /// Successes.
    pub good: u32,
    /// Errors.
    pub bad: u32,
}

impl Outcomes {
    /// Counts one outcome.
    pub fn count<T, E>(&mut self, outcome: &Result<T, E>) {
        match outcome {
            Ok(_) => self.good += 1,
            Err(_) => self.bad += 1,
        }
    }
}

/// Faults and outcomes of all histories of a run.
#[derive(Debug, Default)]
pub struct Met {
    /// Faults of the disks.
    pub failed: Failed,
    /// Kills of processes.
    pub kills: u32,
    /// Power cuts.
    pub cuts: u32,
    /// Jumps of the clock.
    pub jumps: u32,
    /// Misdirected writes.
    pub misdirected: u32,
    /// Requests.
    pub writes: Outcomes,
    /// Deletes.
    pub deletes: Outcomes,
    /// Flushes.
    pub flushes: Outcomes,
    /// Runs of compaction and retention.
    pub maintained: Outcomes,
    /// Orderly stops.
    pub closed: Outcomes,
    /// Reads of everything.
    pub read: Outcomes,
    /// Starts on a disk with failing reads.
    pub opened: Outcomes,
    /// Starts after damage to a file.
    pub damaged: Outcomes,
}

impl Met {
    /// Names of what was met less often than `least`, each with its count.
    pub fn rarer_than(&self, least: u32) -> Vec<(&'static str, u32)> {
        let faults = [
            ("failed operations", self.failed.operations),
            ("failed syncs", self.failed.syncs),
            ("full disks", self.failed.full),
            ("short writes", self.failed.short_writes),
            ("failed reads", self.failed.reads),
            ("kills", self.kills),
            ("power cuts", self.cuts),
            ("jumps of the clock", self.jumps),
            ("misdirected writes", self.misdirected),
            ("orderly stops", self.closed.good),
        ];
        let outcomes = [
            ("writes", self.writes),
            ("deletes", self.deletes),
            ("flushes", self.flushes),
            ("maintenance", self.maintained),
            ("reads", self.read),
            ("starts", self.opened),
            ("starts after damage", self.damaged),
        ];
        let outcomes = outcomes.into_iter().map(|(name, seen)| (name, seen.good.min(seen.bad)));
        faults.into_iter().chain(outcomes).filter(|(_, count)| *count < least).collect()
    }

    /// Adds the faults of a disk.
    pub fn add(&mut self, failed: Failed) {
        self.failed.operations += failed.operations;
        self.failed.syncs += failed.syncs;
        self.failed.full += failed.full;
        self.failed.short_writes += failed.short_writes;
        self.failed.reads += failed.reads;
    }
}
