//! Reloads the web configuration while the server runs: when its files change, and at once when the settings
//! are reloaded.
//!
//! A changed file may be incomplete, so a change is applied when two checks in a row read the same. A
//! requested reload is applied at once. If a change is refused, the configuration in force stays, with a
//! warning and a metric. TLS is switched on or off only by a restart, because clients would not follow. A
//! server that requires logins also needs a restart to stop requiring them.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::api::AppState;
use crate::config::WebConfig;
use crate::limits::WEB_CONFIG_CHECK;
use crate::storage::Clock;

/// The result of a check of the files.
enum Look {
    /// The files are unchanged.
    Same,
    /// The files changed and are valid.
    New(Arc<WebConfig>),
    /// Why the changed files are refused.
    Refused(String),
}

/// Checks the files regularly; ends at once if there are none.
pub(super) async fn follow(renewed: watch::Sender<Arc<WebConfig>>, state: Arc<AppState>) {
    let Some(path) = renewed.borrow().path().map(|path| path.display().to_string()) else { return };
    let metrics = &state.metrics.web;
    let (mut before, mut said) = (Look::Same, None);
    loop {
        sleep(WEB_CONFIG_CHECK).await;
        let current = renewed.borrow().clone();
        let looked_at = current.clone();
        let Ok(now) = spawn_blocking(move || look(&looked_at)).await else { continue };
        match &now {
            Look::Same => {
                metrics.reload_successful.set(1);
                if said.take().is_some() {
                    tracing::info!("{path}: is the configuration in force again");
                }
            }
            Look::New(config) if now.is_as(&before) => {
                if take_over(&renewed, &current, config, &state) {
                    tracing::info!("{path}: read again, as it or a file that it names has changed");
                }
                said = None;
            }
            Look::Refused(why) if now.is_as(&before) => {
                metrics.reload_failures.inc();
                metrics.reload_successful.set(0);
                // The same problem is logged once.
                if said.as_ref() != Some(why) {
                    tracing::warn!("{path}: what was read before stays in force: {why}");
                    said = Some(why.clone());
                }
            }
            Look::New(_) | Look::Refused(_) => {}
        }
        before = now;
    }
}

/// Applies the configuration that was `read` with the settings. `None` = it is already in force, or it is
/// from a different file, which needs a restart. An error says why it needs a restart.
pub(super) fn take_at_once(
    renewed: &watch::Sender<Arc<WebConfig>>,
    read: &WebConfig,
    state: &AppState,
) -> Option<Result<(), &'static str>> {
    let new = Arc::new(read.clone());
    loop {
        let current = renewed.borrow().clone();
        if new.path() != current.path() || new.was_read_from_the_same(&current) {
            return None;
        }
        if let Some(why) = obstacle(&current, &new) {
            return Some(Err(why));
        }
        // Tries again if the follower has applied a configuration meanwhile.
        if take_over(renewed, &current, &new, state) {
            return Some(Ok(()));
        }
    }
}

/// Puts `new` in force if `current` still is; otherwise a newer configuration is in force, and nothing changes.
fn take_over(
    renewed: &watch::Sender<Arc<WebConfig>>,
    current: &Arc<WebConfig>,
    new: &Arc<WebConfig>,
    state: &AppState,
) -> bool {
    let taken = renewed.send_if_modified(|in_force| {
        let follows = Arc::ptr_eq(in_force, current);
        if follows {
            *in_force = new.clone();
            // Within the lock, so that both are always of the same configuration.
            state.set_web(new.settings.clone());
        }
        follows
    });
    if taken {
        let of_now = new.certificate_warning(Clock::default().now_ms() / 1_000);
        for warning in new.warnings.iter().chain(&of_now).chain(&new.exposed_files()) {
            tracing::warn!("{warning}");
        }
        if let Some(text) = new.users_without_line() {
            tracing::info!("{text}");
        }
        state.metrics.web.certificate_ends(new.certificate_not_after);
        state.metrics.web.reload_successful.set(1);
    }
    taken
}

/// Why `new` needs a restart.
fn obstacle(current: &WebConfig, new: &WebConfig) -> Option<&'static str> {
    if new.tls.is_some() != current.tls.is_some() {
        return Some("TLS is switched on and off by a restart only");
    }
    let opens = new.is_open() && !current.is_open();
    opens.then_some("the last credentials are taken away by a restart only")
}

fn look(current: &WebConfig) -> Look {
    match current.read_again() {
        None => Look::Same,
        Some(Err(error)) => Look::Refused(error.to_string()),
        Some(Ok(new)) => match obstacle(current, &new) {
            Some(why) => Look::Refused(why.into()),
            None => Look::New(Arc::new(new)),
        },
    }
}

impl Look {
    /// Whether both checks read the same.
    fn is_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Same, Self::Same) => true,
            (Self::New(one), Self::New(other)) => one.was_read_from_the_same(other),
            (Self::Refused(one), Self::Refused(other)) => one == other,
            _ => false,
        }
    }
}
