//! Samples under the data folder that the settings of the next start would not serve.

use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::support::load::Load;
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::seed;

/// The log of a start that must be refused.
fn refusal(data: &std::path::Path, backend: &Backend) -> String {
    match Promkairos::try_start(data, backend, &[]) {
        Ok(server) => panic!("it started:\n{}", server.process.log()),
        Err(log) => log,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_cassandra_does_not_have_is_not_left_out() {
    let (data, load) = (tempfile::tempdir().expect("a folder"), Load::default());
    let wal = Backend::cassandra_wal();
    let Backend::CassandraWal { address, keyspace } = wal.clone() else { unreachable!() };
    let store = Backend::CassandraStore { address, keyspace };
    let mut server = Promkairos::ready(data.path(), &wal, &[]).await;
    let mut random = StdRng::seed_from_u64(seed());
    assert_eq!(load.send(&server, &mut random).await.expect("it answers"), 204);
    server.process.kill();
    let folder = data.path().join("cassandra/wal");
    for other in [&store, &Backend::Embedded] {
        let log = refusal(data.path(), other);
        assert!(log.contains("exit status: 2") && log.contains("--ack wal"), "{log}");
        assert!(log.contains(&format!("{} holds", folder.display())), "{log}");
    }
    // Another process has the log open: it serves it.
    let mut server = Promkairos::ready(data.path(), &wal, &[]).await;
    drop(Promkairos::ready(data.path(), &store, &[]).await);
    load.check(&server).await;
    assert!(server.process.terminate().success(), "{}", server.process.log());
    let server = Promkairos::ready(data.path(), &store, &[]).await;
    load.check(&server).await;
}
