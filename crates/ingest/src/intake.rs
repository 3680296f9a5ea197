//! Limits the memory of request bodies, and keeps the buffers to decode them.
//!
//! A body counts by the bytes that have arrived, so a slow sender holds no more than it sent. A
//! decoded request counts by its declared length. A request without room waits for a bounded time
//! and is then refused. No request waits for room for its body while it holds room to
//! decode, so waiting always ends.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use promkairos_model::limits;
use promkairos_storage::{MEMORY_LIMIT, NoPermit, Permit, Permits, StoreError};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;

use super::parser::{EXPANSION, Scratch};
use super::refusal::Refusal;

/// Bytes of one permit.
const PIECE: usize = 16 << 10;
/// Buffers are kept up to this part of the room.
const KEPT_PART: usize = 4;
/// A longer message is decoded with `block_in_place`, so that it blocks no other task.
const LONG_MESSAGE_BYTES: usize = 1 << 20;

/// The room for requests.
pub struct Intake {
    bodies: Permits,
    decoded: Permits,
    buffers: Mutex<Vec<Scratch>>,
    /// Longest wait for room.
    wait: Duration,
    /// Longest time for a body to arrive.
    body_timeout: Duration,
}

/// A body that is arriving, with permits for what has come.
pub struct IncomingBody<'a> {
    intake: &'a Intake,
    bytes: BytesMut,
    permit: Permit,
    most: usize,
}

/// A body with its permits.
pub struct ReceivedBody {
    /// The body.
    pub bytes: Bytes,
    permit: Permit,
}

/// Room to decode one request, with buffers.
pub struct Room<'a> {
    intake: &'a Intake,
    scratch: Scratch,
    permit: Permit,
}

impl Default for Intake {
    /// The room and the times of [`limits`].
    fn default() -> Self {
        Self::with_body_timeout(limits::BODY_TIMEOUT)
    }
}

impl Intake {
    /// Like the default, with a different body timeout.
    pub fn with_body_timeout(body_timeout: Duration) -> Self {
        let bodies = limits::MAX_BODY_BYTES_IN_FLIGHT as u64;
        Self::with_room(bodies, limits::MAX_DECODED_BYTES_IN_FLIGHT as u64, body_timeout)
    }

    /// Like the default, with room for `bodies` bytes of bodies and `decoded` bytes of decoded requests.
    pub fn with_room(bodies: u64, decoded: u64, body_timeout: Duration) -> Self {
        let [bodies, decoded] = [bodies, decoded].map(|bytes| {
            let pieces = usize::try_from(bytes).unwrap_or(usize::MAX) / PIECE;
            Permits::new(MEMORY_LIMIT, pieces)
        });
        Self { bodies, decoded, buffers: Mutex::default(), wait: limits::INTAKE_WAIT, body_timeout }
    }

    /// Bytes of bodies, and estimated bytes of decoded requests, that are in memory now.
    pub fn held(&self) -> (u64, u64) {
        let bytes = |of: &Permits| ((of.limit() - of.free()) * PIECE) as u64;
        (bytes(&self.bodies), bytes(&self.decoded))
    }

    /// Longest time for a body to arrive.
    pub fn body_timeout(&self) -> Duration {
        self.body_timeout
    }

