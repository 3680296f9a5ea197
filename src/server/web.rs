//! The web configuration while the server runs: taken anew when its files change, and at once where the
//! settings are read again.
//!
//! A file may be seen half written, so a change is taken when two looks in a row find the same; who asks for
//! a reading has written his.
//! What cannot be taken leaves in force what was before, with a warning and a metric. Between TLS
//! and plain text nothing switches without a restart, since clients would not follow; nor does a
//! server that asks for credentials begin to let everybody in.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::config::WebConfig;
use crate::limits::WEB_CONFIG_CHECK;
use crate::storage::Clock;
use crate::telemetry::WebMetrics;

/// What a look at the files gave.
enum Look {
    /// They are those in force.
    Same,
    /// They can be taken.
    New(Arc<WebConfig>),
    /// Why they cannot.
    Refused(String),
}

/// Looks at the files from time to time; ends when there are none.
pub(super) async fn follow(renewed: watch::Sender<Arc<WebConfig>>, metrics: WebMetrics) {
    let Some(path) = renewed.borrow().path().map(|path| path.display().to_string()) else { return };
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
                    tracing::info!("{path}: is again what is in force");
                }
            }
            Look::New(config) if now.is_as(&before) => {
                if take_over(&renewed, &current, config, &metrics) {
                    tracing::info!("{path}: read again, as it or a file that it names has changed");
                }
                said = None;
            }
            Look::Refused(why) if now.is_as(&before) => {
                metrics.reload_failures.inc();
                metrics.reload_successful.set(0);
                // The same trouble is said once.
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

/// Takes over at once what was `read` with the settings. `None` = it is what is in force, or of another file,
/// which is for a restart; an error says why it has to wait for one.
pub(super) fn take_at_once(
    renewed: &watch::Sender<Arc<WebConfig>>,
    read: &WebConfig,
    metrics: &WebMetrics,
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
        // Once more where the follower has taken something meanwhile.
        if take_over(renewed, &current, &new, metrics) {
            return Some(Ok(()));
        }
    }
}

/// Puts `new` in force, unless what it is to follow is no longer `current`: then it is older than what is.
fn take_over(
    renewed: &watch::Sender<Arc<WebConfig>>,
    current: &Arc<WebConfig>,
    new: &Arc<WebConfig>,
    metrics: &WebMetrics,
) -> bool {
    let taken = renewed.send_if_modified(|in_force| {
        let follows = Arc::ptr_eq(in_force, current);
        if follows {
            *in_force = new.clone();
        }
        follows
    });
    if taken {
        let of_now = new.certificate_warning(Clock::default().now_ms() / 1_000);
        for warning in new.warnings.iter().chain(&of_now).chain(&new.exposed_files()) {
            tracing::warn!("{warning}");
        }
        if let Some(told) = new.users_without_line() {
            tracing::info!("{told}");
        }
        metrics.certificate_ends(new.certificate_not_after);
        metrics.reload_successful.set(1);
    }
    taken
}

/// Why `new` cannot follow while the server runs.
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
    /// Whether another look found the same.
    fn is_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Same, Self::Same) => true,
            (Self::New(one), Self::New(other)) => one.was_read_from_the_same(other),
            (Self::Refused(one), Self::Refused(other)) => one == other,
            _ => false,
        }
    }
}
