//! A Cassandra that is late with every answer, as over a slow line or with a slow disk: this costs only time.

use std::time::Duration;

use futures::future::join_all;
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::limits::metric;
use crate::support::load::Load;
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::proxy::Proxy;
use crate::support::{self, seed};

/// Hundreds of times the usual time of an answer.
const LATE: Duration = Duration::from_millis(300);
const SENDERS: u64 = 8;
/// Requests of each sender, with 20 batches each.
const REQUESTS: usize = 3;
/// The lowest limit of writes in flight that late answers alone lead to.
const LEAST_AT_ONCE: f64 = 16.0;
const FLAGS: [&str; 2] = ["--flush-interval=200ms", "--cassandra-request-timeout=100s"];

#[tokio::test(flavor = "multi_thread")]
async fn late_answers_cost_nothing_but_time() {
    let proxy = Proxy::to(&support::cassandra()).await;
    for (backend, keyspace) in Backend::both_at(&proxy.address.to_string()) {
        let (data, load) = (tempfile::tempdir().expect("a folder"), Load::default());
        let mut server = Promkairos::ready(data.path(), &backend, &FLAGS).await;
        // After this write the tables exist, and the server knows how fast answers can be.
        let mut random = StdRng::seed_from_u64(seed());
        assert_eq!(load.send(&server, &mut random).await.expect("it answers"), 204);
        load.check_soon(&server).await;

        let before = proxy.late();
        proxy.be_late(LATE);
        let send = async |sender: u64| {
            let mut random = StdRng::seed_from_u64(seed() ^ (sender + 1));
            for _ in 0..REQUESTS {
                assert_eq!(load.send(&server, &mut random).await.expect("it answers"), 204);
            }
        };
        join_all((0..SENDERS).map(send)).await;
        // Reads wait too, even while all writes are still in the log.
        load.check(&server).await;
        assert!(proxy.late() > before);
        let at_once = metric(&server, "cassandra_write_concurrency").await;
        assert!(at_once.is_some_and(|at_once| at_once >= LEAST_AT_ONCE), "{at_once:?}");
        assert_eq!(server.get("/-/healthy").await.expect("it answers").0, 200);
        assert!(server.process.terminate().success(), "{}", server.process.log());
        proxy.be_late(Duration::ZERO);

        // The writes of the log have reached Cassandra at that pace.
        let direct = Backend::CassandraStore { address: support::cassandra(), keyspace };
        let other = tempfile::tempdir().expect("a folder");
        let server = Promkairos::ready(other.path(), &direct, &FLAGS).await;
        load.check(&server).await;
    }
}
