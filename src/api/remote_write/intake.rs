//! Limits the memory of request bodies, and keeps the buffers to decode them.
//!
//! A body counts by the bytes that have arrived, so a slow sender holds no more than it sent. A
//! decoded request counts by its declared length. A request without room waits for a bounded time
//! and is then refused with 503. No request waits for room for its body while it holds room to
//! decode, so waiting always ends.

use std::future::Future;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, header};
use bytes::BytesMut;
use futures::StreamExt;
use parking_lot::Mutex;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::refusal::Refusal;
use crate::limits;
use crate::model::{Protocol, ShownSize};
use crate::storage::{MEMORY_LIMIT, StoreError};
use crate::telemetry::HttpMetrics;
use crate::wire::{Scratch, WireError, snappy};

/// The setting that limits the bytes of a body.
const BODY_SIZE: &str = "max-request-body-size";
/// The setting that limits the bytes of a decoded body.
pub(crate) const DECODED_SIZE: &str = "max-decoded-body-size";
/// Bytes of one permit.
const PIECE: usize = 16 << 10;
/// Memory of a decoded request per byte of its message. A message that needs more takes all the room.
const EXPANSION: usize = 3;
/// The same for remote write 2.0, whose label sets are assembled from shared texts.
const EXPANSION_OF_SYMBOLS: usize = 16;
/// Buffers are kept up to this part of the room.
const KEPT_PART: usize = 4;
/// A longer message is decoded with `block_in_place`, so that it blocks no other task.
const LONG_MESSAGE_BYTES: usize = 1 << 20;

/// The room for requests.
pub(crate) struct Intake {
    bodies: Semaphore,
    body_pieces: usize,
    decoded: Semaphore,
    decoded_pieces: usize,
    buffers: Mutex<Vec<Scratch>>,
    /// Longest wait for room.
    wait: Duration,
    /// Longest time for a body to arrive.
    body_timeout: Duration,
}

/// A body with its permits.
pub(crate) struct ReceivedBody<'a> {
    pub(crate) bytes: Bytes,
    permit: SemaphorePermit<'a>,
}

/// Room to decode one request, with buffers.
pub(super) struct Room<'a> {
    intake: &'a Intake,
    scratch: Scratch,
    permit: SemaphorePermit<'a>,
}

impl Intake {
    /// The room and the times of [`limits`].
    pub(crate) fn new() -> Self {
        Self::with_body_timeout(limits::BODY_TIMEOUT)
    }

    /// Like [`Self::new`], with a different body timeout.
    pub(crate) fn with_body_timeout(body_timeout: Duration) -> Self {
        let bodies = limits::MAX_BODY_BYTES_IN_FLIGHT as u64;
        Self::with_room(bodies, limits::MAX_DECODED_BYTES_IN_FLIGHT as u64, body_timeout)
    }

