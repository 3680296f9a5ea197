//! The composition root: locks the data folder, opens the store, serves, drains.
//!
//! HTTP starts before the store is open: `/-/healthy` answers while a log is replayed, and requests
//! that need the store are answered 503 until it is open. Behind a log, Cassandra may open later.
//!
//! ```text
//! DATA/lock              held while a process runs
//! DATA/embedded/wal      log of the embedded store
//! DATA/embedded/parts    its part files
//! DATA/cassandra/wal     log in front of Cassandra (`--ack wal`)
//! DATA/cassandra/keyspace  whose log it is
//! ```

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinHandle, JoinSet};

use crate::api::{self, AppState};
use crate::config::{Ack, Config, StoreConfig};
use crate::limits::{DRAIN_TIMEOUT, LEAST_RETRY, LOGIN_PATIENCE, MOST_RETRY};
use crate::storage::{Clock, SharedStore, StoreError};
use crate::telemetry::{Metrics, Traces};

pub(crate) mod allocator;
mod answer;
mod cassandra;
mod clusters;
mod connection;
mod connection_pool;
mod copying;
mod error;
mod frames;
mod http;
mod lazy_store;
mod lock;
mod long_queries;
mod lowest_time;
mod machine;
mod memory_limit;
mod open_to_others;
mod owner;
mod phase;
mod readiness;
mod readiness_blockers;
mod rejected_heads;
mod reload;
mod runtime_config;
mod self_scrape;
mod stores;
mod telnet;
mod tls;
mod unserved;
pub mod wal_owner;
mod web;

use connection_pool::ConnectionPool;
use http::Front;
use phase::Limits;
use reload::Reloader;
use runtime_config::RuntimeConfig;
use tls::Tls;

pub use allocator::fit_to as fit_allocator;
pub use copying::{EmbeddedFolder, cassandra_options, open_cassandra, open_embedded};
pub use error::ServerError;
pub use owner::refuse_foreign;
pub use reload::Rereading;
pub use stores::{Purpose, check, give_up_log, wal_dir};

/// A warning if a file of KairosDB asks for TLS and a cluster has none.
fn tls_not_taken(config: &Config) -> Option<String> {
    let asked = &config.kairosdb.tls;
    let is_plain = config.clusters().any(|(_, cluster)| cluster.tls.is_none());
    (is_plain && !asked.is_empty()).then(|| {
        format!(
            "KairosDB connects with TLS ({}), which is not taken over: without --cassandra-tls, or tls of that \
             cluster's own table, promkairos connects in plain text",
            asked.join(", ")
        )
    })
}

/// Warnings for the operator, one line each: resources that the settings need and the machine lacks,
/// and settings that weaken promises.
pub fn warnings(config: &Config) -> Vec<String> {
    let mut all = machine::missing(config);
    all.extend(stores::warnings(config));
    all.extend(tls_not_taken(config));
    all.extend(open_to_others::open_admin_api(config));
    all.extend(config.exposed_files());
    all.extend(config.web.warnings.iter().cloned());
    all.extend(config.web.certificate_warning(Clock::default().now_ms() / 1_000));
    all
}

/// The sockets to serve on.
pub struct Listeners {
    /// Prometheus' API and KairosDB's.
    pub prometheus: TcpListener,
    /// KairosDB's API alone.
    pub kairosdb: Option<TcpListener>,
    /// KairosDB's telnet protocol.
    pub telnet: Option<TcpListener>,
}

