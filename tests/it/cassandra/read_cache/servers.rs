//! Real servers with read caches on one keyspace: in either mode of acknowledgement, on a full disk,
//! and with the cache off.

use super::super::deletes::now;
use crate::support::promkairos::{Backend, Promkairos, statements};
use crate::support::series::{floats, send};
use crate::support::{cassandra, eventually, keyspace};

/// A time that is long settled.
const AT: i64 = 1_700_000_000_000;
const UP: [(&str, &str); 2] = [("__name__", "up"), ("job", "a")];

/// Writes values at times in milliseconds after [`AT`].
async fn write(server: &Promkairos, points: &[(i64, f64)]) {
    let points: Vec<(i64, f64)> = points.iter().map(|(at, value)| (AT + at, *value)).collect();
    eventually("the points are taken", async || {
        match send(&server.url(""), vec![floats(&UP, &points)]).await {
            204 => Ok(()),
            status => Err(status.to_string()),
        }
    })
    .await;
}

async fn times(server: &Promkairos) -> Vec<i64> {
    let all = server.read("__name__", "up").await.expect("an answer");
    all.iter().flat_map(|series| series.points.keys().map(|time| time - AT)).collect()
}

async fn metrics(server: &Promkairos) -> String {
    server.get("/metrics").await.expect("a page").1
}

/// The value of a metric of the cache.
fn value(page: &str, name: &str) -> u64 {
    let head = format!("promkairos_cassandra_read_cache_{name} ");
    let line = page.lines().find_map(|line| line.strip_prefix(&head));
    line.expect("the metric").parse().expect("a whole number")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_flushes_or_deletes_the_other_sees() {
    let (address, keyspace) = (cassandra(), keyspace());
    let log = Backend::CassandraWal { address: address.clone(), keyspace: keyspace.clone() };
    let through = Backend::CassandraStore { address, keyspace };
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let through =
        Promkairos::ready(folders[0].path(), &through, &["--enable-admin-api=true"]).await;
    let log = Promkairos::ready(folders[1].path(), &log, &["--flush-interval=1s"]).await;
    write(&through, &[(0, 1.0)]).await;
    for round in 0..3 {
        let known = times(&through).await;
        assert_eq!(times(&log).await, known);
        // With the log in front, the server itself answers with the point at once, the others after the flush.
        let at = 10 * round + 1;
        write(&log, &[(at, 1.0)]).await;
        let mut want = [known, vec![at]].concat();
        assert_eq!(times(&log).await, want);
        eventually("the flush is seen", async || {
            let times = times(&through).await;
            if times == want { Ok(()) } else { Err(format!("{times:?}")) }
        })
        .await;
        // Written through: both servers answer with the point at once.
        write(&through, &[(at + 1, 1.0)]).await;
        want.push(at + 1);
        assert_eq!((times(&log).await, times(&through).await), (want.clone(), want.clone()));
        let url = format!(
            "/api/v1/admin/tsdb/delete_series?match[]=up&start={0}&end={0}",
            (AT + at) as f64 / 1000.0
        );
        let deleted = reqwest::Client::new().post(through.url(&url)).send().await.expect("sent");
        assert_eq!(deleted.status().as_u16(), 204);
        want.retain(|time| *time != at);
        assert_eq!((times(&log).await, times(&through).await), (want.clone(), want));
    }
    let page = metrics(&through).await;
    assert!(value(&page, "misses_total") > 0 && value(&page, "damaged_total") == 0, "{page}");
    times(&through).await;
    let hits = value(&metrics(&through).await, "hits_total");
    assert!(hits > value(&page, "hits_total"), "{page}");
    // The cache files have no names.
    let files = std::fs::read_dir(folders[0].path().join("cassandra/read-cache"));
    assert_eq!(files.expect("a folder").count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_and_a_cache_that_is_off_cost_nothing_but_time() {
    // No file may grow, and the signal of that limit is ignored.
    let full = ["bash", "-c", "trap '' XFSZ; ulimit -S -f 0; exec \"$0\" \"$@\""];
    let off = "--cassandra-read-cache-size=0";
    for (wrapper, flags, asks) in [(&full[..], &[][..], true), (&[][..], &[off][..], false)] {
        let data = tempfile::tempdir().expect("a folder");
        let backend = Backend::cassandra_store();
        let mut server = Promkairos::start_under(wrapper, data.path(), &backend, flags);
        server.wait_ready().await;
        // No cache keeps points of now; a late write raises an epoch for other caches, with an own cache or not.
        let fresh = floats(&[("__name__", "fresh")], &[(now(), 1.0)]);
        assert_eq!(send(&server.url(""), vec![fresh]).await, 204);
        assert_eq!(statements(&metrics(&server).await, "raise_epoch"), 0);
        write(&server, &[(0, 1.0), (1, 2.0)]).await;
        assert_eq!(statements(&metrics(&server).await, "raise_epoch"), 2);
        for _ in 0..5 {
            assert_eq!(times(&server).await, [0, 1]);
        }
        let page = metrics(&server).await;
        assert_eq!((value(&page, "hits_total"), value(&page, "entries")), (0, 0), "{page}");
        assert_eq!(statements(&page, "select_epoch") > 0, asks, "{page}");
        let log = server.process.log();
        let warnings = log.lines().filter(|line| line.contains("read cache")).count();
        assert_eq!(warnings, usize::from(asks), "{log}");
    }
}
