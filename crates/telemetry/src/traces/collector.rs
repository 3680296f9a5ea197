//! The collector, as the exporter uses it: one HTTP request for each batch, with a timeout.
//!
//! Only the thread of the queue calls this, which may block. Failures are logged now and then,
//! without headers and without the answer of the collector: both may hold secrets.

use std::fmt;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use parking_lot::Mutex;

use crate::Throttle;

/// Longest time of a request. A failed request is repeated until this time has passed.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Most bytes of an answer, of which only errors are used.
const MOST_ANSWER: u64 = 64 << 10;

/// A collector.
pub(super) struct Collector {
    url: String,
    agent: ureq::Agent,
    failures: Mutex<Throttle>,
}

impl Collector {
    /// A collector that takes traces at `url`.
    pub(super) fn new(url: &str) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            // Headers may be secrets: they are not sent anywhere else.
            .max_redirects(0)
            .timeout_global(Some(TIMEOUT))
            .build();
        Self { url: url.to_owned(), agent: config.into(), failures: Mutex::default() }
    }

    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ureq::Error> {
        let answer = self.agent.run(request.map(|body| body.to_vec()))?;
        let (parts, mut body) = answer.into_parts();
        let body = body.with_config().limit(MOST_ANSWER).read_to_vec()?;
        Ok(Response::from_parts(parts, body.into()))
    }

    fn failed(&self, why: &dyn fmt::Display) {
        if let Some(times) = self.failures.lock().count(1, Instant::now()) {
            tracing::warn!(times, "traces were not taken by {}: {why}", self.url);
        }
    }
}

/// Without the agent, which prints nothing useful.
impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector").field("url", &self.url).finish_non_exhaustive()
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        match self.send(request) {
            Ok(answer) => {
                if !answer.status().is_success() {
                    self.failed(&answer.status());
                }
                Ok(answer)
            }
            Err(error) => {
                self.failed(&error);
                Err(error.into())
            }
        }
    }
}
