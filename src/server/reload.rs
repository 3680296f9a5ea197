//! Reloads the settings on SIGHUP or by request: applies those that may change while the server runs,
//! and reports those that need a restart.
//!
//! Settings that are refused change nothing. Reloads run one at a time.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use super::runtime_config::RuntimeConfig;
use super::stores;
use super::web;
use crate::api::{AppState, LimitsConfig, Reload};
use crate::config::{
    Config, ConfigError, METADATA_COPIES, MemoryConfig, WebConfig, changed, is_live,
};
use crate::model::ShownSize;
use crate::storage::Clock;
use crate::storage::embedded::Expired;
use crate::telemetry::LogFilter;

/// How to reload the settings, and when.
pub struct Rereading {
    /// Gets an item for each requested reload.
    pub signals: mpsc::Receiver<()>,
    /// Reads the settings.
    pub read: Box<dyn Fn() -> Result<Config, ConfigError> + Send>,
    /// The log filter.
    pub log: LogFilter,
}

/// Applies reloaded settings.
pub(super) struct Reloader {
    rereading: Rereading,
    /// The settings of the start.
    started: Config,
    /// The last settings that were read.
    last: Config,
    state: Arc<AppState>,
    live: Arc<RuntimeConfig>,
    /// The web configuration in force.
    web: watch::Sender<Arc<WebConfig>>,
}

/// The name in reports of the web configuration and the files that it names.
const WEB: &str = "web configuration";

impl Reloader {
    pub(super) fn new(
        rereading: Rereading,
        config: &Config,
        state: Arc<AppState>,
        live: Arc<RuntimeConfig>,
        web: watch::Sender<Arc<WebConfig>>,
    ) -> Self {
        let (started, last) = (config.clone(), config.clone());
        Self { rereading, started, last, state, live, web }
    }

    /// Reloads on each signal and request.
    pub(super) async fn run(mut self, mut requests: mpsc::Receiver<Reload>) {
        loop {
            tokio::select! {
                Some(()) = self.rereading.signals.recv() => drop(self.reload("SIGHUP")),
                Some(request) = requests.recv() => {
                    // The requester may be gone.
                    let _ = request.send(self.reload("/-/reload"));
                }
                else => return,
            }
        }
    }

    /// Reloads; returns a report in words.
    fn reload(&mut self, by: &str) -> Result<String, String> {
        let Taken { config, held_back, expired } = match self.read() {
            Ok(read) => read,
            Err(error) => {
                self.state.metrics.config.last_reload_successful.set(0);
                tracing::error!("{by}: everything stays as it was: {error}");
                return Err(error);
            }
        };
        self.state.set_limits(&config.limits);
        self.state.set_retention(config.retention);
        self.state.set_global(&config.global);
        self.state.set_query_config(&config.queries);
        self.rereading.log.set(&config.log);
        let web = web::take_at_once(&self.web, &config.web, &self.state);
        let mut live: Vec<&str> =
            changed(&self.last, &config).into_iter().filter(|name| is_live(name)).collect();
        let mut later: Vec<String> = changed(&self.started, &config)
            .into_iter()
            .filter(|name| !is_live(name))
            .map(str::to_owned)
            .collect();
        match web {
            Some(Ok(())) => live.push(WEB),
            Some(Err(why)) => later.push(format!("{WEB} ({why})")),
            None => {}
        }
        let mut said = match live.is_empty() {
            true => "nothing that holds at once has changed".to_owned(),
            false => format!("changed: {}", live.join(", ")),
        };
        if !later.is_empty() {
            said.push_str(&format!("; needs a restart: {}", later.join(", ")));
        }
        if let Some(what) = held_back {
            said.push_str(&format!("; until a restart {what}"));
        }
        if let Some(days) = expired {
            said.push_str(&format!("; beyond the retention and removed now: {days}"));
        }
        tracing::info!("{by}: the settings were read again, {said}");
        self.last = config;
        self.state.metrics.config.taken_over(Clock::default().now_ms());
        Ok(said)
    }

    /// Reads the settings and passes them to the stores; an error says why they are refused.
    fn read(&self) -> Result<Taken, String> {
        let mut config = (self.rereading.read)().map_err(|error| error.to_string())?;
        let held_back = hold_back(&mut config, self.started.memory);
        stores::check(&config).map_err(|error| error.to_string())?;
        let expired = self.live.take_over(&config).map_err(|error| error.to_string())?;
        Ok(Taken { config, held_back, expired })
    }
}

/// Settings that were applied.
struct Taken {
    config: Config,
    /// The settings that are limited until a restart, in words.
    held_back: Option<String>,
    /// The days that are removed for a shorter retention.
    expired: Option<Expired>,
}

/// Limits query memory and list memory to half of the memory limit of the start, because a new memory limit
/// needs a restart. Returns a text about the settings that were reduced, if any.
fn hold_back(config: &mut Config, of_start: MemoryConfig) -> Option<String> {
    const HALF: &str = "half of the memory-limit of the start";
    let half = usize::try_from(of_start.queries()).unwrap_or(usize::MAX);
    let LimitsConfig { lists, writes, .. } = &mut config.limits;
    let each = format!("{HALF} over label-max-concurrency");
    let metadata = format!("{HALF} over {METADATA_COPIES}");
    let wishes = [
        ("query-max-memory", &mut config.queries.max_memory, half, HALF),
        ("max-label-results-size", &mut lists.bytes, half / lists.at_once, &each),
        ("max-metadata-size", &mut writes.metadata_bytes, half / METADATA_COPIES, &metadata),
    ];
    let mut held = Vec::new();
    for (setting, wanted, most, why) in wishes {
        if *wanted > most {
            let (read, taken) = (ShownSize::of(*wanted), ShownSize::of(most));
            held.push(format!("{setting} is not {read} but {taken}, {why}"));
            *wanted = most;
        }
    }
    (!held.is_empty()).then(|| held.join(", and "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::arguments;

    #[test]
    fn more_memory_for_a_query_than_fits_into_the_limit_of_the_start_is_held_back_and_told() {
        let check = |settings: &[&str], bytes: usize, want: Option<&str>| {
            let all = std::iter::once("promkairos").chain(settings.iter().copied());
            let command = clap::Command::new("promkairos").args(arguments());
            let matches = command.try_get_matches_from(all).expect("known");
            let mut config = Config::load(&matches).expect("valid");
            let said = hold_back(&mut config, MemoryConfig { limit: 1 << 30 });
            assert_eq!((config.queries.max_memory, said.as_deref()), (bytes, want), "{settings:?}");
        };
        check(&["--memory-limit=1GiB"], 256 << 20, None);
        check(&["--memory-limit=1GiB", "--query-max-memory=512MiB"], 512 << 20, None);
        let want = "query-max-memory is not 1GiB but 512MiB, half of the memory-limit of the start";
        check(&["--memory-limit=4GiB", "--query-max-memory=1GiB"], 512 << 20, Some(want));
        check(&["--memory-limit=4GiB"], 512 << 20, Some(want));
        let list = "--max-label-results-size=512MiB";
        let want = "query-max-memory is not 1GiB but 512MiB, half of the memory-limit \
                    of the start, and max-label-results-size is not 512MiB but 128MiB, half \
                    of the memory-limit of the start over label-max-concurrency";
        check(&["--memory-limit=4GiB", list], 512 << 20, Some(want));
    }
}
