//! Data centres: checks that those named in settings exist, and chooses the nodes to ask in the local one.
//!
//! Only local nodes are asked, the replicas of a row first. `SimpleStrategy` ignores data centres and
//! places copies anywhere, so all replicas of a row may be elsewhere: then any local node is asked, and it
//! forwards the statement. Where all nodes are local, replicas are preferred as usual.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use scylla::client::session::Session;
use scylla::cluster::metadata::Strategy;
use scylla::cluster::{ClusterState, NodeRef};
use scylla::errors::RequestAttemptError;
use scylla::policies::load_balancing::{
    DefaultPolicy, FallbackPlan, LoadBalancingPolicy, RoutingInfo,
};
use scylla::routing::Shard;

use crate::options::{Options, Replication};
use promkairos_storage::{Result, StoreError};

/// The policy that chooses the nodes to ask.
pub(crate) fn policy(local: Option<&str>) -> Arc<dyn LoadBalancingPolicy> {
    let Some(local) = local else {
        return DefaultPolicy::builder().token_aware(true).build();
    };
    let nearby = |aware: bool| {
        let policy = DefaultPolicy::builder().token_aware(aware);
        policy.prefer_datacenter(local.to_owned()).permit_dc_failover(false).build()
    };
    Arc::new(LocalNodes {
        local: local.to_owned(),
        local_replicas: nearby(true),
        local_nodes: nearby(false),
        replicas: DefaultPolicy::builder().token_aware(true).build(),
    })
}

/// Refuses a local data centre that the cluster does not have. Warns where the keyspace may keep no
/// copies in it.
pub(crate) fn check(session: &Session, options: &Options) -> Result<()> {
    let Some(local) = &options.local_datacenter else { return Ok(()) };
    let cluster = session.get_cluster_state();
    let seen = seen(&cluster);
    if !seen.contains(local.as_str()) {
        return Err(unknown("cassandra-local-datacenter", local, &seen));
    }
    if seen.len() > 1 && is_simple(&cluster, options.keyspace.as_str()) {
        tracing::warn!(
            "keyspace {} has SimpleStrategy, which knows no data centres: its copies may all lie \
             outside of {local:?}",
            options.keyspace.as_str()
        );
    }
    Ok(())
}

/// Refuses a replication that cannot work: copies in a data centre that the cluster does not have, or, where no data
/// centre is named, more copies than nodes.
pub(crate) fn check_copies(session: &Session, replication: &Replication) -> Result<()> {
    let cluster = session.get_cluster_state();
    let copies = match replication {
        Replication::Simple(copies) => {
            return check_number(*copies, cluster.get_nodes_info().len());
        }
        Replication::ByDatacenter(copies) => copies,
    };
    let seen = seen(&cluster);
    match copies.iter().find(|(name, _)| !seen.contains(name.as_str())) {
        Some((name, _)) => Err(unknown("cassandra-replication", name, &seen)),
        None => Ok(()),
    }
}

/// Refuses more copies than nodes.
fn check_number(copies: u32, nodes: usize) -> Result<()> {
    if usize::try_from(copies).is_ok_and(|copies| copies <= nodes) {
        return Ok(());
    }
    let there = match nodes {
        1 => "there is 1".to_owned(),
        _ => format!("there are {nodes}"),
    };
    Err(StoreError::Invalid(format!(
        "--cassandra-replication: {copies} copies need {copies} nodes, and {there}"
    )))
}

/// The data centres of the cluster.
fn seen(cluster: &ClusterState) -> BTreeSet<&str> {
    cluster.get_nodes_info().iter().filter_map(|node| node.datacenter.as_deref()).collect()
}

fn unknown(setting: &str, name: &str, seen: &BTreeSet<&str>) -> StoreError {
    let seen: Vec<&str> = seen.iter().copied().collect();
    let seen = seen.join(", ");
    StoreError::Invalid(format!("--{setting}: the cluster has no data centre {name:?}, but {seen}"))
}

fn is_simple(cluster: &ClusterState, keyspace: &str) -> bool {
    let keyspace = cluster.get_keyspace(keyspace);
    keyspace.is_some_and(|keyspace| matches!(keyspace.strategy, Strategy::SimpleStrategy { .. }))
}

#[derive(Debug)]
struct LocalNodes {
    local: String,
    local_replicas: Arc<dyn LoadBalancingPolicy>,
    local_nodes: Arc<dyn LoadBalancingPolicy>,
    replicas: Arc<dyn LoadBalancingPolicy>,
}

impl LocalNodes {
    fn choose(
        &self,
        request: &RoutingInfo<'_>,
        cluster: &ClusterState,
    ) -> &dyn LoadBalancingPolicy {
        let simple = request.table.is_some_and(|table| is_simple(cluster, table.ks_name()));
        let is_local =
            |node: &Arc<scylla::cluster::Node>| node.datacenter.as_deref() == Some(&*self.local);
        if !simple {
            &*self.local_replicas
        } else if cluster.get_nodes_info().iter().all(is_local) {
            &*self.replicas
        } else {
            &*self.local_nodes
        }
    }
}

impl LoadBalancingPolicy for LocalNodes {
    fn pick<'a>(
        &'a self,
        request: &'a RoutingInfo<'a>,
        cluster: &'a ClusterState,
    ) -> Option<(NodeRef<'a>, Option<Shard>)> {
        self.choose(request, cluster).pick(request, cluster)
    }

    fn fallback<'a>(
        &'a self,
        request: &'a RoutingInfo<'a>,
        cluster: &'a ClusterState,
    ) -> FallbackPlan<'a> {
        self.choose(request, cluster).fallback(request, cluster)
    }

    fn on_request_success(&self, request: &RoutingInfo<'_>, latency: Duration, node: NodeRef<'_>) {
        self.local_replicas.on_request_success(request, latency, node);
    }

    fn on_request_failure(
        &self,
        request: &RoutingInfo<'_>,
        latency: Duration,
        node: NodeRef<'_>,
        error: &RequestAttemptError,
    ) {
        self.local_replicas.on_request_failure(request, latency, node, error);
    }

    fn name(&self) -> String {
        "LocalNodes".to_owned()
    }
}
