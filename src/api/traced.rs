//! The answer to a traced request. Its head is not the end: large answers are made while they are
//! sent, so the request lasts until the body has ended or is given up.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::response::Response;
use http_body::{Body as _, Frame, SizeHint};
use tracing::{Span, info_span};

/// The same answer, whose body is a part of the request. Without a span nothing is done.
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

/// A body on its way, and the spans that end with it.
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
        // Both: a span has ended when it was left last.
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
