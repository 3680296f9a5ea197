//! `load rows`: the rows of a fleet read by the bare driver, one SELECT a partition: what a read of
//! the same series costs at least. It also waits until everything that was sent is there.

use std::error::Error;
use std::io;
use std::time::{Duration, Instant};

use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use promkairos::kairos::{DataType, RowKey, RowSpec, Tags};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;

use crate::bodies::{SCRAPE_INTERVAL, Shape};
use crate::timing;

#[derive(Args)]
pub struct Options {
    /// Contact point, on the loopback.
    #[arg(long, default_value = "127.0.0.1:9042")]
    address: String,
    /// Keyspace with KairosDB's tables.
    #[arg(long)]
    keyspace: String,
    #[command(flatten)]
    shape: Shape,
    /// Only series with this number modulo `--modulo`.
    #[arg(long, default_value_t = 0)]
    remainder: usize,
    /// See `--remainder`.
    #[arg(long, default_value_t = 1)]
    modulo: usize,
    /// Scrapes of each series.
    #[arg(long, default_value_t = 240)]
    scrapes: i64,
    /// Time of the first scrape in milliseconds.
    #[arg(long, default_value_t = 1_700_000_000_000)]
    start: i64,
    /// The types of rows that are read for each series.
    #[arg(long = "type", default_value = "kairos_double")]
    types: Vec<String>,
    /// How often to read; the times are those of all but the first.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// SELECTs in flight.
    #[arg(long, default_value_t = 64)]
    in_flight: usize,
    /// Read until every scrape of every series is there, and say how long that took.
    #[arg(long)]
    wait: bool,
}

pub fn run(options: &Options) -> io::Result<()> {
    if !options.address.starts_with("127.") {
        return Err(io::Error::other("the load generator talks to the loopback only"));
    }
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(read(options)).map_err(io::Error::other)
}

/// A partition and the bounds of the columns in it.
type Row = (Vec<u8>, [u8; 4], [u8; 4]);

async fn read(options: &Options) -> Result<(), Box<dyn Error + Send + Sync>> {
    let session = SessionBuilder::new().known_node(&options.address).build().await?;
    let select = format!(
        "SELECT column1, value FROM {}.data_points WHERE key = ? AND column1 >= ? AND column1 < ?",
        options.keyspace
    );
    let mut select = session.prepare(select).await?;
    select.set_is_idempotent(true);
    let rows = rows(options)?;
    let wanted = (rows.len() / options.types.len()) as u64 * options.scrapes as u64;
    let mut times = Vec::new();
    let began = Instant::now();
    let found = loop {
        let from = Instant::now();
        let found = read_once(&session, &select, &rows, options.in_flight).await?;
        times.push(from.elapsed());
        let more = if options.wait { found < wanted } else { times.len() < options.rounds };
        if !more {
            break found;
        }
        if options.wait {
            if began.elapsed() > Duration::from_secs(600) {
                return Err(format!("{found} of {wanted} rows after ten minutes").into());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let result = serde_json::json!({
        "partitions": rows.len(),
        "rows": found,
        "seconds": began.elapsed().as_secs_f64(),
        "first_ms": times[0].as_secs_f64() * 1e3,
        "then_ms": timing::summary(&times[1..]),
    });
    println!("{result:#}");
    Ok(())
}

async fn read_once(
    session: &Session,
    select: &scylla::statement::prepared::PreparedStatement,
    rows: &[Row],
    in_flight: usize,
) -> Result<u64, Box<dyn Error + Send + Sync>> {
    let reads = stream::iter(rows).map(|row| async move {
        let (key, from, to) = row;
        let result = session.execute_unpaged(select, (&key[..], &from[..], &to[..])).await?;
        let result = result.into_rows_result()?;
        let mut count = 0;
        for cell in result.rows::<(&[u8], &[u8])>()? {
            count += u64::from(!cell?.1.is_empty());
        }
        Ok::<u64, Box<dyn Error + Send + Sync>>(count)
    });
    reads.buffer_unordered(in_flight).try_fold(0, |sum, n| async move { Ok(sum + n) }).await
}

fn rows(options: &Options) -> Result<Vec<Row>, Box<dyn Error + Send + Sync>> {
    let spec = RowSpec::DEFAULT;
    let (row_time, from) = spec.split(options.start);
    let last = options.start + (options.scrapes - 1) * SCRAPE_INTERVAL;
    let (last_row, to) = spec.split(last + 1);
    if last_row != row_time {
        return Err("the scrapes lie in more than one row".into());
    }
    let mut rows = Vec::new();
    let wanted = |series: &usize| series % options.modulo == options.remainder;
    for series in (0..options.shape.series).filter(wanted) {
        let labels = options.shape.labels(series);
        let pairs = labels[1..].iter().map(|(name, value)| (*name, &value[..]));
        let tags = Tags::from_pairs(pairs)?;
        for data_type in &options.types {
            let data_type = DataType::parse(data_type);
            let metric = labels[0].1.clone().into();
            let key = RowKey { metric, row_time, data_type, tags: tags.clone() }.encode()?;
            rows.push((key, from.to_bytes(), to.to_bytes()));
        }
    }
    Ok(rows)
}
