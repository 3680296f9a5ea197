//! The messages of `proto/`. Remote read decodes its requests with them, federation encodes its pages,
//! and tests use them as an independent encoder and decoder. `proto/generated` is committed, so a build
//! needs no compiler of messages; `tests/it/proto.rs` compares it with its definitions and writes it anew.

#![allow(missing_docs, reason = "the messages are described by the protocols")]

/// Remote write 1.0 and remote read.
#[allow(clippy::all, reason = "generated")]
pub mod v1 {
    include!("../../../proto/generated/prometheus.rs");
}

/// Remote write 2.0.
#[allow(clippy::all, reason = "generated")]
pub mod v2 {
    include!("../../../proto/generated/io.prometheus.write.v2.rs");
}

/// The exposition format in protocol buffers.
#[allow(clippy::all, reason = "generated")]
pub mod client {
    include!("../../../proto/generated/io.prometheus.client.rs");
}
