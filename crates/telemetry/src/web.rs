//! Metrics of TLS and of the web configuration. Requests without valid credentials or without
//! permission have the codes 401 and 403 in the metrics of HTTP requests.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::group::{NoLabels, metrics};

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

metrics! {
    /// Metrics of TLS and of the web configuration.
    WebMetrics {
        pub handshake_failures: Counter, "tls_handshake_failures", "TLS handshakes that failed";
        pub reload_failures: Counter, "config_reload_failures",
            "Looks at changed files of the web configuration that could not be taken";
        pub reload_successful: Gauge, "config_last_reload_successful",
            "Whether the web configuration in force is what its files say";
        logins: Family<LoginLabels, Counter>, "logins", "Requests that need credentials, by outcome";
        /// Absent without a certificate.
        certificate_not_after: Family<NoLabels, Gauge>, "certificate_not_after_timestamp" Seconds,
            "When the first certificate that the server shows ends, since 1970";
    }
}

impl WebMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        metrics.reload_successful.set(1);
        metrics.register_all(registry.sub_registry_with_prefix("web"));
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