    /// Room for a body of at most `most` bytes that is about to arrive. `declared` is the length that its sender
    /// declares, or 0.
    pub async fn receive(&self, declared: usize, most: usize) -> Result<IncomingBody<'_>, Refusal> {
        if declared > most {
            return Err(Refusal::BodyTooLarge(most));
        }
        let permit = self.bodies.take(1, Instant::now() + self.wait).await.map_err(overloaded)?;
        let bytes = BytesMut::with_capacity(declared.min(PIECE));
        Ok(IncomingBody { intake: self, bytes, permit, most })
    }

    /// Room for a body of at most `most` bytes that is in memory.
    pub async fn hold(&self, bytes: Bytes, most: usize) -> Result<ReceivedBody, Refusal> {
        if bytes.len() > most {
            return Err(Refusal::BodyTooLarge(most));
        }
        let mut permit =
            self.bodies.take(1, Instant::now() + self.wait).await.map_err(overloaded)?;
        self.grow(&mut permit, bytes.len())?;
        Ok(ReceivedBody { bytes, permit })
    }

    /// Takes permits for a body that has grown to `length` bytes.
    fn grow(&self, permit: &mut Permit, length: usize) -> Result<(), Refusal> {
        let more = length.div_ceil(PIECE).saturating_sub(permit.num_permits());
        if more > 0 {
            permit.merge(self.bodies.try_take(more).map_err(overloaded)?);
        }
        Ok(())
    }

    /// Replaces the bytes of a body; takes further permits if the new bytes need them.
    pub fn in_place(&self, mut body: ReceivedBody, bytes: Bytes) -> Result<ReceivedBody, Refusal> {
        self.grow(&mut body.permit, bytes.len())?;
        Ok(ReceivedBody { bytes, ..body })
    }

    /// Waits for room to decode a message to `bytes` bytes; a message larger than the room takes all of it.
    pub async fn room_for(&self, bytes: usize) -> Result<Room<'_>, Refusal> {
        let pieces = bytes.div_ceil(PIECE).max(1);
        let permit =
            self.decoded.take(pieces, Instant::now() + self.wait).await.map_err(overloaded)?;
        let scratch = self.buffers.lock().pop().unwrap_or_default();
        Ok(Room { intake: self, scratch, permit })
    }

    /// Waits for all the room, for a message that takes far more memory than others of its length.
    pub(crate) async fn all_room(&self) -> Result<Room<'_>, Refusal> {
        self.room_for(usize::MAX).await
    }
}

const _: () = assert!(
    limits::MAX_DECODED_BYTES * EXPANSION <= limits::MAX_DECODED_BYTES_IN_FLIGHT,
    "the largest request must find room"
);
const _: () = assert!(limits::MAX_BODY_BYTES <= limits::MAX_BODY_BYTES_IN_FLIGHT);

impl IncomingBody<'_> {
    /// Adds what has come.
    pub fn push(&mut self, piece: &[u8]) -> Result<(), Refusal> {
        let length = self.bytes.len() + piece.len();
        if length > self.most {
            return Err(Refusal::BodyTooLarge(self.most));
        }
        self.intake.grow(&mut self.permit, length)?;
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    /// The whole body.
    pub fn finish(self) -> ReceivedBody {
        ReceivedBody { bytes: self.bytes.freeze(), permit: self.permit }
    }
}

impl Room<'_> {
    /// The bytes that the decoded request may take.
    pub(crate) fn bytes(&self) -> usize {
        self.permit.num_permits() * PIECE
    }

    /// The buffers.
    pub(crate) fn scratch(&mut self) -> &mut Scratch {
        &mut self.scratch
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        let scratch = std::mem::take(&mut self.scratch);
        let mut buffers = self.intake.buffers.lock();
        let kept: usize = buffers.iter().map(Scratch::capacity).sum();
        let most = self.intake.decoded.limit() * PIECE / KEPT_PART;
        if scratch.capacity() <= limits::MAX_KEPT_BUFFER_BYTES
            && buffers.len() < limits::MAX_KEPT_BUFFERS
            && kept + scratch.capacity() <= most
        {
            buffers.push(scratch);
        }
    }
}

/// Runs `decode` on a message of `length` bytes; a long one does not block other tasks of the runtime.
pub fn run_long<T>(length: usize, decode: impl FnOnce() -> T) -> T {
    let threads = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
    if threads && length > LONG_MESSAGE_BYTES {
        tokio::task::block_in_place(decode)
    } else {
        decode()
    }
}

