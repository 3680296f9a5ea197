//! `promkairos explain 'SELECTOR'`: asks the running server for the path of a selection in
//! Cassandra.

use std::fmt::Write;

use clap::{Arg, ArgMatches, Command};
use serde_json::Value;

use super::args::valued;
use super::client::{self, Client, items};
use super::error::CliError;
use super::output;
use crate::model::{ShownLabel, ShownMetric, ShownText};

/// The command's definition.
pub(super) fn command() -> Command {
    Command::new("explain")
        .about("Show which path a selection takes in the cluster for writes, and what it reads")
        .arg(
            Arg::new("selector")
                .value_name("SELECTOR")
                .required(true)
                .help("Series as in PromQL, such as 'up{job=\"a\"}'; no function, no range"),
        )
        .arg(valued("start", "TIME", "Unix seconds or RFC 3339; without it from the beginning"))
        .arg(valued("end", "TIME", "Unix seconds or RFC 3339; without it to the end"))
        .args(client::arguments())
}

/// Runs `explain`.
pub(super) fn run(matches: &ArgMatches) -> Result<(), CliError> {
    let get = |name| matches.get_one::<String>(name).map(String::as_str);
    let names = [("match[]", "selector"), ("start", "start"), ("end", "end")];
    let query = names.into_iter().filter_map(|(name, argument)| Some((name, get(argument)?)));
    let query: Vec<_> = query.collect();
    let data = Client::of(matches)?.get("/api/v1/explain", &query);
    let data =
        data.map_err(|error| client::of_argument(error, "match[]", "SELECTOR (no function)"))?;
    output::print(&describe(&data))
}

fn describe(data: &Value) -> String {
    let (windows, legacy) = (items(&data["windows"]), items(&data["legacy"]));
    let sum = |of: &[Value], name: &str| -> u64 {
        of.iter().filter_map(|read| read[name].as_u64()).sum()
    };
    let partitions = sum(windows, "partitions") + legacy.len() as u64;
    let rows = sum(windows, "rows") + sum(legacy, "rows");
    let (series, data_partitions) = (&data["series"], &data["data_partitions"]);
    let cached = &data["cached_data_partitions"];
    output::text(|text| {
        windows.iter().try_for_each(|window| describe_window(text, window))?;
        for read in legacy {
            let metric = ShownMetric(read["metric"].as_str().unwrap_or_default());
            writeln!(text, "{metric}: row_key_index (partitions: 1, rows: {})", read["rows"])?;
        }
        writeln!(
            text,
            "series: {series}, partitions of data_points: {data_partitions} (settled part in the read \
             cache: {cached}), read of the index: partitions: {partitions}, rows: {rows}"
        )
    })
}

fn describe_window(text: &mut String, window: &Value) -> std::fmt::Result {
    let name = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let path = |path: &Value| match path["path"].as_str() {
        Some("tag_index") => {
            let shown = |value: &Value| {
                let value = name(value);
                // A list of values is easier to read without quotes.
                match value.contains(|c: char| !c.is_alphanumeric() && !"._-:/".contains(c)) {
                    true => ShownText(&value).to_string(),
                    false => value,
                }
            };
            let values: Vec<String> = items(&path["values"]).iter().map(shown).collect();
            format!("tag index {}={}", ShownLabel(&name(&path["tag"])), values.join("|"))
        }
        _ => name(&path["path"]),
    };
    let paths: Vec<String> = items(&window["paths"]).iter().map(path).collect();
    writeln!(
        text,
        "{} {} {}: {} (partitions: {}, rows: {})",
        ShownMetric(&name(&window["metric"])),
        output::time(window["row_time"].as_i64().unwrap_or_default()),
        name(&window["table_name"]),
        paths.join(" and "),
        window["partitions"],
        window["rows"],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_a_window_and_the_sum() {
        let data = serde_json::json!({
            "series": 3, "data_partitions": 5, "cached_data_partitions": 4,
            "windows": [
                { "metric": "up", "table_name": "data_points", "row_time": 0, "partitions": 2,
                  "rows": 7, "paths": [{ "path": "tag_index", "tag": "a", "values": ["x", "y"] }] },
                { "metric": "up", "table_name": "prometheus", "row_time": 0, "partitions": 1,
                  "rows": 4, "paths": [{ "path": "row_keys" }] },
            ],
            "legacy": [{ "metric": "up", "rows": 9 }],
        });
        assert_eq!(
            describe(&data),
            "up 1970-01-01T00:00:00Z data_points: tag index a=x|y (partitions: 2, rows: 7)\n\
             up 1970-01-01T00:00:00Z prometheus: row_keys (partitions: 1, rows: 4)\n\
             up: row_key_index (partitions: 1, rows: 9)\n\
             series: 3, partitions of data_points: 5 (settled part in the read cache: 4), \
             read of the index: partitions: 4, rows: 20\n"
        );
    }
}
