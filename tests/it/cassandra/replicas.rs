//! More replicas than nodes: Cassandra answers that too few replicas are alive for the consistency. Writes are
//! refused with that reason, or wait in the log, and all requests succeed when there are enough replicas.

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::keyspace::TestKeyspace;
use crate::support::load::Load;
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::{cassandra, eventually, seed};

/// The message of Cassandra for too few replicas at a consistency.
const TOO_FEW: &str = "Cannot achieve consistency level QUORUM";

const FLAGS: [&str; 4] = [
    "--cassandra-read-consistency=QUORUM",
    "--cassandra-write-consistency=QUORUM",
    "--cassandra-request-timeout=8s",
    "--flush-interval=1s",
];

/// Sets the replication factor to `nodes`; the cluster has one node.
async fn belongs_on(keyspace: &TestKeyspace, nodes: u32) {
    let replication = format!("{{'class': 'SimpleStrategy', 'replication_factor': {nodes}}}");
    keyspace.cql(&format!("ALTER KEYSPACE {{k}} WITH REPLICATION = {replication}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_too_few_replicas_can_take_is_refused_with_the_reason() {
    let keyspace = TestKeyspace::new().await;
    let backend = Backend::CassandraStore { address: cassandra(), keyspace: keyspace.name.clone() };
    let (data, load) = (tempfile::tempdir().expect("a folder"), Load::default());
    let mut random = StdRng::seed_from_u64(seed());
    let server = Promkairos::ready(data.path(), &backend, &FLAGS).await;
    let accepted = async |random: &mut StdRng| match load.send(&server, random).await {
        Ok(204) => Ok(()),
        other => Err(format!("{other:?}")),
    };
    eventually("a write is accepted", async || accepted(&mut random).await).await;

    belongs_on(&keyspace, 3).await;
    let answer =
        eventually("it is unavailable", async || match load.attempt(&server, &mut random).await {
            Ok(answer) if answer.body.contains(TOO_FEW) => Ok(answer),
            other => Err(format!("{other:?}")),
        })
        .await;
    assert_eq!((answer.status, answer.retry_after.as_deref()), (503, Some("5")), "{answer:?}");
    assert!(answer.body.contains(&cassandra()), "{answer:?}");

    belongs_on(&keyspace, 1).await;
    eventually("a write is accepted again", async || accepted(&mut random).await).await;
    load.check(&server).await;
    drop(server);
    keyspace.drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_log_samples_wait_until_enough_replicas_are_there() {
    let keyspace = TestKeyspace::new().await;
    let (address, name) = (cassandra(), keyspace.name.clone());
    let backend = Backend::CassandraWal { address: address.clone(), keyspace: name.clone() };
    let (data, load) = (tempfile::tempdir().expect("a folder"), Load::default());
    let mut random = StdRng::seed_from_u64(seed());
    let mut server = Promkairos::ready(data.path(), &backend, &FLAGS).await;
    // With a log the server is ready before it has opened Cassandra.
    eventually("the tables are there", async || match server.process.log() {
        log if log.contains("Cassandra is there") => Ok(()),
        log => Err(log),
    })
    .await;

    belongs_on(&keyspace, 3).await;
    for _ in 0..5 {
        assert_eq!(load.send(&server, &mut random).await.expect("it answers"), 204);
    }
    eventually("the log says why nothing is flushed", async || {
        let log = server.process.log();
        let says = |line: &str| line.contains("a flush failed") && line.contains(TOO_FEW);
        if log.lines().any(says) { Ok(()) } else { Err(log) }
    })
    .await;
    assert_eq!(load.send(&server, &mut random).await.expect("it answers"), 204);

    belongs_on(&keyspace, 1).await;
    load.check_soon(&server).await;
    assert!(server.process.terminate().success(), "{}", server.process.log());
    let direct = Backend::CassandraStore { address, keyspace: name };
    let other = tempfile::tempdir().expect("a folder");
    let server = Promkairos::ready(other.path(), &direct, &[]).await;
    load.check(&server).await;
    drop(server);
    keyspace.drop().await;
}
