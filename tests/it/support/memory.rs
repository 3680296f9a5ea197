//! A server within the test process over a store in memory, the reference for real servers.

use std::sync::Arc;

use promkairos::api::{self, AppState};
use promkairos::promql::{Settings, Syntax};
use promkairos::storage::memory::MemoryStore;
use promkairos::telemetry::Metrics;
use tokio::net::TcpListener;

/// Serves a store for as long as the test runs; returns the URL.
pub(crate) async fn serve(
    store: Arc<MemoryStore>,
    settings: Settings,
    syntax: impl Into<Syntax>,
) -> String {
    let state = AppState::new(Arc::new(Metrics::new())).with_queries(settings, syntax);
    state.open(store);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    tokio::spawn(async move { axum::serve(listener, api::router(Arc::new(state))).await });
    url
}
