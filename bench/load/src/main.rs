//! Load generator: sends remote-write bodies made beforehand, counts what is stored, and measures
//! the bare Cassandra driver for comparison.
//!
//! Bodies are made before the clock starts, each with new timestamps and values, so that the
//! clock sees the sending alone. The generator shares the machine with the server; it writes ready
//! bytes to blocking sockets and does nothing else.

mod bodies;
mod count;
mod cql;
mod http;
mod kairosdb;
mod process;
mod query;
mod read;
mod rows;
mod send;
mod timing;

use clap::{Parser, Subcommand};

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Sends samples by remote write 1.0 and prints rates as JSON.
    Send(send::Options),
    /// Counts the stored samples by remote read, and times it.
    Count(count::Options),
    /// Asks Prometheus' HTTP API, and times it.
    Query(query::Options),
    /// Writes single rows with the bare driver.
    Cql(cql::Options),
    /// Reads the rows of the samples with the bare driver, and times it.
    Rows(rows::Options),
    /// Sends points to KairosDB.
    KairosdbSend(kairosdb::SendOptions),
    /// Queries KairosDB, and times it.
    KairosdbQuery(kairosdb::QueryOptions),
}

fn main() {
    let result = match Arguments::parse().command {
        Command::Send(options) => send::run(&options),
        Command::Count(options) => count::run(&options),
        Command::Query(options) => query::run(&options),
        Command::Cql(options) => cql::run(&options),
        Command::Rows(options) => rows::run(&options),
        Command::KairosdbSend(options) => kairosdb::send(&options),
        Command::KairosdbQuery(options) => kairosdb::query(&options),
    };
    if let Err(error) = result {
        eprintln!("load: {error}");
        std::process::exit(1);
    }
}
