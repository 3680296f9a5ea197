//! The program's own log, on stderr.

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{LogConfig, LogFormat};

/// Starts the log of the process. A second call changes nothing.
pub fn start_log(config: &LogConfig) {
    // The configuration has checked the filter; `info` is for a caller that has not.
    let filter: Targets =
        config.filter.parse().unwrap_or_else(|_| Targets::new().with_default(LevelFilter::INFO));
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let layer = match config.format {
        LogFormat::Text => layer.with_ansi(false).boxed(),
        LogFormat::Json => layer.json().boxed(),
    };
    // Fails only when a log was started before.
    let _ = tracing_subscriber::registry().with(layer.with_filter(filter)).try_init();
}