fn overloaded(NoPermit { setting }: NoPermit) -> Refusal {
    let what = format!(
        "too many request bodies at a time: they, and what they decode to, may take parts of the setting {setting}"
    );
    StoreError::unavailable(what).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = limits::MAX_BODY_BYTES;

    fn small(body_pieces: usize, decoded_pieces: usize) -> Intake {
        let [bodies, decoded] =
            [body_pieces, decoded_pieces].map(|n| Permits::new(MEMORY_LIMIT, n));
        Intake { bodies, decoded, wait: Duration::from_millis(1), ..Intake::default() }
    }

    fn is_overloaded<T>(result: Result<T, Refusal>) -> bool {
        let Err(Refusal::Store(error @ StoreError::Unavailable { .. })) = result else {
            return false;
        };
        error.to_string().contains("the setting memory-limit")
    }

    /// Receives a body in pieces.
    async fn receive(intake: &Intake, body: Vec<u8>) -> Result<ReceivedBody, Refusal> {
        let mut incoming = intake.receive(0, MOST).await?;
        for piece in body.chunks(PIECE / 2) {
            incoming.push(piece)?;
        }
        Ok(incoming.finish())
    }

    #[tokio::test]
    async fn a_body_takes_room_for_what_has_come() {
        let intake = small(4, 0);
        let first = receive(&intake, vec![1; 3 * PIECE]).await.expect("room");
        assert_eq!(first.bytes, vec![1; 3 * PIECE]);
        assert!(is_overloaded(receive(&intake, vec![1; 2 * PIECE]).await));
        let second = receive(&intake, vec![1; PIECE]).await.expect("room");
        assert!(is_overloaded(receive(&intake, Vec::new()).await));
        drop((first, second));
        receive(&intake, vec![1; 4 * PIECE]).await.expect("room again");
    }

    #[tokio::test]
    async fn a_body_in_memory_takes_the_room_of_its_length() {
        let intake = small(4, 0);
        let body = |pieces: usize| Bytes::from(vec![1; pieces * PIECE]);
        let held = intake.hold(body(3), MOST).await.expect("room");
        assert_eq!(intake.held(), (3 * PIECE as u64, 0));
        assert!(is_overloaded(intake.hold(body(2), MOST).await));
        drop(held);
        let refused = intake.hold(body(2), 2 * PIECE - 1).await;
        assert!(matches!(refused, Err(Refusal::BodyTooLarge(_))));
        assert_eq!(intake.held(), (0, 0));
    }

    #[tokio::test]
    async fn bodies_that_are_too_large_are_refused() {
        let intake = small(MOST / PIECE, 0);
        receive(&intake, vec![0; MOST]).await.expect("just within the limit");
        let refused = receive(&intake, vec![0; MOST + 1]).await;
        assert!(matches!(refused, Err(Refusal::BodyTooLarge(MOST))));
        let refused = intake.receive(MOST + 1, MOST).await;
        assert!(matches!(refused, Err(Refusal::BodyTooLarge(MOST))));
        assert_eq!(intake.bodies.free(), MOST / PIECE);
    }

    #[tokio::test]
    async fn a_message_without_room_to_decode_is_refused() {
        let intake = small(0, 4);
        let room = intake.room_for(3 * PIECE).await.expect("3 of 4 pieces");
        assert!(is_overloaded(intake.room_for(3 * PIECE).await));
        let other = intake.room_for(0).await.expect("the fourth");
        drop((room, other));
        assert_eq!(intake.held(), (0, 0));
        let largest = intake.room_for(300 * PIECE).await.expect("it has all of it");
        assert_eq!(intake.held(), (0, 4 * PIECE as u64));
        drop(largest);
        intake.room_for(3 * PIECE).await.expect("room again");
        assert_eq!(intake.buffers.lock().len(), 2, "buffers wait for the next request");
    }

    #[tokio::test]
    async fn a_message_that_takes_far_more_than_its_length_is_decoded_alone() {
        let intake = small(0, 8);
        let room = intake.room_for(3 * PIECE).await.expect("3 of 8 pieces");
        assert_eq!(room.bytes(), 3 * PIECE);
        assert!(is_overloaded(intake.all_room().await));
        drop(room);
        let all = intake.all_room().await.expect("all of it");
        assert_eq!(all.bytes(), 8 * PIECE);
        assert!(is_overloaded(intake.room_for(1).await));
    }
}
