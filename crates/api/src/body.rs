//! Receives the body of a request within the room for bodies.
//!
//! What is too large is refused by its declared length, or when it has grown too large; what is too slow, when its
//! time is up.

use axum::body::Body;
use axum::http::{HeaderMap, header};
use futures::StreamExt;
use tokio::time::timeout;

use super::request_error::RequestError;
use promkairos_ingest::{BODY_SIZE, Intake, ReceivedBody, Refusal};
use promkairos_telemetry::HttpMetrics;

/// Reads a body of at most `most` bytes within its time limit; a body that is too large or too slow is counted.
pub(crate) async fn receive(
    intake: &Intake,
    headers: &HeaderMap,
    body: Body,
    most: usize,
    metrics: &HttpMetrics,
) -> Result<ReceivedBody, RequestError> {
    receive_within(intake, headers, body, most).await.inspect_err(|error| match error {
        RequestError::Refused(Refusal::BodyTooLarge(_)) => metrics.limits.reached(BODY_SIZE),
        RequestError::BodyTooSlow(_) => metrics.limits.reached("http-body-timeout"),
        _ => {}
    })
}

async fn receive_within(
    intake: &Intake,
    headers: &HeaderMap,
    body: Body,
    most: usize,
) -> Result<ReceivedBody, RequestError> {
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok());
    let declared: usize = declared.and_then(|v| v.parse().ok()).unwrap_or(0);
    let mut incoming = intake.receive(declared, most).await?;
    let mut pieces = body.into_data_stream();
    let receiving = async {
        while let Some(piece) = pieces.next().await {
            incoming.push(&piece.map_err(RequestError::BodyBroken)?)?;
        }
        Ok(incoming.finish())
    };
    let most = intake.body_timeout();
    timeout(most, receiving).await.unwrap_or(Err(RequestError::BodyTooSlow(most)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::body::Bytes;

    use super::*;
    use promkairos_telemetry::Metrics;

    const MOST: usize = 1 << 20;

    async fn read(
        intake: &Intake,
        declared: &'static str,
        body: Body,
    ) -> Result<Bytes, RequestError> {
        let headers = HeaderMap::from_iter([(
            header::CONTENT_LENGTH,
            axum::http::HeaderValue::from_static(declared),
        )]);
        let received = receive(intake, &headers, body, MOST, &Metrics::new().http).await;
        received.map(|body| body.bytes)
    }

    #[tokio::test]
    async fn bodies_that_are_too_large_or_too_slow_are_refused() {
        let intake = Intake::default();
        let too_large = |result: Result<Bytes, RequestError>| {
            matches!(result, Err(RequestError::Refused(Refusal::BodyTooLarge(MOST))))
        };
        let largest = read(&intake, "0", Body::from(vec![0; MOST])).await;
        assert_eq!(largest.expect("just within the limit").len(), MOST);
        assert!(too_large(read(&intake, "0", Body::from(vec![0; MOST + 1])).await));
        assert!(too_large(read(&intake, "1048577", Body::empty()).await));
        let endless = futures::stream::pending::<Result<Bytes, std::io::Error>>();
        let hasty = Intake::with_body_timeout(Duration::from_millis(1));
        let refused = read(&hasty, "0", Body::from_stream(endless)).await;
        assert!(matches!(refused, Err(RequestError::BodyTooSlow(_))));
        let broken = futures::stream::iter([Err::<Bytes, _>(std::io::Error::other("gone"))]);
        let refused = read(&intake, "0", Body::from_stream(broken)).await;
        assert!(matches!(refused, Err(RequestError::BodyBroken(_))));
        assert_eq!(intake.held(), (0, 0));
    }
}
