//! A Cassandra that accepts far fewer requests a second than it gets, and reports its overload: refused
//! statements are repeated, with fewer in flight, and all acknowledged samples are found.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use futures::future::join_all;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::task::spawn_blocking;

use crate::limits::metric;
use crate::support::cassandra::OwnCassandra;
use crate::support::load::Load;
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::proxy::Proxy;
use crate::support::{eventually, seed};

/// The limit of all clients together; the same number may come at once in the first second.
const SLOW: &str =
    "native_transport_rate_limiting_enabled: true\nnative_transport_max_requests_per_second: 20";
const SENDERS: u64 = 8;
/// Requests of each sender: the content of a log has to reach Cassandra at that rate.
const MOST_REQUESTS: usize = 50;
/// The first limit of point writes in flight, before anything is known of the server.
const AT_FIRST: f64 = 64.0;
const FLAGS: [&str; 2] = ["--flush-interval=200ms", "--cassandra-request-timeout=100s"];

/// Fails unless writes were refused and repeated, and the limit in flight is lower than at first.
async fn is_slowed_down(server: &Promkairos) -> Result<(), String> {
    let again = "cassandra_statements_total{statement=\"insert_point\",outcome=\"retried\"}";
    let again = metric(server, again).await;
    let at_once = metric(server, "cassandra_write_concurrency").await;
    match (again, at_once) {
        (Some(1.0..), Some(0.0..AT_FIRST)) => Ok(()),
        other => Err(format!("again, at once: {other:?}")),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_it_turns_away_comes_again() {
    let start = || OwnCassandra::start_with("", SLOW);
    let cassandra = spawn_blocking(start).await.expect("it starts");
    let proxy = Proxy::to(&cassandra.address()).await;
    let seed = seed();
    for (backend, keyspace) in Backend::both_at(&proxy.address.to_string()) {
        let (data, load) = (tempfile::tempdir().expect("a folder"), Load::default());
        let mut server = Promkairos::ready(data.path(), &backend, &FLAGS).await;
        // The first write alone, so that the tables exist.
        let mut random = StdRng::seed_from_u64(seed);
        assert_eq!(load.send(&server, &mut random).await.expect("it answers"), 204);
        load.check_soon(&server).await;

        let before = proxy.overloaded();
        proxy.want_overload(true);
        let seen = AtomicBool::new(false);
        let send = async |sender: u64| {
            let mut random = StdRng::seed_from_u64(seed ^ (sender + 1));
            for _ in 0..MOST_REQUESTS {
                if seen.load(SeqCst) {
                    return;
                }
                load.send(&server, &mut random).await.expect("it answers");
            }
        };
        let look = async {
            eventually("writes come again", async || is_slowed_down(&server).await).await;
            seen.store(true, SeqCst);
        };
        tokio::join!(look, join_all((0..SENDERS).map(send)));
        assert!(proxy.overloaded() > before);
        proxy.want_overload(false);
        load.check_soon(&server).await;
        assert!(server.process.terminate().success(), "{}", server.process.log());

        // The writes of the log have reached Cassandra.
        let direct = Backend::CassandraStore { address: cassandra.address(), keyspace };
        let other = tempfile::tempdir().expect("a folder");
        let server = Promkairos::ready(other.path(), &direct, &FLAGS).await;
        load.check_soon(&server).await;
    }
}
