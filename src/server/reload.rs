//! Reading the settings again, on SIGHUP or a request: what may change while the server runs is taken
//! over, and what needs a restart is said.
//!
//! Settings that are refused change nothing. One reading at a time.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::live::Live;
use crate::api::{AppState, Reload};
use crate::config::{Config, ConfigError, changed, is_live};
use crate::storage::Clock;
use crate::telemetry::LogFilter;

/// How the settings are read again, and when.
pub struct Rereading {
    /// Something comes whenever they are to be read.
    pub signals: mpsc::Receiver<()>,
    /// Reads them.
    pub read: Box<dyn Fn() -> Result<Config, ConfigError> + Send>,
    /// What is logged.
    pub log: LogFilter,
}

/// Takes over what is read.
pub(super) struct Reloader {
    rereading: Rereading,
    /// What the server was started with.
    started: Config,
    /// What was read last.
    last: Config,
    state: Arc<AppState>,
    live: Arc<Live>,
}

impl Reloader {
    pub(super) fn new(
        rereading: Rereading,
        config: &Config,
        state: Arc<AppState>,
        live: Arc<Live>,
    ) -> Self {
        let (started, last) = (config.clone(), config.clone());
        Self { rereading, started, last, state, live }
    }

    /// Reads whenever somebody wants it.
    pub(super) async fn run(mut self, mut requests: mpsc::Receiver<Reload>) {
        loop {
            tokio::select! {
                Some(()) = self.rereading.signals.recv() => drop(self.reload("SIGHUP")),
                Some(request) = requests.recv() => {
                    // Who asked may be gone.
                    let _ = request.send(self.reload("/-/reload"));
                }
                else => return,
            }
        }
    }

    /// What came of it, in words.
    fn reload(&mut self, by: &str) -> Result<String, String> {
        let config = match self.read() {
            Ok(config) => config,
            Err(error) => {
                self.state.metrics.config.last_reload_successful.set(0);
                tracing::error!("{by}: everything stays as it was: {error}");
                return Err(error);
            }
        };
        self.state.set_limits(&config.limits);
        self.state.set_query_config(&config.queries);
        self.rereading.log.set(&config.log);
        let live: Vec<&str> =
            changed(&self.last, &config).into_iter().filter(|name| is_live(name)).collect();
        let later: Vec<&str> =
            changed(&self.started, &config).into_iter().filter(|name| !is_live(name)).collect();
        let mut said = match live.is_empty() {
            true => "nothing that holds at once has changed".to_owned(),
            false => format!("changed: {}", live.join(", ")),
        };
        if !later.is_empty() {
            said.push_str(&format!("; needs a restart: {}", later.join(", ")));
        }
        tracing::info!("{by}: the settings were read again, {said}");
        self.last = config;
        self.state.metrics.config.taken_over(Clock::default().now_ms());
        Ok(said)
    }

    /// What is read, once the stores have taken it over; or why it is refused.
    fn read(&self) -> Result<Config, String> {
        let mut config = (self.rereading.read)().map_err(|error| error.to_string())?;
        // Another limit of memory holds after a restart.
        let most = usize::try_from(self.started.memory.queries()).unwrap_or(usize::MAX);
        config.queries.max_memory = config.queries.max_memory.min(most);
        super::check(&config).map_err(|error| error.to_string())?;
        self.live.take_over(&config).map_err(|error| error.to_string())?;
        Ok(config)
    }
}
