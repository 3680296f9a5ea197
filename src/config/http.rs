//! The settings of connections and of requests in general.

use std::time::Duration;

use super::error::ConfigError;
use super::raw::Raw;
use crate::limits;

/// Limits of what clients may hold, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpConfig {
    /// Connections at a time.
    pub connections: usize,
    /// Requests of one HTTP/2 connection at a time.
    pub streams: u32,
    /// Requests that are answered at a time. Changes while the server runs.
    pub requests: usize,
    /// Longest time for the head of a request.
    pub head_timeout: Duration,
    /// Longest idle time between two requests of a connection.
    pub idle_timeout: Duration,
    /// Longest time for a body to arrive.
    pub body_timeout: Duration,
    /// How long a client may read nothing of an answer.
    pub answer_timeout: Duration,
}

impl Default for HttpConfig {
    /// The values of `crate::limits`.
    fn default() -> Self {
        Self {
            connections: limits::MAX_CONNECTIONS,
            streams: limits::MAX_HTTP2_STREAMS,
            requests: limits::MAX_CONCURRENT_REQUESTS,
            head_timeout: limits::HEAD_TIMEOUT,
            idle_timeout: limits::IDLE_TIMEOUT,
            body_timeout: limits::BODY_TIMEOUT,
            answer_timeout: limits::ANSWER_STALL,
        }
    }
}

impl HttpConfig {
    pub(super) fn from_raw(raw: &Raw) -> Result<Self, ConfigError> {
        Ok(Self {
            connections: raw.count("max-connections", 1)?,
            streams: raw.count("max-http2-streams", 1)? as u32, // as large as a count may be
            requests: raw.count("max-concurrent-requests", 1)?,
            head_timeout: raw.positive("http-head-timeout")?,
            idle_timeout: raw.positive("http-idle-timeout")?,
            body_timeout: raw.positive("http-body-timeout")?,
            answer_timeout: raw.positive("http-answer-timeout")?,
        })
    }
}
