//! Reads the log ahead: the reading thread also decompresses the bodies, while earlier records are
//! decoded on another thread.
//!
//! Records come out in the order of the log. The number and the bytes of waiting records are
//! bounded: a body may have 32 MiB. This module neither decodes nor applies records.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::byte_budget::{ByteBudget, CloseOnDrop, Reserved};
use super::wal::{Entry, Record};
use promkairos_model::{Matcher, Protocol, Target, TimeRange};
use promkairos_storage::StoreError;
use promkairos_wire::snappy;

/// Most records that wait.
const WAITING: usize = 4;
/// Largest buffer, in bytes, that is kept for the next records.
const KEPT_BYTES: usize = 1 << 20;

/// A record that changes memory, owned.
pub(super) struct Read {
    /// Position in the log.
    pub sequence: u64,
    /// When it was accepted, in milliseconds since 1970.
    pub accepted: i64,
    pub change: Change,
    /// Its share of the byte budget.
    _reserved: Reserved,
}

/// What a record changes.
pub(super) enum Change {
    Write { protocol: Protocol, rejected: Vec<Target>, message: Message },
    Delete { range: TimeRange, matchers: Vec<Matcher> },
}

/// A decompressed body.
pub(super) struct Message {
    /// The message is at its beginning.
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
    /// Limits the bytes that are ready.
    budget: ByteBudget,
    /// Buffers to be used again.
    used: Receiver<Vec<u8>>,
}

/// The end that takes what was read.
pub(super) struct Taking {
    read: Receiver<Read>,
    _closer: CloseOnDrop,
    used: SyncSender<Vec<u8>>,
}

/// Both ends. At most `most_bytes` bytes of bodies may be ready.
pub(super) fn channel(most_bytes: u64) -> (Reading, Taking) {
    let (to_take, taken) = sync_channel(WAITING);
    // One more is being filled, and one is being emptied.
    let (to_fill, used) = sync_channel(WAITING + 2);
    let budget = ByteBudget::new(most_bytes);
    let taking = Taking { read: taken, _closer: budget.close_on_drop(), used: to_fill };
    (Reading { read: to_take, budget, used }, taking)
}

impl Reading {
    /// Sends a record to the other end. Fails if the other end is gone.
    pub(super) fn hand_on(&self, entry: &Entry<'_>) -> Result<(), StoreError> {
        let (sequence, accepted) = (entry.sequence, entry.accepted);
        let (change, reserved) = match &entry.record {
            Record::Write { protocol, rejected, body } => {
                let bytes =
                    snappy::declared_len(body).map_err(|error| undecodable(sequence, error))?;
                let reserved = self.budget.take(bytes as u64);
                let mut buffer = self.used.try_recv().unwrap_or_default();
                let message = snappy::decompress(body, &mut buffer);
                let len = message.map_err(|error| undecodable(sequence, error))?.len();
                let message = Message { buffer, len };
                let (protocol, rejected) = (*protocol, rejected.clone());
                (Change::Write { protocol, rejected, message }, reserved)
            }
            Record::Delete { range, matchers } => {
                let matchers = matchers.clone();
                (Change::Delete { range: *range, matchers }, self.budget.take(0))
            }
            Record::Seal(_) | Record::Gap => return Ok(()),
        };
        let read = Read { sequence, accepted, change, _reserved: reserved };
        let gone = "what was read is not taken any more";
        let sent = self.read.send(read);
        sent.map_err(|_| StoreError::backend("reading the log back was given up", gone))
    }
}

impl Taking {
    /// Takes all records until the other end is dropped, or a record fails.
    pub(super) fn each(
        self,
        mut take: impl FnMut(&Read) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        for read in self.read {
            take(&read)?;
            if let Change::Write { message, .. } = read.change
                && message.buffer.capacity() <= KEPT_BYTES
            {
                // Dropped if there are enough.
                let _ = self.used.try_send(message.buffer);
            }
        }
        Ok(())
    }
}

/// The error for a record whose body cannot be decoded.
pub(super) fn undecodable(sequence: u64, error: promkairos_wire::WireError) -> StoreError {
    StoreError::backend(format!("record {sequence} of the log cannot be decoded"), error)
}
