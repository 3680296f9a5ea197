//! The settings of connections. The limits of requests are in `limits`.

use std::time::Duration;

use super::error::ConfigError;
use super::raw::Raw;
use crate::limits;

/// Limits of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpConfig {
    /// Connections at a time.
    pub connections: usize,
    /// Requests of one HTTP/2 connection at a time.
    pub streams: u32,
    /// Longest time for the head of a request.
    pub head_timeout: Duration,
    /// Longest idle time between two requests of a connection.
    pub idle_timeout: Duration,
    /// How long a client may read nothing of an answer.
    pub answer_timeout: Duration,
}

impl Default for HttpConfig {
    /// The values of `crate::limits`.
    fn default() -> Self {
        Self {
            connections: limits::MAX_CONNECTIONS,
            streams: limits::MAX_HTTP2_STREAMS,
            head_timeout: limits::HEAD_TIMEOUT,
            idle_timeout: limits::IDLE_TIMEOUT,
            answer_timeout: limits::ANSWER_STALL,
        }
    }
}

impl HttpConfig {
    pub(super) fn from_raw(raw: &Raw) -> Result<Self, ConfigError> {
        Ok(Self {
            connections: raw.count("max-connections", 1)?,
            streams: raw.count("max-http2-streams", 1)? as u32, // as large as a count may be
            head_timeout: raw.positive("http-head-timeout")?,
            idle_timeout: raw.positive("http-idle-timeout")?,
            answer_timeout: raw.positive("http-answer-timeout")?,
        })
    }
}
