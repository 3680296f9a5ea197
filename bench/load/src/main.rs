//! Load generator: sends prepared remote-write bodies, counts what is stored, runs queries, and
//! measures the bare Cassandra driver for comparison.
//!
//! Bodies are prepared before the clock starts, each with new timestamps and values, so that only
//! the sending is timed. The generator shares the machine with the server; it only writes prepared
//! bytes to blocking sockets. It prints records, and makes tables and plots of them; it starts and
//! stops no server.

mod beside;
mod count;
mod cql;
mod fleet;
mod http;
mod kairosdb;
mod pairs;
mod plot;
mod process;
mod query;
mod read;
mod record;
mod rows;
mod send;
mod shape;
mod table;
mod timing;

use clap::{Parser, Subcommand};

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Sends samples by remote write.
    Send(send::Options),
    /// Lets the server count what is stored, by PromQL.
    Stored(count::StoredOptions),
    /// Counts what is stored by remote read, and times it.
    Count(count::ReadOptions),
    /// Queries Prometheus' HTTP API, and times it.
    Query(query::Options),
    /// Writes rows with the bare driver.
    Cql(cql::Options),
    /// Reads the rows of the samples with the bare driver, and times it.
    Rows(rows::Options),
    /// Sends points to KairosDB until they are stored.
    KairosdbSend(kairosdb::SendOptions),
    /// Queries KairosDB, and times it.
    KairosdbQuery(kairosdb::QueryOptions),
    /// Prints the records of a file as a table in Markdown.
    Table(table::Options),
    /// Prints how two builds differ, from the records of `bench/pairs.sh`.
    Pairs(pairs::Options),
    /// Plots how costs grow with the load.
    Plot(plot::Options),
}

fn main() {
    let result = match Arguments::parse().command {
        Command::Send(options) => send::run(&options),
        Command::Stored(options) => count::stored(&options),
        Command::Count(options) => count::read(&options),
        Command::Query(options) => query::run(&options),
        Command::Cql(options) => cql::run(&options),
        Command::Rows(options) => rows::run(&options),
        Command::KairosdbSend(options) => kairosdb::send(&options),
        Command::KairosdbQuery(options) => kairosdb::query(&options),
        Command::Table(options) => table::run(&options),
        Command::Pairs(options) => pairs::run(&options),
        Command::Plot(options) => plot::run(&options),
    };
    if let Err(error) = result {
        eprintln!("load: {error}");
        std::process::exit(1);
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Arguments;

    #[test]
    fn the_commands_and_their_options_fit_together() {
        Arguments::command().debug_assert();
    }
}
