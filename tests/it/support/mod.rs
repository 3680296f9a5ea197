//! What integration tests share: real processes on free ports, and the few messages they exchange.
//!
//! The environment, set by `./test.sh`, names the peers. If a peer is missing a test fails; it
//! never skips. Tests always wait for a condition, with a long deadline.

pub(crate) mod api;
pub(crate) mod capped;
pub(crate) mod cassandra;
pub(crate) mod collector;
pub(crate) mod families;
pub(crate) mod front;
pub(crate) mod hints;
pub(crate) mod java_client;
pub(crate) mod kairosdb;
pub(crate) mod load;
pub(crate) mod memory;
pub(crate) mod native;
pub(crate) mod noise;
pub(crate) mod process;
pub(crate) mod prometheus;
pub(crate) mod promkairos;
pub(crate) mod proto;
pub(crate) mod proxy;
pub(crate) mod remote_read;
pub(crate) mod series;
pub(crate) mod target;
pub(crate) mod trace;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Much longer than anything takes on a slow machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// `host:port` of the Cassandra that all tests share.
pub(crate) fn cassandra() -> String {
    variable("PROMKAIROS_TEST_CASSANDRA")
}

/// The folder of the Cassandra that requires user, password and client certificate.
pub(crate) fn secure_cassandra() -> PathBuf {
    variable("PROMKAIROS_TEST_CASSANDRA_SECURE").into()
}

/// The Prometheus binary.
pub(crate) fn prometheus_binary() -> PathBuf {
    PathBuf::from(variable("PROMKAIROS_TEST_PROMETHEUS"))
}

/// The promtool binary.
pub(crate) fn promtool_binary() -> PathBuf {
    PathBuf::from(variable("PROMKAIROS_TEST_PROMTOOL"))
}

/// The vmalert binary of VictoriaMetrics.
pub(crate) fn vmalert_binary() -> PathBuf {
    PathBuf::from(variable("PROMKAIROS_TEST_VMALERT"))
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run ./test.sh"))
}

/// Whether the long tests are enabled (`./test.sh long`).
pub(crate) fn long() -> bool {
    std::env::var_os("PROMKAIROS_TEST_LONG").is_some_and(|value| value == "1")
}

/// A seed for random choices, printed; `PROMKAIROS_TEST_SEED` repeats a run.
pub(crate) fn seed() -> u64 {
    let seed = match std::env::var("PROMKAIROS_TEST_SEED") {
        Ok(text) => text.parse().expect("PROMKAIROS_TEST_SEED is a number"),
        Err(_) => rand::random(),
    };
    println!("PROMKAIROS_TEST_SEED={seed}");
    seed
}

/// A keyspace name that no other test has.
pub(crate) fn keyspace() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("t{}_{number}_{:x}", std::process::id(), rand::random::<u32>())
}

/// Calls `attempt` until it is `Ok`; panics with its last error at the deadline.
pub(crate) async fn eventually<T>(
    what: &str,
    mut attempt: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let start = Instant::now();
    loop {
        match attempt().await {
            Ok(value) => return value,
            Err(error) if start.elapsed() > DEADLINE => {
                panic!("{what}: not within {DEADLINE:?}: {error}")
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}
