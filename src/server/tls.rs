//! TLS on connections that were accepted: each handshake with what the web configuration says then.
//!
//! How long a handshake may take is for `places`; a failed one is counted, and no trouble of ours.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::connection::Watched;
use crate::config::WebConfig;
use crate::telemetry::WebMetrics;

/// The first byte of a handshake: the type of its record.
const HANDSHAKE: u8 = 0x16;

/// The answer to what is no handshake.
const PLAIN: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// Bytes that are read of one who does not speak TLS.
const MOST_UNREAD: u64 = 1 << 20;

/// TLS of a listener.
#[derive(Clone)]
pub(super) struct Tls {
    web: watch::Receiver<Arc<WebConfig>>,
    metrics: WebMetrics,
}

impl Tls {
    /// What follows a web configuration; `None` = it has no TLS.
    pub(super) fn of(web: watch::Receiver<Arc<WebConfig>>, metrics: WebMetrics) -> Option<Self> {
        let has_tls = web.borrow().tls.is_some();
        has_tls.then_some(Self { web, metrics })
    }

    /// Shakes hands. Who asks in plain text is told so, as Prometheus does.
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

/// Answers who does not speak TLS, and gives that as the error.
async fn refuse(mut stream: Watched) -> io::Error {
    let told = async {
        stream.write_all(PLAIN).await?;
        stream.shutdown().await?;
        // Closed with bytes unread, the connection would be reset, and the answer lost with it.
        tokio::io::copy(&mut stream.take(MOST_UNREAD), &mut tokio::io::sink()).await
    };
    match told.await {
        Ok(_) => io::Error::new(io::ErrorKind::InvalidData, "the client does not speak TLS"),
        Err(error) => error,
    }
}
