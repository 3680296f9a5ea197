//! `load cql`: the bare driver, one prepared single-row statement a row, for comparison.
//!
//! It writes rows of the shape of `data_points` (a key of about 308 bytes, a value of eight) into a
//! table of its own and counts them back.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clap::Args;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;

#[derive(Args)]
pub struct Options {
    /// Contact point, on the loopback.
    #[arg(long, default_value = "127.0.0.1:9042")]
    address: String,
    /// Partitions; each gets one row a round.
    #[arg(long, default_value_t = 20_000)]
    series: u64,
    /// Rounds.
    #[arg(long, default_value_t = 20)]
    rounds: u64,
    /// Statements in flight.
    #[arg(long, default_value_t = 256)]
    in_flight: u64,
}

pub fn run(options: &Options) -> io::Result<()> {
    if !options.address.starts_with("127.") {
        return Err(io::Error::other("the load generator talks to the loopback only"));
    }
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(write_rows(options)).map_err(io::Error::other)
}

async fn write_rows(options: &Options) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let session = SessionBuilder::new().known_node(&options.address).build().await?;
    session
        .query_unpaged(
            "CREATE KEYSPACE IF NOT EXISTS bench_driver WITH replication = \
             {'class': 'SimpleStrategy', 'replication_factor': 1}",
            (),
        )
        .await?;
    session.query_unpaged("DROP TABLE IF EXISTS bench_driver.data_points", ()).await?;
    session
        .query_unpaged(
            "CREATE TABLE bench_driver.data_points (key blob, column1 blob, value blob, \
             PRIMARY KEY ((key), column1))",
            (),
        )
        .await?;
    let mut insert = session
        .prepare(
            "INSERT INTO bench_driver.data_points (key, column1, value) VALUES (?, ?, ?) \
             USING TIMESTAMP ?",
        )
        .await?;
    insert.set_is_idempotent(true);
    let (session, insert) = (Arc::new(session), Arc::new(insert));
    let next = Arc::new(AtomicU64::new(0));
    let rows = options.series * options.rounds;
    let began = Instant::now();
    let workers = (0..options.in_flight).map(|_| {
        let (session, insert, next) = (session.clone(), insert.clone(), next.clone());
        let series = options.series;
        tokio::spawn(async move {
            loop {
                let row = next.fetch_add(1, Ordering::Relaxed);
                if row >= rows {
                    return Ok::<_, scylla::errors::ExecutionError>(());
                }
                let key = format!("{:0300}{:08}", 0, row % series).into_bytes();
                let column = ((row / series * 15_000) as u32).to_be_bytes().to_vec();
                let value = (row as f64).to_be_bytes().to_vec();
                let stamp = 1_700_000_000_000i64 + (row / series) as i64;
                session.execute_unpaged(&insert, (key, column, value, stamp)).await?;
            }
        })
    });
    for worker in futures::future::join_all(workers).await {
        worker??;
    }
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{:#}",
        serde_json::json!({
            "rows": rows,
            "in_flight": options.in_flight,
            "seconds": seconds,
            "rows_per_second": rows as f64 / seconds,
            "stored_of_one_partition": count_one(&session).await?,
            "rounds": options.rounds,
        })
    );
    Ok(())
}

/// The rows of one partition, counted back.
async fn count_one(session: &Session) -> Result<i64, Box<dyn std::error::Error + Send + Sync>> {
    let key = format!("{:0300}{:08}", 0, 0).into_bytes();
    let query = "SELECT count(*) FROM bench_driver.data_points WHERE key = ?";
    let result = session.query_unpaged(query, (key,)).await?.into_rows_result()?;
    Ok(result.single_row::<(i64,)>()?.0)
}
