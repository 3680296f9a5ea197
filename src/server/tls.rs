//! TLS on connections that were accepted: each handshake with what the web configuration says then.
//!
//! How long a handshake may take is for `places`; a failed one is counted, and no trouble of ours.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::config::WebConfig;
use crate::telemetry::WebMetrics;

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

    /// Shakes hands.
    pub(super) async fn accept<S>(&self, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let config = self.web.borrow().tls.clone();
        let config = config.expect("TLS is never taken away");
        let accepted = TlsAcceptor::from(config).accept(stream).await;
        if accepted.is_err() {
            self.metrics.handshake_failures.inc();
        }
        accepted
    }
}