    /// Like [`Self::new`], with room for `bodies` bytes of bodies and `decoded` bytes of decoded requests.
    pub(crate) fn with_room(bodies: u64, decoded: u64, body_timeout: Duration) -> Self {
        let pieces = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX) / PIECE;
        let (body_pieces, decoded_pieces) = (pieces(bodies), pieces(decoded));
        Self {
            bodies: Semaphore::new(body_pieces),
            body_pieces,
            decoded: Semaphore::new(decoded_pieces),
            decoded_pieces,
            buffers: Mutex::default(),
            wait: limits::INTAKE_WAIT,
            body_timeout,
        }
    }

    /// Bytes of bodies, and estimated bytes of decoded requests, that are in memory now.
    pub(crate) fn held(&self) -> (u64, u64) {
        let bytes = |all: usize, free: usize| (all.saturating_sub(free) * PIECE) as u64;
        (
            bytes(self.body_pieces, self.bodies.available_permits()),
            bytes(self.decoded_pieces, self.decoded.available_permits()),
        )
    }

    /// Reads a body of at most `most` bytes within its time limit; a body that is too large or too slow is counted.
    pub(crate) async fn read(
        &self,
        headers: &HeaderMap,
        body: Body,
        most: usize,
        metrics: &HttpMetrics,
    ) -> Result<ReceivedBody<'_>, Refusal> {
        let read = self.read_within(headers, body, most).await;
        match &read {
            Err(Refusal::BodyTooLarge(_)) => metrics.limits.reached(BODY_SIZE),
            Err(Refusal::BodyTooSlow(_)) => metrics.limits.reached("http-body-timeout"),
            _ => {}
        }
        read
    }

    async fn read_within(
        &self,
        headers: &HeaderMap,
        body: Body,
        most: usize,
    ) -> Result<ReceivedBody<'_>, Refusal> {
        let declared = headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok());
        let declared: usize = declared.and_then(|v| v.parse().ok()).unwrap_or(0);
        if declared > most {
            return Err(Refusal::BodyTooLarge(most));
        }
        let permit = self.in_time(self.bodies.acquire_many(1)).await?;
        let reading = self.read_pieces(permit, body, declared.min(PIECE), most);
        let read = timeout(self.body_timeout, reading).await;
        read.unwrap_or_else(|_| Err(Refusal::BodyTooSlow(self.body_timeout)))
    }

    async fn read_pieces<'a>(
        &'a self,
        mut permit: SemaphorePermit<'a>,
        body: Body,
        reserve: usize,
        most: usize,
    ) -> Result<ReceivedBody<'a>, Refusal> {
        let mut bytes = BytesMut::with_capacity(reserve);
        let mut pieces = body.into_data_stream();
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(Refusal::BodyBroken)?;
            let length = bytes.len() + piece.len();
            if length > most {
                return Err(Refusal::BodyTooLarge(most));
            }
            self.grow(&mut permit, length)?;
            bytes.extend_from_slice(&piece);
        }
        Ok(ReceivedBody { bytes: bytes.freeze(), permit })
    }

    /// Takes permits for a body that has grown to `length` bytes.
    fn grow<'a>(&'a self, permit: &mut SemaphorePermit<'a>, length: usize) -> Result<(), Refusal> {
        let more = length.div_ceil(PIECE).saturating_sub(permit.num_permits());
        if more > 0 {
            let more = self.bodies.try_acquire_many(more as u32).map_err(|_| overloaded())?;
            permit.merge(more);
        }
        Ok(())
    }

    /// Replaces the bytes of a body; takes further permits if the new bytes need them.
    pub(super) fn in_place<'a>(
        &'a self,
        body: ReceivedBody<'a>,
        bytes: Bytes,
    ) -> Result<ReceivedBody<'a>, Refusal> {
        let ReceivedBody { mut permit, .. } = body;
        self.grow(&mut permit, bytes.len())?;
        Ok(ReceivedBody { bytes, permit })
    }

    /// Waits for room for a message of `decoded` bytes; a message larger than the room takes all of it.
    pub(super) async fn room_to_decode(
        &self,
        protocol: Protocol,
        decoded: usize,
    ) -> Result<Room<'_>, Refusal> {
        let expansion = match protocol {
            Protocol::V1 => EXPANSION,
            Protocol::V2 | Protocol::V2Typed => EXPANSION_OF_SYMBOLS,
        };
        self.room_for(decoded.saturating_mul(expansion)).await
    }

    pub(super) async fn room_for(&self, bytes: usize) -> Result<Room<'_>, Refusal> {
        let pieces = bytes.div_ceil(PIECE).max(1).min(self.decoded_pieces);
        let permit = self.in_time(self.decoded.acquire_many(pieces as u32)).await?;
        let scratch = self.buffers.lock().pop().unwrap_or_default();
        Ok(Room { intake: self, scratch, permit })
    }

    /// Waits for all the room, for a message that takes far more memory than others of its length.
    pub(super) async fn all_room_to_decode(&self) -> Result<Room<'_>, Refusal> {
        self.room_for(usize::MAX).await
    }

    async fn in_time<'a, E>(
        &self,
        permit: impl Future<Output = Result<SemaphorePermit<'a>, E>>,
    ) -> Result<SemaphorePermit<'a>, Refusal> {
        match timeout(self.wait, permit).await {
            Ok(Ok(permit)) => Ok(permit),
            // The semaphores are never closed.
            Ok(Err(_)) | Err(_) => Err(overloaded()),
        }
    }
}

const _: () = assert!(
    limits::MAX_DECODED_BYTES * EXPANSION <= limits::MAX_DECODED_BYTES_IN_FLIGHT,
    "the largest request must find room"
);
const _: () = assert!(limits::MAX_BODY_BYTES <= limits::MAX_BODY_BYTES_IN_FLIGHT);

impl Room<'_> {
    /// The bytes that the decoded request may take.
    pub(super) fn bytes(&self) -> usize {
        self.permit.num_permits() * PIECE
    }

    /// The buffers.
    pub(super) fn scratch(&mut self) -> &mut Scratch {
        &mut self.scratch
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        let scratch = std::mem::take(&mut self.scratch);
        let mut buffers = self.intake.buffers.lock();
        let kept: usize = buffers.iter().map(Scratch::capacity).sum();
        let most = self.intake.decoded_pieces * PIECE / KEPT_PART;
        if scratch.capacity() <= limits::MAX_KEPT_BUFFER_BYTES
            && buffers.len() < limits::MAX_KEPT_BUFFERS
            && kept + scratch.capacity() <= most
        {
            buffers.push(scratch);
        }
    }
}

/// Refuses a block that declares more than `most` bytes. The decoder refuses malformed blocks.
pub(crate) fn check_decoded(block: &[u8], most: usize) -> Result<(), Refusal> {
    match snappy::declared_len(block) {
        Ok(declared) | Err(WireError::TooLarge { declared, .. }) if declared > most => {
            Err(beyond_decoded(declared as u64, most))
        }
        _ => Ok(()),
    }
}

/// The refusal of a body of `declared` decoded bytes.
pub(super) fn beyond_decoded(declared: u64, most: usize) -> Refusal {
    let what = format!("{} decoded", ShownSize::of(declared));
    Refusal::Limit { what, setting: DECODED_SIZE, most: ShownSize::of(most).to_string() }
}

