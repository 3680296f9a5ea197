//! The web configuration while the server runs: taken anew when its files change.
//!
//! A file may be seen half written, so a change is taken when two looks in a row find the same.
//! What cannot be taken leaves in force what was before, with a warning and a metric. Between TLS
//! and plain text nothing switches without a restart, since clients would not follow; nor does a
//! server that asks for credentials begin to let everybody in.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::config::WebConfig;
use crate::limits::WEB_CONFIG_CHECK;
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
        let Ok(now) = spawn_blocking(move || look(&current)).await else { continue };
        match &now {
            Look::Same => {
                metrics.reload_successful.set(1);
                if said.take().is_some() {
                    tracing::info!("{path}: is again what is in force");
                }
            }
            Look::New(config) if now.is_as(&before) => {
                tracing::info!("{path}: read again, as it or a file that it names has changed");
                for warning in &config.warnings {
                    tracing::warn!("{warning}");
                }
                metrics.certificate_ends(config.certificate_not_after);
                renewed.send_replace(config.clone());
                metrics.reload_successful.set(1);
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

fn look(current: &WebConfig) -> Look {
    match current.read_again() {
        None => Look::Same,
        Some(Err(error)) => Look::Refused(error.to_string()),
        Some(Ok(new)) if new.tls.is_some() != current.tls.is_some() => {
            Look::Refused("TLS is switched on and off by a restart only".into())
        }
        Some(Ok(new)) if new.is_open() && !current.is_open() => {
            Look::Refused("the last credentials are taken away by a restart only".into())
        }
        Some(Ok(new)) => Look::New(Arc::new(new)),
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
