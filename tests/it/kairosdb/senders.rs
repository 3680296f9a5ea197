//! Senders that were made for KairosDB, unmodified: its Java client over REST, gzip and telnet, and Micrometer. They
//! write to a real KairosDB and to promkairos over both stores, and then the same queries have the same answers.

use promkairos::kairos::TimeUnit;

use super::both_ways::unique;
use super::telnet::{FLAG, our_query, points, query, telnet};
use crate::support::kairosdb::KairosDb;
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::{eventually, java_client};

const TIME: i64 = 1_764_417_600_000;
/// The metrics of `Writes.java`, and how many points each has.
const METRICS: [(&str, usize); 14] = [
    (".rest", 4),
    (".gzip", 4),
    (".put", 4),
    (".putm", 4),
    ("_requests", 1),
    ("_depth", 1),
    ("_wait_sum", 1),
    ("_wait_avg", 1),
    ("_wait_count", 1),
    ("_wait_max", 1),
    ("_size_sum", 1),
    ("_size_avg", 1),
    ("_size_count", 1),
    ("_size_max", 1),
];

#[tokio::test]
async fn they_write_to_promkairos_as_to_kairosdb() {
    let kairosdb = KairosDb::shared(TimeUnit::Milliseconds).await;
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let flags = [FLAG, "--cassandra-request-timeout=100s"];
    let embedded = Promkairos::ready(folders[0].path(), &Backend::Embedded, &flags[..1]).await;
    let backend = Backend::cassandra_store();
    let cassandra = Promkairos::ready(folders[1].path(), &backend, &flags).await;
    let prefix = unique("senders");
    let their_api = kairosdb.url("");
    let their_url = their_api.strip_suffix("/api/v1").expect("the senders add it");
    let [theirs, ours, also_ours] = [
        (their_url.to_owned(), kairosdb.telnet()),
        (embedded.url(""), telnet(&embedded).await),
        (cassandra.url(""), telnet(&cassandra).await),
    ]
    .map(|(url, telnet)| {
        let (_, port) = telnet.rsplit_once(':').expect("an address");
        let (port, prefix) = (port.parse().expect("a port"), prefix.clone());
        tokio::task::spawn_blocking(move || java_client::write(&url, port, &prefix, TIME))
    });
    let (theirs, ours, also_ours) = tokio::join!(theirs, ours, also_ours);
    theirs.and(ours).and(also_ours).expect("all senders end");
    for (name, count) in METRICS {
        let metric = format!("{prefix}{name}");
        // KairosDB shows points a little later, and telnet has no acknowledgement.
        eventually(&metric, async || {
            let [embedded, cassandra] = [&embedded, &cassandra].map(our_query);
            let their_query = kairosdb.url("/datapoints/query");
            let (theirs, embedded, cassandra) = tokio::join!(
                query(&their_query, &metric),
                query(&embedded, &metric),
                query(&cassandra, &metric)
            );
            let equal = theirs == embedded && theirs == cassandra && points(&theirs) == count;
            if equal { Ok(()) } else { Err(format!("{theirs}\n{embedded}\n{cassandra}")) }
        })
        .await;
    }
}
