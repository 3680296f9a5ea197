//! TLS on accepted connections. Each handshake uses the web configuration then in force.
//!
//! `connection_pool` limits the time of a handshake. A failed handshake is counted; it is no server error.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::connection::Watched;
use crate::config::WebConfig;
use crate::telemetry::WebMetrics;

/// The record type of a handshake: the first byte of a TLS connection.
const HANDSHAKE: u8 = 0x16;

/// The answer to a connection without TLS.
const PLAIN: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// Most bytes that are read from a client without TLS.
const MOST_UNREAD: u64 = 1 << 20;

/// TLS of a listener.
#[derive(Clone)]
pub(super) struct Tls {
    web: watch::Receiver<Arc<WebConfig>>,
    metrics: WebMetrics,
}

impl Tls {
    /// Follows a web configuration; `None` = it has no TLS.
    pub(super) fn of(web: watch::Receiver<Arc<WebConfig>>, metrics: WebMetrics) -> Option<Self> {
        let has_tls = web.borrow().tls.is_some();
        has_tls.then_some(Self { web, metrics })
    }

    /// Performs the handshake. A plain-text request gets the answer of Prometheus.
    pub(super) async fn accept(&self, stream: Watched) -> io::Result<TlsStream<Watched>> {
        let config = self.web.borrow().tls.clone();
        let config = config.expect("TLS is never taken away");
        let accepted = match stream.first_byte().await {
            Ok(Some(byte)) if byte != HANDSHAKE => Err(refuse(stream).await),
            Ok(_) => TlsAcceptor::from(config).accept(stream).await,
            Err(error) => Err(error),
        };
        if accepted.is_err() {
            self.metrics.handshake_failures.inc();
        }
        accepted
    }
}

/// Answers a client without TLS, and returns the error.
async fn refuse(mut stream: Watched) -> io::Error {
    let sent = async {
        stream.write_all(PLAIN).await?;
        stream.shutdown().await?;
        // Closing with unread bytes would reset the connection and lose the answer.
        tokio::io::copy(&mut stream.take(MOST_UNREAD), &mut tokio::io::sink()).await
    };
    match sent.await {
        Ok(_) => io::Error::new(io::ErrorKind::InvalidData, "the client does not speak TLS"),
        Err(error) => error,
    }
}
