//! Metrics of TLS and of the web configuration. Requests without valid credentials or without
//! permission have the codes 401 and 403 in the metrics of HTTP requests.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::group::{Labels, label_values, metrics};

label_values! {
    /// How the login of a request ended, if credentials are required.
    pub enum LoginOutcome {
        /// User and password, or token, are right.
        Accepted = "accepted",
        /// User and password, or token, are wrong.
        Wrong = "wrong",
        /// The request has no credentials.
        Missing = "missing",
        /// Too many passwords are being checked: the client has to retry.
        Busy = "busy",
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
        logins: Family<Labels<1>, Counter>, "logins", "Requests that need credentials, by outcome";
        /// Absent without a certificate.
        certificate_not_after: Family<Labels<0>, Gauge>, "certificate_not_after_timestamp" Seconds,
            "When the first certificate that the server shows ends, since 1970";
    }
}

impl WebMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default().registered(registry.sub_registry_with_prefix("web"));
        metrics.reload_successful.set(1);
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
        self.logins.get_or_create(&[("outcome", outcome.value())]).inc();
    }
}
