//! Opens a session: contact points, data centre, login, TLS, timeouts.
//!
//! The driver retries nothing by itself and never fails over to another data centre. `retry`
//! decides about errors.

use std::sync::Arc;
use std::time::Duration;

use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::errors::NewSessionError;
use scylla::policies::retry::FallthroughRetryPolicy;

use crate::cql::cause::{self, Refusal};
use crate::cql::{datacenter, once};
use crate::options::{ExpectedCluster, Options};
use promkairos_storage::{Result, StoreError};

/// The most for the interval of keepalives and for the wait for their answer: the driver's defaults. A longer
/// request timeout does not raise them.
const MOST_KEEPALIVE: Duration = Duration::from_secs(30);
/// The least for both: shorter intervals are a burden, and a healthy node may pause longer than a moment.
const LEAST_KEEPALIVE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(6));

/// Connects. [`StoreError::Unavailable`] when no contact point answers, [`StoreError::Denied`] when
/// the login is refused, [`StoreError::Invalid`] when another setting cannot be used.
pub(crate) async fn connect(options: &Options) -> Result<Session> {
    let profile = ExecutionProfile::builder()
        .load_balancing_policy(datacenter::policy(options.local_datacenter.as_deref()))
        .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
        .consistency(options.read_consistency)
        .request_timeout(Some(options.request_timeout))
        .build();
    let (keepalive_interval, keepalive_timeout) = keepalive(options.request_timeout);
    let mut builder = SessionBuilder::new()
        .known_nodes(&options.contact_points)
        .default_execution_profile_handle(profile.into_handle())
        .connection_timeout(options.connect_timeout)
        .keepalive_interval(keepalive_interval)
        .keepalive_timeout(keepalive_timeout)
        .keyspaces_to_fetch([options.keyspace.as_str()])
        .authenticator_provider(Arc::new(options.credentials.clone()))
        .compression(options.compression);
    if let Some(tls) = &options.tls {
        builder = builder.tls_context(Some(options.certificates.client_config(tls)?));
    }
    let session = builder.build().await.map_err(|error| failed(&error, options))?;
    datacenter::check(&session, options)?;
    Ok(session)
}

/// The interval of keepalives and the wait for their answer. A connection to a dead node ends after twice
/// the request timeout. A statement on it has ended by then, with an error that names the setting.
fn keepalive(request_timeout: Duration) -> (Duration, Duration) {
    let (interval, timeout) = LEAST_KEEPALIVE;
    let half = request_timeout / 2;
    let thrice = half.saturating_mul(3);
    (half.clamp(interval, MOST_KEEPALIVE), thrice.clamp(timeout, MOST_KEEPALIVE))
}

/// The name of the cluster, on one line. Refuses a cluster that is not the expected one.
pub(crate) async fn cluster_name(session: &Session, options: &Options) -> Result<String> {
    let cql = "SELECT cluster_name FROM system.local";
    let found: Vec<(String,)> = once::rows(session, cql, ()).await?;
    let name = found.into_iter().next().map(|(name,)| name).unwrap_or_default();
    let name = name.replace(['\r', '\n'], " ");
    match &options.expected_cluster {
        Some(ExpectedCluster { name: expected, said_in }) if *expected != name => {
            Err(StoreError::Invalid(format!(
                "{}: the log holds acknowledged samples for the cluster {expected:?}; Cassandra at \
                 {} is {name:?}",
                said_in.display(),
                options.contact_points.join(", ")
            )))
        }
        _ => Ok(name),
    }
}

/// A refused certificate needs a change of settings. A refused login may pass while a cluster starts.
fn failed(error: &NewSessionError, options: &Options) -> StoreError {
    let hosts = options.contact_points.join(", ");
    let cause = cause::of_session(error);
    let user = options.credentials.user();
    let ca = options.tls.as_ref().map(|tls| tls.ca_file.display());
    match (cause::of_refusal(error), user, ca) {
        (Some(Refusal::Login), Some(user), _) => {
            StoreError::Denied(format!("Cassandra at {hosts}: login of user {user:?}: {cause}"))
        }
        (Some(Refusal::Login), None, _) => {
            StoreError::Denied(format!("Cassandra at {hosts}: {cause}"))
        }
        (Some(Refusal::Certificate), _, Some(ca)) => StoreError::Invalid(format!(
            "Cassandra at {hosts}: TLS with the authorities in {ca}: {cause}"
        )),
        _ => StoreError::unavailable(format!("Cassandra at {hosts}: {cause}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_is_gone_is_seen_within_twice_the_request_timeout() {
        let seconds = |timeout| {
            let (interval, timeout) = keepalive(Duration::from_secs(timeout));
            (interval.as_secs(), timeout.as_secs())
        };
        assert_eq!(seconds(10), (5, 15));
        assert_eq!(seconds(1), (2, 6));
        assert_eq!(seconds(100), (30, 30));
        assert_eq!(seconds(u64::MAX), (30, 30));
    }
}