/// Runs `decode` on a message of `length` bytes; a long one does not block other tasks of the runtime.
pub(super) fn run_long<T>(length: usize, decode: impl FnOnce() -> T) -> T {
    let threads = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
    if threads && length > LONG_MESSAGE_BYTES {
        tokio::task::block_in_place(decode)
    } else {
        decode()
    }
}

fn overloaded() -> Refusal {
    let what = format!(
        "too many request bodies at a time: they, and what they decode to, may take parts of the setting {MEMORY_LIMIT}"
    );
    StoreError::Unavailable { what, retry_after: limits::RETRY_AFTER }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ApiError;
    use crate::telemetry::Metrics;

    const MOST: usize = limits::MAX_BODY_BYTES;

    fn small(body_pieces: usize, decoded_pieces: usize) -> Intake {
        let [bodies, decoded] = [body_pieces, decoded_pieces].map(|pieces| (pieces * PIECE) as u64);
        let intake = Intake::with_room(bodies, decoded, Duration::from_secs(60));
        Intake { wait: Duration::from_millis(1), ..intake }
    }

    fn is_overloaded<T>(result: Result<T, Refusal>) -> bool {
        let Err(Refusal::Api(ApiError::Store(error @ StoreError::Unavailable { .. }))) = result
        else {
            return false;
        };
        error.to_string().contains("the setting memory-limit")
    }

    async fn read(intake: &Intake, body: Body) -> Result<ReceivedBody<'_>, Refusal> {
        intake.read(&HeaderMap::new(), body, MOST, &Metrics::new().http).await
    }

    #[tokio::test]
    async fn a_body_takes_room_for_what_has_come() {
        let intake = small(4, 0);
        let first = read(&intake, Body::from(vec![1; 3 * PIECE])).await.expect("room");
        assert_eq!(first.bytes, vec![1; 3 * PIECE]);
        assert!(is_overloaded(read(&intake, Body::from(vec![1; 2 * PIECE])).await));
        let second = read(&intake, Body::from(vec![1; PIECE])).await.expect("room");
        assert!(is_overloaded(read(&intake, Body::empty()).await));
        drop((first, second));
        read(&intake, Body::from(vec![1; 4 * PIECE])).await.expect("room again");
    }

    #[tokio::test]
    async fn bodies_that_are_too_large_or_too_slow_are_refused() {
        let intake = small(limits::MAX_BODY_BYTES / PIECE, 0);
        let largest = Body::from(vec![0; limits::MAX_BODY_BYTES]);
        read(&intake, largest).await.expect("just within the limit");
        let larger = Body::from(vec![0; limits::MAX_BODY_BYTES + 1]);
        let refused = read(&intake, larger).await;
        assert!(matches!(refused, Err(Refusal::BodyTooLarge(MOST))));
        let endless = futures::stream::pending::<Result<Bytes, std::io::Error>>();
        let hasty = Intake { body_timeout: Duration::from_millis(1), ..small(1, 0) };
        let refused = read(&hasty, Body::from_stream(endless)).await;
        assert!(matches!(refused, Err(Refusal::BodyTooSlow(_))));
        let broken = futures::stream::iter([Err::<Bytes, _>(std::io::Error::other("gone"))]);
        let refused = read(&intake, Body::from_stream(broken)).await;
        assert!(matches!(refused, Err(Refusal::BodyBroken(_))));
        assert_eq!(intake.bodies.available_permits(), limits::MAX_BODY_BYTES / PIECE);
    }

    #[tokio::test]
    async fn who_finds_no_room_to_decode_is_sent_away() {
        let intake = small(0, 4);
        let room = intake.room_to_decode(Protocol::V1, PIECE).await.expect("3 of 4 pieces");
        assert!(is_overloaded(intake.room_to_decode(Protocol::V1, PIECE).await));
        let other = intake.room_to_decode(Protocol::V1, 0).await.expect("the fourth");
        drop((room, other));
        assert_eq!(intake.held(), (0, 0));
        let largest =
            intake.room_to_decode(Protocol::V1, 100 * PIECE).await.expect("it has all of it");
        assert_eq!(intake.held(), (0, 4 * PIECE as u64));
        drop(largest);
        intake.room_to_decode(Protocol::V1, PIECE).await.expect("room again");
        assert_eq!(intake.buffers.lock().len(), 2, "buffers wait for the next request");
    }

    #[tokio::test]
    async fn a_message_that_takes_far_more_than_its_length_is_decoded_alone() {
        let intake = small(0, 8);
        let room = intake.room_to_decode(Protocol::V1, PIECE).await.expect("3 of 8 pieces");
        assert_eq!(room.bytes(), 3 * PIECE);
        assert!(is_overloaded(intake.all_room_to_decode().await));
        drop(room);
        let all = intake.all_room_to_decode().await.expect("all of it");
        assert_eq!(all.bytes(), 8 * PIECE);
        assert!(is_overloaded(intake.room_to_decode(Protocol::V1, 1).await));
    }
}
