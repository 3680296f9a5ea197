//! Splits a body into small pieces, however it was made, so that a slow reader asks for more in time. Timeouts
//! are not handled here.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use http_body::{Body as _, Frame, SizeHint};

use promkairos_model::limits::ANSWER_PIECE_BYTES;

/// A body, and the rest of its last frame.
#[derive(Debug)]
pub struct BodyPieces {
    body: Body,
    rest: Bytes,
}

impl BodyPieces {
    /// The pieces of a whole body.
    pub fn new(body: Body) -> Self {
        Self { body, rest: Bytes::new() }
    }

    /// The next piece, of at most [`ANSWER_PIECE_BYTES`]. Pieces of one frame share its memory.
    pub fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                end => return Poll::Ready(end),
            }
        }
        let piece = self.rest.split_to(self.rest.len().min(ANSWER_PIECE_BYTES));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    /// Whether nothing is left.
    pub fn has_ended(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    /// The remaining bytes, as far as they are known.
    pub fn size_hint(&self) -> SizeHint {
        let (of_body, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut all = SizeHint::new();
        all.set_lower(of_body.lower().saturating_add(rest));
        if let Some(upper) = of_body.upper() {
            all.set_upper(upper.saturating_add(rest));
        }
        all
    }
}
