//! The answer to a traced request. Large answers are built while they are sent, so the request
//! lasts until the body has ended or was aborted.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::response::Response;
use http_body::{Body as _, Frame, SizeHint};
use tracing::{Span, info_span};

/// The same answer, with its body inside the span of the request. Without a span it is unchanged.
pub(super) fn answer(response: Response, request: Span) -> Response {
    if request.is_disabled() {
        return response;
    }
    let status = response.status();
    request.record("http.response.status_code", i64::from(status.as_u16()));
    if status.is_server_error() {
        request.record("otel.status_code", "error");
    }
    if response.body().is_end_stream() {
        return response;
    }
    let answer = request.in_scope(|| info_span!("answer"));
    response.map(|body| Body::new(Traced { body, answer, request }))
}

/// A body being sent, and the spans that end with it.
struct Traced {
    body: Body,
    answer: Span,
    request: Span,
}

impl http_body::Body for Traced {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        // Both are entered, because a span ends at its last exit.
        let (_request, _answer) = (this.request.enter(), this.answer.enter());
        Pin::new(&mut this.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
