//! Queries that one chosen node answers, about its own settings and start time.
//!
//! No other node answers in its place. A query fails after a few seconds. The meaning of answers is not here.

use std::sync::Arc;
use std::time::Duration;

use scylla::client::session::Session;
use scylla::cluster::Node;
use scylla::deserialize::row::DeserializeRow;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::statement::Consistency;
use scylla::statement::unprepared::Statement;

use crate::cql::once::failed;
use crate::cql::rows::Rows;
use crate::options::Options;
use promkairos_storage::Result;

/// How long a node may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// The connected nodes that may be asked for data.
pub(crate) fn nodes(session: &Session, options: &Options) -> Vec<Arc<Node>> {
    let is_local = |node: &&Arc<Node>| {
        let local = options.local_datacenter.as_ref();
        local.is_none_or(|local| node.datacenter.as_ref() == Some(local)) && node.is_connected()
    };
    session.get_cluster_state().get_nodes_info().iter().filter(is_local).cloned().collect()
}

/// The first row of a query that this node answers.
pub(crate) async fn first_row<R>(
    session: &Session,
    node: &Arc<Node>,
    cql: &str,
) -> Result<Option<R>>
where
    R: for<'f, 'm> DeserializeRow<'f, 'm>,
{
    let target = NodeIdentifier::Node(Arc::clone(node));
    let profile = session.get_default_execution_profile_handle().pointee_to_builder();
    let profile = profile
        .load_balancing_policy(SingleTargetLoadBalancingPolicy::new(target, None))
        .consistency(Consistency::One)
        .request_timeout(Some(PATIENCE))
        .build();
    let mut statement = Statement::new(cql);
    statement.set_execution_profile_handle(Some(profile.into_handle()));
    let result = session.query_unpaged(statement, ()).await.map_err(|error| failed(cql, error))?;
    Rows::of("a node's settings", result)?.first()
}
