//! `promkairos serve`: listens, serves, and drains on SIGTERM or SIGINT. Reloads the settings on
//! SIGHUP.

use std::io::ErrorKind;
use std::time::Duration;

use clap::{ArgMatches, Command};
use rustix::process::Signal;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::config::{Config, KairosDbConf};
use crate::limits::THREAD_STACK_BYTES;
use crate::telemetry::{LogFilter, Traces};
use crate::{server, telemetry};

use super::error::CliError;

/// Idle time after which a thread for blocking work ends. Work goes round all idle threads, so a few
/// tasks a second keep the threads of a burst alive as long as this time is longer than a round.
const IDLE_THREAD_STAYS: Duration = Duration::from_secs(1);
/// How long the exit waits for reads of settings files.
const WAIT_FOR_READS: Duration = Duration::from_secs(1);

/// The command's definition.
pub(super) fn command() -> Command {
    Command::new("serve").about("Serve; this is what runs without a command")
}

/// Serves until a signal comes and everything is drained.
pub(super) fn run(matches: &ArgMatches) -> Result<(), CliError> {
    let config = Config::load_to_serve(matches)?;
    server::fit_allocator(config.memory.limit);
    let traces = Traces::start(config.traces.as_ref()).map_err(CliError::Refused)?;
    let log = telemetry::start_log(&config.log, &traces);
    say_what_was_taken_over(&config.kairosdb);
    if let Some(to) = &config.traces {
        tracing::info!(share = to.sampling, "traces go to {}", to.url);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_stack_size(THREAD_STACK_BYTES)
        .thread_keep_alive(IDLE_THREAD_STAYS)
        .enable_all()
        .build()
        .map_err(CliError::system("cannot start the runtime"))?;
    let served = runtime.block_on(serve_on_runtime(config, (log, &traces), matches.clone()));
    // All is closed. A read of a settings file, on a disk that does not answer, must not delay the exit.
    runtime.shutdown_timeout(WAIT_FOR_READS);
    traces.close();
    served
}

/// Logs the settings taken over from a KairosDB, and the ignored entries.
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

/// The error if the address cannot be bound. A port that this user may not bind, and an address at
/// which no machine listens, need a change first; a port in use, an address that this machine does
/// not have yet and an unknown name may pass.
fn cannot_listen(address: &str, source: std::io::Error) -> CliError {
    let what = format!("cannot listen on {address}");
    match source.kind() {
        ErrorKind::PermissionDenied | ErrorKind::InvalidInput => {
            CliError::Refused(format!("{what}: {source}"))
        }
        ErrorKind::AddrNotAvailable => {
            CliError::Command(format!("{what}: it is no address of this machine ({source})"))
        }
        _ => CliError::System { what, source },
    }
}

async fn listen(address: &str) -> Result<TcpListener, CliError> {
    TcpListener::bind(address).await.map_err(|source| cannot_listen(address, source))
}

async fn listen_if(address: Option<&str>) -> Result<Option<TcpListener>, CliError> {
    match address {
        Some(address) => listen(address).await.map(Some),
        None => Ok(None),
    }
}

async fn serve_on_runtime(
    config: Config,
    (log, traces): (LogFilter, &Traces),
    matches: ArgMatches,
) -> Result<(), CliError> {
    let prometheus = listen(&config.listen).await?;
    let kairosdb = listen_if(config.kairosdb_listen.as_deref()).await?;
    let telnet = listen_if(config.kairosdb_telnet_listen.as_deref()).await?;
    let listeners = server::Listeners { prometheus, kairosdb, telnet };
    // Registered before the store is opened, so that a signal during the replay is not lost.
    let no_signals = CliError::system("cannot wait for signals");
    let mut terminate = signal(SignalKind::terminate()).map_err(no_signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(no_signals)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(no_signals)?;
    // Handled, so that a write beyond the file size limit of the system fails like a write to a full disk.
    let _too_large = signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).map_err(no_signals)?;
    let (hung_up, signals) = mpsc::channel(1);
    let listening = tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            // A pending reload covers this signal too.
            let _ = hung_up.try_send(());
        }
    });
    let read = Box::new(move || Config::load_to_serve(&matches));
    let rereading = server::Rereading { signals, read, log };
    let shutdown = async move {
        tokio::select! {
            _ = terminate.recv() => tracing::info!("SIGTERM: draining"),
            _ = interrupt.recv() => tracing::info!("SIGINT: draining"),
        }
    };
    let served = server::run(config, listeners, shutdown, rereading, traces).await;
    listening.abort();
    Ok(served?)
}
