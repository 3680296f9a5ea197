//! Batches of rows stay below the size of which Cassandra warns.

use rand::SeedableRng;
use rand::rngs::StdRng;
use scylla::statement::batch::{Batch, BatchType};

use super::keyspace::TestKeyspace;
use crate::support::load::Load;
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::{eventually, seed};

const WARNINGS: [&str; 2] = ["Unlogged batch covering ", "Batch for ["];

#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_not_full_of_warnings_for_each_batch() {
    let backend = Backend::cassandra_store();
    let Backend::CassandraStore { keyspace, .. } = &backend else { panic!("{backend:?}") };
    let keyspace = TestKeyspace { name: keyspace.clone(), ..TestKeyspace::new().await };
    let (data, load) = (tempfile::tempdir().expect("a folder"), Load::default());
    let mut random = StdRng::seed_from_u64(seed());
    let mut server = Promkairos::ready(data.path(), &backend, &[]).await;
    // Each write goes to twenty partitions.
    eventually("a write is accepted", async || match load.send(&server, &mut random).await {
        Ok(204) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    assert!(server.process.terminate().success(), "{}", server.process.log());
    let log = server.process.log();
    assert!(!WARNINGS.iter().any(|warning| log.contains(warning)), "{log}");

    // Cassandra does warn of a batch that is too large.
    let cql = "INSERT INTO {k}.data_points (key, column1, value) VALUES (?, 0x00, ?)";
    let cql = cql.replace("{k}", &keyspace.name);
    let insert = keyspace.session.prepare(cql).await.expect("prepared");
    let statements = vec![insert.into(); 20];
    let batch = Batch::new_with_statements(BatchType::Unlogged, statements);
    let rows: Vec<(Vec<u8>, Vec<u8>)> = (0..20).map(|n| (vec![n], vec![0; 512])).collect();
    let answer = keyspace.session.batch(&batch, &rows).await.expect("written");
    for expected in WARNINGS {
        let warnings: Vec<&str> = answer.warnings().collect();
        assert!(warnings.iter().any(|warning| warning.starts_with(expected)), "{warnings:?}");
    }
    keyspace.drop().await;
}
