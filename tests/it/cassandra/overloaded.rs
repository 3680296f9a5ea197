//! A Cassandra that takes far fewer requests a second than it is sent, and says so: each statement that it turns away
//! comes again, with fewer at a time, and what was acknowledged is there.

use std::sync::Arc;

use futures::future::join_all;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::task::spawn_blocking;

use crate::support::cassandra::OwnCassandra;
use crate::support::load::Load;
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::proxy::Proxy;
use crate::support::{self, eventually, seed};

/// Requests of all clients together; a write of the load has twenty and more.
const SLOW: &str =
    "native_transport_rate_limiting_enabled: true\nnative_transport_max_requests_per_second: 200";
const SENDERS: u64 = 8;
/// So often it says that it is overloaded before the load ends.
const TURNED_AWAY: usize = 50;

#[tokio::test(flavor = "multi_thread")]
async fn what_it_turns_away_comes_again() {
    let start = || OwnCassandra::start_with("", SLOW);
    let cassandra = spawn_blocking(start).await.expect("it starts");
    let proxy = Arc::new(Proxy::to(&cassandra.address()).await);
    let address = proxy.address.to_string();
    let [a, b] = [support::keyspace(), support::keyspace()];
    let store = Backend::CassandraStore { address: address.clone(), keyspace: a.clone() };
    let wal = Backend::CassandraWal { address, keyspace: b.clone() };
    for (backend, keyspace) in [(store, a), (wal, b)] {
        let direct = Backend::CassandraStore { address: cassandra.address(), keyspace };
        let (data, load) = (tempfile::tempdir().expect("a folder"), Load::default());
        let mut server =
            Promkairos::ready(data.path(), &backend, &["--flush-interval=200ms"]).await;
        // Connections begin anew.
        proxy.want_overload();
        proxy.cut();
        proxy.mend();
        let before = proxy.overloaded();
        let send = async |sender: u64| {
            let mut random = StdRng::seed_from_u64(seed() ^ sender);
            eventually("it is overloaded, and takes writes all the same", async || {
                let status = load.send(&server, &mut random).await;
                match (status, proxy.overloaded() - before) {
                    (Ok(204), TURNED_AWAY..) => Ok(()),
                    other => Err(format!("{other:?}")),
                }
            })
            .await;
        };
        join_all((0..SENDERS).map(send)).await;
        assert!(load.acknowledged() > 0);
        load.check_soon(&server).await;
        assert!(server.process.terminate().success(), "{}", server.process.log());
        // What waited in a log has arrived.
        let other = tempfile::tempdir().expect("a folder");
        let server = Promkairos::ready(other.path(), &direct, &[]).await;
        load.check_soon(&server).await;
    }
}
