//! `load rows`: reads the rows of a fleet with the bare driver, one SELECT a partition: the least that
//! a read of the same series costs. For senders that are answered early it waits until all is stored.

use std::error::Error;
use std::io;
use std::time::{Duration, Instant};

use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use promkairos::kairos::{DataType, RowKey, RowSpec, Tags};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::statement::prepared::PreparedStatement;

use crate::record::Subject;
use crate::shape::{SCRAPE_INTERVAL, Shape};

/// The rows and their location.
#[derive(Debug, Clone, Args)]
pub struct Stored {
    /// Contact point of Cassandra, on the loopback.
    #[arg(long, default_value = "127.0.0.1:9042")]
    pub cassandra: String,
    /// Keyspace with KairosDB's tables.
    #[arg(long)]
    pub keyspace: String,
    /// The type of the rows.
    #[arg(long = "type", default_value = "kairos_double")]
    pub data_type: String,
}

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    stored: Stored,
    #[command(flatten)]
    shape: Shape,
    /// Scrapes of each series.
    #[arg(long, default_value_t = 240)]
    scrapes: usize,
    /// Time of the first scrape in milliseconds.
    #[arg(long, default_value_t = 1_700_000_000_000)]
    start: i64,
    /// Number of reads.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// SELECTs in flight.
    #[arg(long, default_value_t = 64)]
    in_flight: usize,
    /// Name of the load.
    #[arg(long, default_value = "read")]
    figure: String,
    #[command(flatten)]
    subject: Subject,
}

pub fn run(options: &Options) -> io::Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(read(options)).map_err(io::Error::other)
}

type Failure = Box<dyn Error + Send + Sync>;

/// A partition and its first and last column.
type Row = (Vec<u8>, [u8; 4], [u8; 4]);

async fn read(options: &Options) -> Result<(), Failure> {
    let (session, select) = prepare(&options.stored).await?;
    let series = 0..options.shape.series;
    let rows = rows(&options.stored, &options.shape, (options.start, options.scrapes), series)?;
    let (mut found, mut times) = (0, Vec::new());
    for _ in 0..options.rounds {
        let began = Instant::now();
        found = read_once(&session, &select, &rows, options.in_flight).await?;
        times.push(began.elapsed());
    }
    if found != (rows.len() * options.scrapes) as u64 {
        return Err(format!("{found} rows in {} partitions", rows.len()).into());
    }
    let (subject, figure) = (&options.subject, &options.figure);
    subject.print_times(figure, &times);
    subject.print(figure, found as f64, "samples");
    Ok(())
}

/// Waits until every scrape of sample series is stored: of the last series of each request.
pub async fn wait_until_stored(
    stored: &Stored,
    shape: &Shape,
    scrapes: (i64, usize),
) -> Result<(), Failure> {
    let (session, select) = prepare(stored).await?;
    let series = (0..shape.series).rev().step_by(1000);
    let rows = rows(stored, shape, scrapes, series)?;
    let wanted = (rows.len() * scrapes.1) as u64;
    let began = Instant::now();
    loop {
        let found = read_once(&session, &select, &rows, 16).await?;
        if found == wanted {
            return Ok(());
        }
        if began.elapsed() > Duration::from_secs(600) {
            return Err(format!("{found} of {wanted} rows after ten minutes").into());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A session, and the statement that reads part of a partition.
async fn prepare(stored: &Stored) -> Result<(Session, PreparedStatement), Failure> {
    if !stored.cassandra.starts_with("127.") {
        return Err("the load generator talks to the loopback only".into());
    }
    let session = SessionBuilder::new().known_node(&stored.cassandra).build().await?;
    let select = format!(
        "SELECT column1, value FROM {}.data_points WHERE key = ? AND column1 >= ? AND column1 < ?",
        stored.keyspace
    );
    let mut select = session.prepare(select).await?;
    select.set_is_idempotent(true);
    Ok((session, select))
}

async fn read_once(
    session: &Session,
    select: &PreparedStatement,
    rows: &[Row],
    in_flight: usize,
) -> Result<u64, Failure> {
    let reads = stream::iter(rows).map(|row| async move {
        let (key, from, to) = row;
        let result = session.execute_unpaged(select, (&key[..], &from[..], &to[..])).await?;
        let result = result.into_rows_result()?;
        let mut count = 0;
        for cell in result.rows::<(&[u8], &[u8])>()? {
            count += u64::from(!cell?.1.is_empty());
        }
        Ok::<u64, Failure>(count)
    });
    reads.buffer_unordered(in_flight).try_fold(0, |sum, n| async move { Ok(sum + n) }).await
}

/// The rows of these series for a number of scrapes from a start on, in milliseconds.
fn rows(
    stored: &Stored,
    shape: &Shape,
    (start, scrapes): (i64, usize),
    series: impl Iterator<Item = usize>,
) -> Result<Vec<Row>, Failure> {
    let spec = RowSpec::DEFAULT;
    let (row_time, from) = spec.split(start);
    let last = start + (scrapes as i64 - 1) * SCRAPE_INTERVAL;
    let (last_row, to) = spec.split(last + 1);
    if last_row != row_time {
        return Err("the scrapes lie in more than one row".into());
    }
    let mut rows = Vec::new();
    for series in series {
        let labels = shape.labels(series);
        let tags = Tags::from_pairs(labels[1..].iter().map(|(name, value)| (*name, &value[..])))?;
        let data_type = DataType::parse(&stored.data_type);
        let metric = labels[0].1.clone().into();
        let key = RowKey { metric, row_time, data_type, tags }.encode()?;
        rows.push((key, from.to_bytes(), to.to_bytes()));
    }
    Ok(rows)
}
