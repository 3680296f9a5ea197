//! A Cassandra that does not support our version of the protocol: the error names the Cassandra setting that
//! allows it.

use tokio::task::spawn_blocking;

use crate::support::cassandra::OwnCassandra;
use crate::support::promkairos::{Backend, Promkairos};

const SETTINGS: &str = "native_transport_allow_older_protocols: false";
const WHY: &str = "it speaks version 5 of the CQL protocol alone, and promkairos version 4: set \
                   native_transport_allow_older_protocols: true in its cassandra.yaml";

#[tokio::test(flavor = "multi_thread")]
async fn old_protocols_that_are_switched_off_are_named() {
    let cassandra = spawn_blocking(|| OwnCassandra::start_with("", SETTINGS)).await;
    let cassandra = cassandra.expect("it starts");
    let [(store, _), _] = Backend::both_at(&cassandra.address());
    let data = tempfile::tempdir().expect("a folder");
    let mut server = Promkairos::start(data.path(), &store, &[]);
    let names_it = |status, why: &str| status == 503 && why.contains(WHY);
    server.settled(names_it).await.expect("it does not end");
    drop(server);
    drop(cassandra);
}
