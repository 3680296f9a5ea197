//! Reading the log ahead: the thread that reads it also decompresses the bodies, while what it read
//! before is decoded on another.
//!
//! Records come out in the order of the log, and a few wait at most. Nothing here decodes or
//! applies one.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::wal::{Entry, Record};
use crate::model::{Matcher, Protocol, Target, TimeRange};
use crate::storage::StoreError;
use crate::wire::snappy;

/// Records that wait, at most. A body may have 32 MiB.
const WAITING: usize = 4;

/// A record that changes memory, by itself.
pub(super) struct Read {
    /// Position in the log.
    pub sequence: u64,
    /// When it was accepted, in milliseconds since 1970.
    pub accepted: i64,
    pub change: Change,
}

/// What it changes.
pub(super) enum Change {
    Write { protocol: Protocol, rejected: Vec<Target>, message: Message },
    Delete { range: TimeRange, matchers: Vec<Matcher> },
}

/// A decompressed body.
pub(super) struct Message {
    /// It begins with the message.
    buffer: Vec<u8>,
    len: usize,
}

impl Message {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
}

/// The end that reads.
pub(super) struct Reading {
    read: SyncSender<Read>,
    /// Buffers to be used again.
    used: Receiver<Vec<u8>>,
}

/// The end that takes what was read.
pub(super) struct Taking {
    read: Receiver<Read>,
    used: SyncSender<Vec<u8>>,
}

/// Both ends.
pub(super) fn channel() -> (Reading, Taking) {
    let (to_take, taken) = sync_channel(WAITING);
    // One is filled and one is emptied meanwhile.
    let (to_fill, used) = sync_channel(WAITING + 2);
    (Reading { read: to_take, used }, Taking { read: taken, used: to_fill })
}

impl Reading {
    /// Hands a record on. Fails if nobody takes it any more.
    pub(super) fn hand_on(&self, entry: &Entry<'_>) -> Result<(), StoreError> {
        let (sequence, accepted) = (entry.sequence, entry.accepted);
        let change = match &entry.record {
            Record::Write { protocol, rejected, body } => {
                let mut buffer = self.used.try_recv().unwrap_or_default();
                let message = snappy::decompress(body, &mut buffer);
                let len = message.map_err(|error| undecodable(sequence, error))?.len();
                let message = Message { buffer, len };
                Change::Write { protocol: *protocol, rejected: rejected.clone(), message }
            }
            Record::Delete { range, matchers } => {
                Change::Delete { range: *range, matchers: matchers.clone() }
            }
            Record::Seal(_) | Record::Gap => return Ok(()),
        };
        self.read.send(Read { sequence, accepted, change }).map_err(|_| StoreError::Backend {
            what: "reading the log back was given up".into(),
            source: "what was read is not taken any more".into(),
        })
    }
}

impl Taking {
    /// Takes all records until the other end goes, or one fails.
    pub(super) fn each(
        self,
        mut take: impl FnMut(&Read) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        for read in self.read {
            take(&read)?;
            if let Change::Write { message, .. } = read.change {
                // Where there are enough it goes.
                let _ = self.used.try_send(message.buffer);
            }
        }
        Ok(())
    }
}

/// What is said of a record whose body is not what a sender sent.
pub(super) fn undecodable(sequence: u64, error: crate::wire::WireError) -> StoreError {
    let what = format!("record {sequence} of the log cannot be decoded");
    StoreError::Backend { what, source: Box::new(error) }
}
