//! Groups partitions by the nodes that have them, so that a batch is handled where its data lives.

use std::sync::Arc;

use scylla::client::session::Session;
use scylla::cluster::ClusterState;
use scylla::routing::Token;
use scylla::routing::partitioner::{Murmur3Partitioner, Partitioner, PartitionerHasher};

use crate::options::Keyspace;

/// Groups partitions by their replicas.
pub(crate) struct Replicas<'a> {
    cluster: Arc<ClusterState>,
    keyspace: &'a str,
}

impl<'a> Replicas<'a> {
    pub(crate) fn new(session: &Session, keyspace: &'a Keyspace) -> Self {
        Self { cluster: session.get_cluster_state(), keyspace: keyspace.as_str() }
    }

    /// Equal for partitions of a table with one blob as key that have equal sets of replicas.
    pub(crate) fn of_blob(&self, table: &str, key: &[u8]) -> u64 {
        let mut hasher = Murmur3Partitioner.build_hasher();
        hasher.write(key);
        self.of_token(table, hasher.finish())
    }

    /// The group of a partition of any table.
    pub(crate) fn of_token(&self, table: &str, token: Token) -> u64 {
        if self.cluster.get_nodes_info().len() <= 1 {
            return 0;
        }
        let replicas = self.cluster.get_token_endpoints(self.keyspace, table, token);
        // Order does not matter, shards do: on ScyllaDB each shard is a server of its own.
        replicas.iter().fold(0, |sum, (node, shard)| {
            let mut bytes = [0; 20];
            bytes[..16].copy_from_slice(node.host_id.as_bytes());
            bytes[16..].copy_from_slice(&shard.to_le_bytes());
            xxhash_rust::xxh3::xxh3_64(&bytes).wrapping_add(sum)
        })
    }
}
