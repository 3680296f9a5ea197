//! Remote write as the pipeline sees it: a snappy block with a message, which the log keeps as it came.

use promkairos_ingest::{EXPANSION, ParseError, Parser, Scratch, Within};
use promkairos_model::{Body, Protocol, WriteBatch};
use promkairos_wire::{self as wire, Policy, WireError, snappy};

/// Memory of a request of version 2 per byte of its message: its label sets are assembled from shared texts.
const EXPANSION_OF_SYMBOLS: usize = 16;

/// Requests of remote write.
pub(super) struct RemoteWrite {
    pub(super) protocol: Protocol,
}

impl Parser for RemoteWrite {
    const REQUESTS: &'static str = "remote writes";

    fn parse<'a>(
        &self,
        body: &'a [u8],
        scratch: &'a mut Scratch,
        within: Within,
    ) -> Result<WriteBatch<'a>, ParseError> {
        let body = Body { protocol: self.protocol, compressed: body };
        let policy = Policy::AcceptWithin { times: within.times, bytes: within.bytes };
        wire::decode(body, &mut scratch.wire, policy).map_err(parse_error)
    }

    fn message_bytes(&self, body: &[u8]) -> Result<usize, ParseError> {
        match snappy::declared_len(body) {
            Ok(bytes) | Err(WireError::TooLarge { declared: bytes, .. }) => Ok(bytes),
            Err(error) => Err(parse_error(error)),
        }
    }

    fn expansion(&self) -> usize {
        match self.protocol {
            Protocol::V1 => EXPANSION,
            Protocol::V2 | Protocol::V2Typed | Protocol::V2Longs => EXPANSION_OF_SYMBOLS,
        }
    }
}

/// The error of a body that does not decode, in the words of the pipeline.
pub(super) fn parse_error(error: WireError) -> ParseError {
    match error {
        WireError::Expands(most) => ParseError::Expands(most),
        WireError::Limit { what: wire::SERIES, limit } => ParseError::TooManySeries(limit),
        WireError::Limit { what: wire::SAMPLES, limit } => ParseError::TooManySamples(limit),
        error => ParseError::Malformed(error.to_string()),
    }
}