/// Serves on `listeners` until `shutdown` completes. Then no new requests are accepted, running
/// requests are finished, and the store is flushed and closed. Settings can be reloaded meanwhile.
/// Requests are traced with `traces`; the caller closes them.
pub async fn run(
    config: Config,
    listeners: Listeners,
    shutdown: impl Future<Output = ()> + Send + 'static,
    rereading: Rereading,
    traces: &Traces,
) -> Result<(), ServerError> {
    own_data_dir(&config)?;
    prepare(&config);
    let revision = option_env!("BUILD_COMMIT").unwrap_or_default();
    let metrics = Arc::new(Metrics::of_build(revision, traces.metrics()));
    let (renewed, web) = watch::channel(Arc::new(config.web.clone()));
    let state = Arc::new(state(&config, metrics.clone()).with_traces(traces.clone()));
    let (stop, stopped) = watch::channel(false);
    let signals = stop.clone();
    // These tasks end with this function.
    let mut beside = JoinSet::new();
    beside.spawn(async move {
        shutdown.await;
        signals.send_replace(true);
    });
    let live = Arc::new(RuntimeConfig::new(&config));
    let (reload, reloads) = mpsc::channel(1);
    state.reload_by(reload);
    let reloader = Reloader::new(rereading, &config, state.clone(), live.clone(), renewed.clone());
    beside.spawn(reloader.run(reloads));
    let tls = Tls::of(web, metrics.web.clone());
    let address = listeners.prometheus.local_addr();
    let limits = Limits::of(&config.http);
    let mut server = tokio::spawn(serve(listeners, state.clone(), tls, limits, stopped.clone()));
    beside.spawn(web::follow(renewed, state.clone()));
    let memory = memory_limit::watch(state.clone(), stopped.clone());
    beside.spawn(memory.map_err(ServerError::Serve)?);
    beside.spawn(readiness::watch(state.clone()));

    let opened = tokio::select! {
        opened = open_patiently(&config, &state, &live) => Some(opened),
        () = until_true(stopped.clone()) => None,
        ended = &mut server => {
            ended.map_err(broken)?;
            None
        }
    };
    match opened {
        Some(Ok(store)) => {
            state.open(store.clone());
            tracing::info!("ready");
            let port = address.ok().map(|address| address.port());
            keep_own_metrics(&mut beside, &config, metrics, &store, port);
            serve_until(stopped, server, &store, config.shutdown_timeout).await
        }
        Some(Err(source)) => {
            server.abort();
            Err(ServerError::store("cannot open the store")(source))
        }
        None => {
            server.abort();
            say_what_stays(&config);
            Ok(())
        }
    }
}

/// Serves on all listeners, which share the places for connections, until `stopped` and the running requests are
/// answered.
async fn serve(
    listeners: Listeners,
    state: Arc<AppState>,
    tls: Option<Tls>,
    limits: Limits,
    stopped: watch::Receiver<bool>,
) {
    let scheme = if tls.is_some() { "https" } else { "http" };
    let address = |listener: &TcpListener| match listener.local_addr() {
        Ok(address) => format!("{scheme}://{address}"),
        Err(error) => format!("an address that is not known: {error}"),
    };
    let Listeners { prometheus, kairosdb, telnet } = listeners;
    tracing::info!("listening on {}", address(&prometheus));
    let places = ConnectionPool::new(limits, state.pressure.levels());
    let metrics = Arc::new(state.metrics.http.clone());
    let front = Front { router: api::router(state.clone()), tls, metrics };
    let telnet_state = Arc::clone(&state);
    let kairosdb_front = Front { router: api::kairosdb_router(state), ..front.clone() };
    let stop = until_true(stopped.clone());
    let prometheus = http::serve(prometheus, front, Arc::clone(&places), stop);
    let kairosdb = async {
        if let Some(listener) = kairosdb {
            tracing::info!("KairosDB's API is served on {}", address(&listener));
            http::serve(listener, kairosdb_front, places, until_true(stopped.clone())).await;
        }
    };
    let telnet = async {
        if let Some(listener) = telnet {
            let address = listener.local_addr().map(|address| address.to_string());
            let address = address.unwrap_or_else(|error| error.to_string());
            tracing::info!("KairosDB's telnet lines are taken on {address}");
            telnet::serve(listener, telnet_state, limits.connections, stopped.clone()).await;
        }
    };
    tokio::join!(prometheus, kairosdb, telnet);
}

/// Starts the tasks of the process's own metrics that need an open store.
fn keep_own_metrics(
    beside: &mut JoinSet<()>,
    config: &Config,
    metrics: Arc<Metrics>,
    store: &SharedStore,
    port: Option<u16>,
) {
    if matches!(config.store, StoreConfig::Embedded) {
        beside.spawn(lowest_time::watch(store.clone(), metrics.store.lowest_time.clone()));
    }
    if let (Some(every), Some(port)) = (config.self_scrape_interval, port) {
        let instance = self_scrape::instance(port);
        beside.spawn(self_scrape::run(metrics, store.clone(), every, instance));
    }
}

/// Locks the data folder, if the process keeps files there, until the process ends: threads whose work is abandoned
/// at shutdown may touch files until then.
fn own_data_dir(config: &Config) -> Result<(), ServerError> {
    let own = || {
        refuse_foreign(&config.data_dir, &config.store)?;
        lock::acquire(&config.data_dir)
    };
    let lock = config.keeps_files().then(own).transpose()?;
    check(config)?;
    unserved::check(config, lock.is_some())?;
    std::mem::forget(lock);
    Ok(())
}

/// Raises the limit of descriptors, and logs warnings about the settings.
fn prepare(config: &Config) {
    machine::take_descriptors();
    warnings(config).iter().for_each(|warning| tracing::warn!("{warning}"));
    if let Some(text) = config.web.users_without_line() {
        tracing::info!("{text}");
    }
}

