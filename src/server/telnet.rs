//! Accepts the connections of KairosDB's telnet protocol.
//!
//! Each connection has a place. If none is free, a new connection waits until another one ends. What the lines say is
//! not decided here.

use std::sync::Arc;
use std::time::Instant;

use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::machine::affordable;
use crate::api::{AppState, TELNET_CONNECTION_BYTES, serve_telnet};
use crate::limits::{ACCEPT_PAUSE, MAX_TELNET_CONNECTIONS};
use crate::telemetry::Throttle;

/// All connections together may use one part in this many of the memory limit.
const MEMORY_SHARE: u64 = 32;

/// Serves beside `of_http` connections of HTTP until `stopped`, and until the connections have stored what has arrived.
pub(super) async fn serve(
    listener: TcpListener,
    state: Arc<AppState>,
    of_http: usize,
    stopped: watch::Receiver<bool>,
) {
    let by_memory = (state.pressure.limit() / MEMORY_SHARE / TELNET_CONNECTION_BYTES).max(1);
    // Connections of HTTP come first.
    let affordable = affordable(of_http + MAX_TELNET_CONNECTIONS).saturating_sub(of_http).max(1);
    let most = affordable.min(usize::try_from(by_memory).unwrap_or(usize::MAX));
    let places = Arc::new(Semaphore::new(most));
    let mut stop = stopped.clone();
    // An error means that the sender was dropped together with the server.
    let stop = async { drop(stop.wait_for(|stop| *stop).await) };
    let mut stop = std::pin::pin!(stop);
    let mut connections = JoinSet::new();
    let mut full = Throttle::default();
    loop {
        let accepted = async {
            if places.available_permits() == 0 && full.count(1, Instant::now()).is_some() {
                tracing::warn!("all {most} places for telnet connections are taken: others wait");
            }
            let place = Arc::clone(&places).acquire_owned().await.expect("never closed");
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            accepted = accepted => accepted,
            Some(ended) = connections.join_next() => {
                if let Err(error) = ended {
                    tracing::error!("a telnet connection broke: {error}");
                }
                continue;
            }
            () = &mut stop => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            // The client disconnected, or no descriptors are left: both are temporary.
            Err(error) => {
                tracing::debug!("a telnet connection was not accepted: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (state, stopped) = (Arc::clone(&state), stopped.clone());
        connections.spawn(async move {
            let _place = place;
            if let Err(error) = serve_telnet(state, stream, stopped).await {
                tracing::debug!("a telnet connection ended: {error}");
            }
        });
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}
