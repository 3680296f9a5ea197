//! `promkairos serve`: listens, serves, and drains on SIGTERM or SIGINT.

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::config::{Config, KairosDbConf};
use crate::{server, telemetry};

use super::CliError;

/// Serves until a signal comes and everything is drained.
pub(super) fn serve(config: Config) -> Result<(), CliError> {
    telemetry::start_log(&config.log);
    say_what_was_taken_over(&config.kairosdb);
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|source| CliError::System { what: "cannot start the runtime".into(), source })?
        .block_on(serve_on_runtime(config))
}

/// The settings that came from a KairosDB, and what of its own was left.
fn say_what_was_taken_over(kairosdb: &KairosDbConf) {
    let Some(path) = &kairosdb.path else { return };
    for setting in &kairosdb.taken {
        tracing::info!("taken over from {}: {setting}", path.display());
    }
    if !kairosdb.ignored.is_empty() {
        let ignored = kairosdb.ignored.join(", ");
        tracing::warn!("{}: not understood, and left aside: {ignored}", path.display());
    }
}

async fn serve_on_runtime(config: Config) -> Result<(), CliError> {
    let listener = TcpListener::bind(&config.listen).await.map_err(|source| CliError::System {
        what: format!("cannot listen on {}", config.listen),
        source,
    })?;
    // Asked for before the store is opened, so that a signal during the replay is not lost.
    let no_signals = |source| CliError::System { what: "cannot wait for signals".into(), source };
    let mut terminate = signal(SignalKind::terminate()).map_err(no_signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(no_signals)?;
    let shutdown = async move {
        tokio::select! {
            _ = terminate.recv() => tracing::info!("SIGTERM: draining"),
            _ = interrupt.recv() => tracing::info!("SIGINT: draining"),
        }
    };
    Ok(server::run(config, listener, shutdown).await?)
}
