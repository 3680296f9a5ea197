//! How much of remote write may be in memory at a time, and the buffers it uses.
//!
//! Bodies count by the bytes that have come, so that a slow sender holds no more than it
//! sent. Decoded requests count by the length they declare. Who finds no room waits for
//! a bounded time and is then sent away with 503. No one waits for room for a body while
//! holding room to decode, so that waiting always ends.

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

use super::Refusal;
use crate::limits;
use crate::storage::StoreError;
use crate::wire::Scratch;

/// Permits are for pieces of this many bytes.
const PIECE: usize = 16 << 10;
/// Memory of a decoded request, by the bytes of its message.
const EXPANSION: usize = 3;
/// Buffers kept for later requests: how many, and of what size at most.
const KEPT_BUFFERS: usize = 16;
const KEPT_BUFFER_BYTES: usize = 4 << 20;
/// A longer message is decoded where it holds up no other task.
const LONG_MESSAGE_BYTES: usize = 1 << 20;
/// When to come again after waiting in vain.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The room there is for requests.
pub(crate) struct Intake {
    bodies: Semaphore,
    decoded: Semaphore,
    buffers: Mutex<Vec<Scratch>>,
}

/// A body, and its share of the room.
pub(super) struct ReceivedBody<'a> {
    pub(super) bytes: Bytes,
    _permit: SemaphorePermit<'a>,
}

/// Room to decode one request, with the buffers for it.
pub(super) struct Room<'a> {
    intake: &'a Intake,
    scratch: Scratch,
    _permit: SemaphorePermit<'a>,
}

impl Intake {
    /// Room as `limits` has it.
    pub(crate) fn new() -> Self {
        Self {
            bodies: Semaphore::new(limits::MAX_BODY_BYTES_IN_FLIGHT / PIECE),
            decoded: Semaphore::new(limits::MAX_DECODED_BYTES_IN_FLIGHT / PIECE),
            buffers: Mutex::default(),
        }
    }

    /// Reads a body within its limits of size and time.
    pub(super) async fn read(
        &self,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<ReceivedBody<'_>, Refusal> {
        let declared = headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok());
        let declared: usize = declared.and_then(|v| v.parse().ok()).unwrap_or(0);
        if declared > limits::MAX_BODY_BYTES {
            return Err(Refusal::BodyTooLarge(limits::MAX_BODY_BYTES));
        }
        let permit = bounded(self.bodies.acquire_many(1)).await?;
        let reading = self.read_pieces(permit, body, declared.min(PIECE));
        timeout(limits::BODY_TIMEOUT, reading).await.map_err(|_| Refusal::BodyTooSlow)?
    }

    async fn read_pieces<'a>(
        &'a self,
        mut permit: SemaphorePermit<'a>,
        body: Body,
        reserve: usize,
    ) -> Result<ReceivedBody<'a>, Refusal> {
        let mut bytes = BytesMut::with_capacity(reserve);
        let mut pieces = body.into_data_stream();
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(Refusal::BodyBroken)?;
            let length = bytes.len() + piece.len();
            if length > limits::MAX_BODY_BYTES {
                return Err(Refusal::BodyTooLarge(limits::MAX_BODY_BYTES));
            }
            let more = length.div_ceil(PIECE).saturating_sub(permit.num_permits());
            if more > 0 {
                let more = self.bodies.try_acquire_many(more as u32).map_err(|_| overloaded())?;
                permit.merge(more);
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(ReceivedBody { bytes: bytes.freeze(), _permit: permit })
    }

    /// Room for a message of `decoded` bytes, as soon as there is some.
    pub(super) async fn room_to_decode(&self, decoded: usize) -> Result<Room<'_>, Refusal> {
        let pieces = (decoded * EXPANSION).div_ceil(PIECE).max(1);
        let permit = bounded(self.decoded.acquire_many(pieces as u32)).await?;
        let scratch = self.buffers.lock().pop().unwrap_or_default();
        Ok(Room { intake: self, scratch, _permit: permit })
    }
}

const _: () = assert!(
    limits::MAX_DECODED_BYTES * EXPANSION <= limits::MAX_DECODED_BYTES_IN_FLIGHT,
    "the largest request must find room"
);
const _: () = assert!(limits::MAX_BODY_BYTES <= limits::MAX_BODY_BYTES_IN_FLIGHT);

impl Room<'_> {
    /// The buffers.
    pub(super) fn scratch(&mut self) -> &mut Scratch {
        &mut self.scratch
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        let scratch = std::mem::take(&mut self.scratch);
        let mut buffers = self.intake.buffers.lock();
        if scratch.capacity() <= KEPT_BUFFER_BYTES && buffers.len() < KEPT_BUFFERS {
            buffers.push(scratch);
        }
    }
}

/// Runs `decode` on a message of `length` bytes, beside the runtime's tasks when it is long.
pub(super) fn run_long<T>(length: usize, decode: impl FnOnce() -> T) -> T {
    let threads = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
    if threads && length > LONG_MESSAGE_BYTES {
        tokio::task::block_in_place(decode)
    } else {
        decode()
    }
}

async fn bounded<'a, E>(
    permit: impl Future<Output = Result<SemaphorePermit<'a>, E>>,
) -> Result<SemaphorePermit<'a>, Refusal> {
    match timeout(limits::INTAKE_WAIT, permit).await {
        Ok(Ok(permit)) => Ok(permit),
        // The semaphores are never closed.
        Ok(Err(_)) | Err(_) => Err(overloaded()),
    }
}

fn overloaded() -> Refusal {
    let what = "too many remote-write requests at a time".to_owned();
    StoreError::Unavailable { what, retry_after: RETRY_AFTER }.into()
}
