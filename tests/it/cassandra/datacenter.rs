//! Data centres: an unknown one is refused with the name of its setting. With a local data centre over a
//! keyspace whose replication names none, the right nodes are asked and the driver logs no warning.

use promkairos::storage::StoreError;
use promkairos::storage::cassandra::{Keyspace, Options, Replication};

use super::keyspace::TestKeyspace;
use crate::support::load::Load;
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::{self, seed};
use rand::SeedableRng;
use rand::rngs::StdRng;

/// The data centre of the shared Cassandra.
async fn datacenter(keyspace: &TestKeyspace) -> String {
    let (name,): (String,) = keyspace.rows("SELECT data_center FROM system.local").await.remove(0);
    name
}

#[tokio::test]
async fn a_data_centre_that_is_not_there_is_refused_with_those_that_are() {
    let keyspace = TestKeyspace::new().await;
    let there = datacenter(&keyspace).await;
    let check = async |options: Options, setting: &str| {
        let error = keyspace.try_open(options).await.err().expect("refused");
        let want = format!("--{setting}: the cluster has no data centre \"nowhere\", but {there}");
        assert!(matches!(&error, StoreError::Invalid(what) if *what == want), "{error:?}");
    };
    let local_datacenter = Some("nowhere".into());
    let options = || keyspace.options();
    check(Options { local_datacenter, ..options() }, "cassandra-local-datacenter").await;
    let copies = [(there.clone(), 1), ("nowhere".to_owned(), 3)];
    let replication = Replication::ByDatacenter(copies.into());
    let absent: Keyspace = support::keyspace().parse().expect("a name");
    let elsewhere = Options { keyspace: absent, replication: replication.clone(), ..options() };
    check(elsewhere, "cassandra-replication").await;
    // The setting applies only when the keyspace is created.
    keyspace.open().await;
    keyspace.open_with(Options { replication, ..options() }).await;
    keyspace.drop().await;
}

#[tokio::test]
async fn a_keyspace_with_more_copies_than_nodes_is_not_made() {
    let keyspace = TestKeyspace::new().await;
    let options = Options { replication: Replication::Simple(3), ..keyspace.options() };
    let error = keyspace.try_open(options.clone()).await.err().expect("refused");
    let want = "--cassandra-replication: 3 copies need 3 nodes, and there is 1";
    assert!(matches!(&error, StoreError::Invalid(what) if what == want), "{error:?}");
    // The setting applies only when the keyspace is created.
    keyspace.open().await;
    keyspace.open_with(options).await;
    keyspace.drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn simple_strategy_and_a_local_data_centre_go_together() {
    let keyspace = TestKeyspace::new().await;
    let local = format!("--cassandra-local-datacenter={}", datacenter(&keyspace).await);
    let (address, name) = (support::cassandra(), keyspace.name.clone());
    let backend = Backend::CassandraStore { address, keyspace: name };
    let (data, load) = (tempfile::tempdir().expect("a folder"), Load::default());
    let mut random = StdRng::seed_from_u64(seed());
    let mut server = Promkairos::ready(data.path(), &backend, &[&local]).await;
    // For the second server the keyspace exists from the beginning.
    for _ in 0..2 {
        assert_eq!(load.send(&server, &mut random).await.expect("an answer"), 204);
        load.check(&server).await;
        let log = server.process.log();
        assert!(log.contains("ready") && !log.contains("query plans"), "{log}");
        server.process.terminate();
        server = Promkairos::ready(data.path(), &backend, &[&local]).await;
    }
    keyspace.drop().await;
}
