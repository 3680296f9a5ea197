//! Metrics of TLS and of the web configuration. Requests without valid credentials or without
//! permission have the codes 401 and 403 in the metrics of HTTP requests.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// How the login of a request ended, if credentials are required.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginOutcome {
    /// User and password, or token, are right.
    Accepted,
    /// User and password, or token, are wrong.
    Wrong,
    /// The request has no credentials.
    Missing,
    /// Too many passwords are being checked: the client has to retry.
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

/// Labels of a metric without labels that may be absent.
type NoLabels = [(&'static str, &'static str); 0];

/// Metrics of TLS and of the web configuration.
#[derive(Debug, Clone, Default)]
pub struct WebMetrics {
    /// TLS handshakes that failed.
    pub handshake_failures: Counter,
    /// Changed files of the web configuration that were refused.
    pub reload_failures: Counter,
    /// 1 while the files are in force; 0 while an older configuration is.
    pub reload_successful: Gauge,
    logins: Family<LoginLabels, Counter>,
    /// Absent without a certificate.
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
        let help = "Requests that need credentials, by outcome";
        web.register("logins", help, metrics.logins.clone());
        let help = "When the first certificate that the server shows ends, since 1970";
        let ends = metrics.certificate_not_after.clone();
        web.register_with_unit("certificate_not_after_timestamp", help, Unit::Seconds, ends);
        metrics
    }

    /// Sets when the first certificate of the server ends, in seconds since 1970; `None` = no certificate.
    pub fn certificate_ends(&self, not_after: Option<i64>) {
        if let Some(not_after) = not_after {
            self.certificate_not_after.get_or_create(&[]).set(not_after);
        }
    }

    /// Counts the login of a request.
    pub fn login(&self, outcome: LoginOutcome) {
        self.logins.get_or_create(&LoginLabels { outcome: outcome.name() }).inc();
    }
}
