//! `load cql`: the bare driver, with a prepared statement a row, or unlogged batches for one partition.
//!
//! It writes rows of the shape of `data_points` (a key of about 308 bytes, a value of eight) into its
//! own table and counts the rows of one partition back.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clap::Args;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;

use crate::process::CpuClock;
use crate::record::Subject;

#[derive(Args)]
pub struct Options {
    /// Contact point, on the loopback.
    #[arg(long, default_value = "127.0.0.1:9042")]
    address: String,
    /// Partitions; each gets one row a round.
    #[arg(long, default_value_t = 20_000)]
    series: u64,
    /// Rows of each partition.
    #[arg(long, default_value_t = 20)]
    rows: u64,
    /// Rows of one partition in a batch.
    #[arg(long, default_value_t = 1)]
    batch: u64,
    /// Copies of each row. Writes use LOCAL_QUORUM.
    #[arg(long, default_value_t = 1)]
    replication: u32,
    /// Statements in flight.
    #[arg(long, default_value_t = 256)]
    in_flight: u64,
    /// Processes of Cassandra, for their CPU time.
    #[arg(long = "pid")]
    pids: Vec<u32>,
    /// Name of the load.
    #[arg(long, default_value = "ingest")]
    figure: String,
    #[command(flatten)]
    subject: Subject,
}

pub fn run(options: &Options) -> io::Result<()> {
    if !options.address.starts_with("127.") {
        return Err(io::Error::other("the load generator talks to the loopback only"));
    }
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(write_rows(options)).map_err(io::Error::other)
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

async fn write_rows(options: &Options) -> Result<(), Failure> {
    let session = SessionBuilder::new().known_node(&options.address).build().await?;
    let insert = table(&session, options.replication).await?;
    let writer = Arc::new(Writer { session, insert, series: options.series, rows: options.rows });
    // Round after round, in the order of scrapes: a batch of each partition.
    let rounds = options.rows.div_ceil(options.batch);
    let (next, all) = (Arc::new(AtomicU64::new(0)), options.series * rounds);
    let (batch, cpu) = (options.batch, CpuClock::start(&options.pids));
    let began = Instant::now();
    let workers = (0..options.in_flight).map(|_| {
        let (writer, next) = (writer.clone(), next.clone());
        tokio::spawn(async move {
            loop {
                let turn = next.fetch_add(1, Ordering::Relaxed);
                if turn >= all {
                    return Ok::<_, Failure>(());
                }
                writer.write(turn, batch).await?;
            }
        })
    });
    for worker in futures::future::join_all(workers).await {
        worker??;
    }
    let rows = (options.series * options.rows) as f64;
    let rate = rows / began.elapsed().as_secs_f64();
    let cpu = cpu.seconds();
    let stored = writer.count_one().await?;
    if stored != options.rows as i64 {
        return Err(format!("a partition has {stored} rows, not {}", options.rows).into());
    }
    let (subject, figure) = (&options.subject, &options.figure);
    subject.print(figure, rate, "samples/s");
    subject.print(&format!("{figure} per server CPU second"), rows / cpu, "samples/CPU s");
    Ok(())
}

/// Creates the table anew; returns the statement that writes a row.
async fn table(session: &Session, replication: u32) -> Result<PreparedStatement, Failure> {
    let keyspace = format!(
        "CREATE KEYSPACE IF NOT EXISTS bench_driver WITH replication = \
         {{'class': 'SimpleStrategy', 'replication_factor': {replication}}}"
    );
    session.query_unpaged(keyspace, ()).await?;
    session.query_unpaged("DROP TABLE IF EXISTS bench_driver.data_points", ()).await?;
    let table = "CREATE TABLE bench_driver.data_points (key blob, column1 blob, value blob, \
                 PRIMARY KEY ((key), column1))";
    session.query_unpaged(table, ()).await?;
    let insert = "INSERT INTO bench_driver.data_points (key, column1, value) VALUES (?, ?, ?) \
                  USING TIMESTAMP ?";
    let mut insert = session.prepare(insert).await?;
    insert.set_is_idempotent(true);
    Ok(insert)
}

struct Writer {
    session: Session,
    insert: PreparedStatement,
    series: u64,
    rows: u64,
}

/// Key, column, value and time of writing.
type Row = (Vec<u8>, [u8; 4], [u8; 8], i64);

impl Writer {
    /// Writes a batch: the next `batch` rows of one partition, or the rest of them.
    async fn write(&self, turn: u64, batch: u64) -> Result<(), Failure> {
        let (partition, first) = (turn % self.series, turn / self.series * batch);
        let mut rows: Vec<Row> =
            (first..(first + batch).min(self.rows)).map(|row| self.row(partition, row)).collect();
        if batch == 1 {
            self.session.execute_unpaged(&self.insert, rows.remove(0)).await?;
            return Ok(());
        }
        let mut statement = Batch::new(BatchType::Unlogged);
        statement.set_is_idempotent(true);
        for _ in &rows {
            statement.append_statement(self.insert.clone());
        }
        self.session.batch(&statement, &rows).await?;
        Ok(())
    }

    fn row(&self, partition: u64, row: u64) -> Row {
        let column = ((row * 15_000) as u32).to_be_bytes();
        let value = ((row * self.series + partition) as f64).to_be_bytes();
        (key(partition), column, value, 1_700_000_000_000 + row as i64)
    }

    /// Counts the rows of one partition.
    async fn count_one(&self) -> Result<i64, Failure> {
        let query = "SELECT count(*) FROM bench_driver.data_points WHERE key = ?";
        let result = self.session.query_unpaged(query, (key(0),)).await?.into_rows_result()?;
        Ok(result.single_row::<(i64,)>()?.0)
    }
}

fn key(partition: u64) -> Vec<u8> {
    format!("{:0300}{partition:08}", 0).into_bytes()
}
