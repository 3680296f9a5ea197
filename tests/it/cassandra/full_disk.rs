//! A Cassandra whose commit log has no room because the disk is full: writes that it must acknowledge are refused with
//! its name, and the server is not ready. The log of `--ack wal` accepts writes. No acknowledged sample is lost after
//! there is room and Cassandra is restarted.

use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::task::spawn_blocking;

use super::doctor::examine_whole;
use crate::limits::metric;
use crate::support::cassandra::OwnCassandra;
use crate::support::load::Load;
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::{eventually, seed};

/// Small segments fill quickly.
const SETTINGS: &str = "commitlog_segment_size: 2MiB\nmax_mutation_size: 512KiB";

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_log_without_room_costs_no_acknowledged_sample() {
    let cassandra = spawn_blocking(|| OwnCassandra::start_with("", SETTINGS)).await;
    let cassandra = cassandra.expect("it starts");
    let [(store, _), (wal, _)] = Backend::both_at(&cassandra.address());
    let flags = ["--flush-interval=1s", "--cassandra-request-timeout=3s"];
    let folders = [tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder")];
    let mut random = StdRng::seed_from_u64(seed());
    let (by_store, by_wal) = (Load::default(), Load::default());
    let mut direct = Promkairos::ready(folders[0].path(), &store, &flags).await;
    let mut behind = Promkairos::ready(folders[1].path(), &wal, &flags).await;
    for (server, load) in [(&direct, &by_store), (&behind, &by_wal)] {
        assert_eq!(load.send(server, &mut random).await.expect("it answers"), 204);
    }

    cassandra.limit_files(Some(0));
    let refused = loop {
        let answer = by_store.attempt(&direct, &mut random).await.expect("it answers");
        if answer.status != 204 {
            break answer;
        }
    };
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.body.contains(&cassandra.address()), "{refused:?}");
    assert!(refused.retry_after.is_some(), "{refused:?}");
    // The server answers all requests but writes.
    let why = loop {
        let (status, why) = direct.get("/-/ready").await.expect("it answers");
        if status == 503 {
            break why;
        }
        let answer = by_store.attempt(&direct, &mut random).await.expect("it answers");
        assert_eq!(answer.status, 503, "{answer:?}");
    };
    // The reason: no write has been stored for a while, or Cassandra has stopped and nothing listens.
    assert!(why.contains(&cassandra.address()), "{why}");
    eventually("the gauge of readiness", async || match metric(&direct, "ready").await {
        Some(0.0) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    for _ in 0..20 {
        assert_eq!(by_wal.send(&behind, &mut random).await.expect("it answers"), 204);
    }

    cassandra.limit_files(None);
    let cassandra = spawn_blocking(move || {
        cassandra.kill();
        cassandra.start_again();
        cassandra
    });
    let cassandra = cassandra.await.expect("it starts again");
    for (server, load) in [(&mut direct, &by_store), (&mut behind, &by_wal)] {
        eventually("a write is taken", async || match load.send(server, &mut random).await {
            Ok(204) => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
        server.wait_ready().await;
        load.check_soon(server).await;
        assert!(server.process.terminate().success(), "{}", server.process.log());
    }
    // Read by new processes, whose logs are empty.
    for (backend, load) in [(&store, &by_store), (&wal, &by_wal)] {
        let data = tempfile::tempdir().expect("a folder");
        load.check(&Promkairos::ready(data.path(), backend, &flags).await).await;
        examine_whole(backend.options()).await;
    }
    drop(cassandra);
}
