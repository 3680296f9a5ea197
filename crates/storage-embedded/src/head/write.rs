//! Writes: checked against the limits, then in the log, then in memory.
//!
//! Invariant: a write is answered after its record is on disk and [`applier`](super::applier) has its points in memory.

use tokio::sync::oneshot;
use tracing::{Instrument, info_span};

use super::applier::{Answered, Step, answered};
use super::inner::Inner;
use super::prepared::{self, Judge};
use super::recent_samples::Resolved;
use super::wal::{Admission, Record};
use promkairos_model::{Body, Protocol, Rejections, Target, WriteBatch, WriteOutcome};
use promkairos_storage::StoreError;

/// A write on its way to the log and to memory.
struct Accepted {
    rejections: Rejections,
    answered: Answered<WriteOutcome>,
}

impl Inner {
    /// Writes to the log, then to memory. Fails if the log or memory is full.
    pub(super) async fn write(&self, batch: WriteBatch<'_>) -> Result<WriteOutcome, StoreError> {
        let encoded = match batch.body {
            Some(Body { .. }) => Vec::new(),
            None => encode(&batch)?,
        };
        let bytes = batch.body.map_or(encoded.len(), |body| body.compressed.len());
        self.check_limit(bytes).map_err(|(setting, error)| {
            self.metrics.limits.reached(setting);
            error
        })?;
        let room = self.wal.admit(bytes + prepared::waiting_bytes(&batch));
        let room = room.instrument(info_span!("wait")).await;
        let accepted = info_span!("look-up").in_scope(|| self.accept(room, batch, &encoded))?;
        let Accepted { rejections, answered: answer } = accepted;
        let outcome = answered(answer).instrument(info_span!("log")).await??;
        self.wake_if_full();
        Ok(WriteOutcome { rejections, ..outcome })
    }

    /// Gives the batch its position in the log and among the steps to be applied. Synchronous, so
    /// that no lock is held over an await.
    fn accept(
        &self,
        room: Admission,
        mut batch: WriteBatch<'_>,
        encoded: &[u8],
    ) -> Result<Accepted, StoreError> {
        let body = batch.body;
        let protocol = if batch.longs.is_empty() { Protocol::V2 } else { Protocol::V2Longs };
        let mut rejections = std::mem::take(&mut batch.rejections);
        let judge = Judge::Accept { refuse: self.options.refuse, pressure: &self.options.pressure };
        let resolved = self.memory.resolve(batch, judge);
        let Resolved { write, judged, map: _map } = resolved;
        rejections.extend(judged.rejections);
        let record = match &body {
            Some(body) => {
                let rejected = rejections.targets().to_vec();
                Record::Write { protocol: body.protocol, rejected, body: body.compressed }
            }
            None => {
                // A batch without a body is encoded in its order, so positions stay.
                let rejected = judged.left_out.into_iter().map(Target::Series).collect();
                Record::Write { protocol, rejected, body: encoded }
            }
        };
        let (answer, answered) = oneshot::channel();
        let mut order = self.order.lock();
        let accepted = order.next_stamp();
        let commit = self.wal.append(room, accepted, record)?;
        let stamp = if self.options.keeps_stamps { accepted } else { 0 };
        order.applier.push(Step::Write { commit, write, stamp, answer });
        Ok(Accepted { rejections, answered })
    }
}

/// Encodes a body for a batch without one.
fn encode(batch: &WriteBatch<'_>) -> Result<Vec<u8>, StoreError> {
    let raw = promkairos_wire::encode_v2(batch);
    let body = promkairos_wire::snappy::compress(&raw)
        .map_err(|error| StoreError::Invalid(error.to_string()))?;
    promkairos_wire::snappy::declared_len(&body)
        .map_err(|error| StoreError::Limit(error.to_string()))?;
    Ok(body)
}
