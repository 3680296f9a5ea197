//! Metrics of TLS and of the web configuration. Requests without credentials or without a right are
//! those with the codes 401 and 403 in the metrics of HTTP requests.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// How the login of a request ended, where credentials are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginOutcome {
    /// User and password, or token, are right.
    Accepted,
    /// They are not.
    Wrong,
    /// The request has none.
    Missing,
    /// Too many passwords are being checked: it is to come again.
    Busy,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LoginLabels {
    outcome: &'static str,
}

impl LoginOutcome {
    fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Wrong => "wrong",
            Self::Missing => "missing",
            Self::Busy => "busy",
        }
    }
}

/// Of a metric that has no labels but is not always there.
type NoLabels = [(&'static str, &'static str); 0];

/// Metrics of TLS and of the web configuration.
#[derive(Debug, Clone, Default)]
pub struct WebMetrics {
    /// TLS handshakes that failed.
    pub handshake_failures: Counter,
    /// Changed files of the web configuration that could not be taken.
    pub reload_failures: Counter,
    /// 1 while what is in force is what the files say; 0 while it is older.
    pub reload_successful: Gauge,
    logins: Family<LoginLabels, Counter>,
    /// Not there without a certificate.
    certificate_not_after: Family<NoLabels, Gauge>,
}

impl WebMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let Self { handshake_failures, reload_failures, reload_successful, .. } = metrics.clone();
        reload_successful.set(1);
        let web = registry.sub_registry_with_prefix("web");
        web.register("tls_handshake_failures", "TLS handshakes that failed", handshake_failures);
        let help = "Looks at changed files of the web configuration that could not be taken";
        web.register("config_reload_failures", help, reload_failures);
        let help = "Whether the web configuration in force is what its files say";
        web.register("config_last_reload_successful", help, reload_successful);
        let help = "Requests where credentials are asked for, by what became of them";
        web.register("logins", help, metrics.logins.clone());
        let help = "When the first certificate that the server shows ends, since 1970";
        let ends = metrics.certificate_not_after.clone();
        web.register_with_unit("certificate_not_after_timestamp", help, Unit::Seconds, ends);
        metrics
    }

    /// The first certificate that the server shows ends then, in seconds since 1970; `None` = it shows none.
    pub fn certificate_ends(&self, not_after: Option<i64>) {
        if let Some(not_after) = not_after {
            self.certificate_not_after.get_or_create(&[]).set(not_after);
        }
    }

    /// Counts a request for which credentials are asked.
    pub fn login(&self, outcome: LoginOutcome) {
        self.logins.get_or_create(&LoginLabels { outcome: outcome.name() }).inc();
    }
}
