//! The part of a protocol that the pipeline needs: from bytes to a batch.

use promkairos_model::{SampleTimes, ShownSize, WriteBatch};

/// Most bytes of a batch per byte of its message, unless the protocol shares texts between series.
pub const EXPANSION: usize = 3;

/// Reads the requests of a protocol.
pub trait Parser: Sync {
    /// What a request is called in the log, in the plural.
    const REQUESTS: &'static str;

    /// The batch in a body. It may borrow from the body and from `scratch`.
    ///
    /// The parser leaves points of other times out and adds them to [`WriteBatch::rejections`]. It does not check
    /// label sets.
    fn parse<'a>(
        &self,
        body: &'a [u8],
        scratch: &'a mut Scratch,
        within: Within,
    ) -> Result<WriteBatch<'a>, ParseError>;

    /// Bytes of the message in a body, which are more than those of the body if it is compressed.
    fn message_bytes(&self, body: &[u8]) -> Result<usize, ParseError> {
        Ok(body.len())
    }

    /// Most bytes of a batch per byte of its message, as usual senders have them.
    fn expansion(&self) -> usize {
        EXPANSION
    }
}

/// What a parser accepts.
#[derive(Debug, Clone, Copy)]
pub struct Within {
    /// The times of points.
    pub times: SampleTimes,
    /// Most bytes of the batch, approximately. A batch that takes more than its message lets expect fails with
    /// [`ParseError::Expands`]; a parser whose batches cannot ignores this.
    pub bytes: usize,
}

/// Buffers of a parser. Another request uses them again.
#[derive(Debug, Default)]
pub struct Scratch {
    /// The buffers of remote write.
    pub wire: promkairos_wire::Scratch,
    /// Label sets that are not a slice of the body. Not empty if a request before used it.
    pub labels: Vec<u8>,
}

impl Scratch {
    /// Bytes that the buffers keep allocated.
    pub(crate) fn capacity(&self) -> usize {
        self.wire.capacity() + self.labels.capacity()
    }
}

/// Why a parser makes no batch of a body. Sending it again cannot succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Not a request of the protocol, or beyond a limit that is not a setting.
    #[error("{0}")]
    Malformed(String),
    /// More series than this, which is the largest value of the setting.
    #[error("more than {0} series")]
    TooManySeries(usize),
    /// More floats and histograms than this, which is the largest value of the setting.
    #[error("more than {0} samples")]
    TooManySamples(usize),
    /// The batch takes more memory than [`Within::bytes`]. The pipeline parses the body again with more memory.
    #[error("the body takes more than {} of memory when it is decoded", ShownSize::of(*.0))]
    Expands(usize),
}