/// The shared state of the handlers, from the configuration.
fn state(config: &Config, metrics: Arc<Metrics>) -> AppState {
    metrics.web.certificate_ends(config.web.certificate_not_after);
    let mut state = AppState::new(metrics)
        .with_build_date(env!("BUILD_DATE"))
        .with_admin_api(config.admin_api)
        .with_allowed_origins(config.allowed_origins.clone())
        .with_limits(&config.memory.of_requests(), &config.limits)
        .with_type_and_unit_labels(config.type_and_unit_labels);
    if matches!(config.store, StoreConfig::Cassandra { ack: Ack::Store, .. }) {
        state = state.over_store_without_log();
    }
    state.set_web(config.web.settings.clone());
    state.set_query_config(&config.queries);
    state.set_limits(&config.limits);
    state.set_retention(config.retention);
    state.set_global(&config.global);
    state
}

/// Logs where acknowledged samples remain if the server stops before the log was replayed.
fn say_what_stays(config: &Config) {
    let log = wal_dir(&config.data_dir, &config.store);
    if config.keeps_files() && log.is_dir() {
        let log = log.display();
        tracing::warn!(
            "stopped before the store was open: what the log in {log} holds stays there"
        );
    }
}

/// Waits for `stopped`, or for the end of the server task, which would be a defect. Then waits a
/// bounded time for running requests and closes the store; all within `within`.
async fn serve_until(
    stopped: watch::Receiver<bool>,
    mut server: JoinHandle<()>,
    store: &SharedStore,
    within: Duration,
) -> Result<(), ServerError> {
    let ended = tokio::select! {
        () = until_true(stopped) => None,
        ended = &mut server => Some(ended),
    };
    let (by, drain) = (Instant::now() + within, DRAIN_TIMEOUT.min(within / 2));
    let ended = match ended {
        Some(ended) => Ok(ended),
        None => tokio::time::timeout(drain, &mut server).await,
    };
    let served = match ended {
        Ok(ended) => ended.map_err(broken),
        Err(_) => {
            tracing::warn!("requests still under way after {drain:?} are cut off");
            server.abort();
            Ok(())
        }
    };
    let closed = store.close_by(by).await.map_err(ServerError::store("cannot close the store"));
    if served.is_ok() && closed.is_ok() {
        tracing::info!("stopped");
    }
    served.and(closed)
}

fn broken(panic: JoinError) -> ServerError {
    ServerError::Serve(std::io::Error::other(panic))
}

async fn until_true(mut flag: watch::Receiver<bool>) {
    // An error means that the sender was dropped together with the server.
    let _ = flag.wait_for(|stop| *stop).await;
}

/// Opens the store; retries while it is unreachable. A refused login is retried for a while too,
/// because a cluster that starts may not know its users yet. Then learns the series that the store
/// has.
async fn open_patiently(
    config: &Config,
    state: &Arc<AppState>,
    live: &Arc<RuntimeConfig>,
) -> Result<SharedStore, StoreError> {
    let mut denied_since: Option<Instant> = None;
    let mut pause = LEAST_RETRY;
    loop {
        match stores::open(config, state, live).await {
            Err(StoreError::Denied(what))
                if denied_since.get_or_insert_with(Instant::now).elapsed() < LOGIN_PATIENCE =>
            {
                tracing::error!(
                    "{what}; the server exits {LOGIN_PATIENCE:?} after the first refusal"
                );
                state.opening(what);
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(MOST_RETRY);
            }
            Err(StoreError::Unavailable { what, retry_after }) => {
                tracing::warn!("the store cannot be opened yet: {what}");
                state.opening(what);
                tokio::time::sleep(retry_after.clamp(LEAST_RETRY, MOST_RETRY)).await;
            }
            result => {
                if let Ok(store) = &result {
                    // Cassandra keeps metadata itself, not in the memory of this process.
                    if matches!(config.store, StoreConfig::Embedded) {
                        state.ingest.learn_metadata(store).await;
                    }
                    state.ingest.learn_series(store).await;
                }
                return result;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::memory::MemoryStore;

    #[tokio::test]
    async fn a_server_that_breaks_ends_the_process_with_an_error() {
        let (_stop, stopped) = watch::channel(false);
        let server = tokio::spawn(async { panic!("a defect") });
        let store: SharedStore = Arc::new(MemoryStore::default());
        let ended = serve_until(stopped, server, &store, Duration::from_secs(9)).await;
        let error = ended.expect_err("it broke").to_string();
        assert!(error.starts_with("cannot serve: ") && error.contains("a defect"), "{error}");
    }
}
