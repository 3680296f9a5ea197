//! `promkairos delete`: asks the running server to delete points, or to report what it would delete.
//!
//! The server deletes, not this process: only the server knows the samples in its log, and its cache
//! of the index.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::{ArgAction, ArgMatches, Command};
use serde::Deserialize;

use super::args::{switch, valued};
use super::client::{self, Client};
use super::error::CliError;
use super::output;

/// The server's answer to a dry run.
#[derive(Debug, Deserialize)]
struct Preview {
    series: u64,
    points: u64,
    exemplars: u64,
    selected: Vec<Selected>,
    /// `None` if the store keeps no tombstones.
    cost: Option<Cost>,
}

/// What the delete would leave behind.
#[derive(Debug, Deserialize)]
struct Cost {
    windows: u64,
    index_rows_left: u64,
    /// By table.
    tombstones: BTreeMap<String, u64>,
}

/// The server's answer to a delete.
#[derive(Debug, Deserialize)]
struct Matched {
    series: u64,
    more: bool,
}

/// A series of the answer.
#[derive(Debug, Deserialize)]
struct Selected {
    labels: String,
    points: u64,
    exemplars: u64,
}

/// The command's definition.
pub(super) fn command() -> Command {
    const TIME: &str = "RFC 3339, or seconds since 1970";
    const MATCH: &str = "Series to delete, such as 'up{job=\"a\"}'; may be given again";
    const DRY_RUN: &str = "Only show the series, how many points of each would go, and the cost";
    let time = |name: &'static str, what: &str| {
        let argument = valued(name, "TIME", format!("{what} ({TIME})"));
        argument.required(true).allow_negative_numbers(true)
    };
    Command::new("delete")
        .about("Delete points through the running server; it needs --enable-admin-api")
        .arg(valued("match", "SELECTOR", MATCH).required(true).action(ArgAction::Append))
        .arg(time("start", "First time to delete"))
        .arg(time("end", "Last time to delete"))
        .arg(switch("dry-run", DRY_RUN))
        .args(client::arguments())
}

/// Runs `delete`.
pub(super) fn run_delete(matches: &ArgMatches) -> Result<(), CliError> {
    let text = |name: &str| matches.get_one::<String>(name).map_or("", String::as_str);
    let mut form = vec![("start", text("start")), ("end", text("end"))];
    let selectors = matches.get_many::<String>("match").into_iter().flatten();
    form.extend(selectors.map(|selector| ("match[]", selector.as_str())));
    let is_dry = matches.get_flag("dry-run");
    form.push((if is_dry { "dry_run" } else { "count_series" }, "true"));
    let data = Client::of(matches)?.post("/api/v1/admin/tsdb/delete_series", &form);
    let data = data.map_err(|error| client::of_argument(error, "match[]", "--match"))?;
    let wrong = |error| CliError::Command(format!("not the expected answer: {error}"));
    if !is_dry {
        // A Prometheus answers without data.
        let matched: Option<Matched> = serde_json::from_value(data).map_err(wrong)?;
        return output::print(&done(matched.as_ref()));
    }
    let preview: Preview = serde_json::from_value(data).map_err(wrong)?;
    output::print(&describe(&preview))
}

/// The result, as far as the server reports it: series may match and have no points in the range.
fn done(matched: Option<&Matched>) -> String {
    match matched {
        None => "Deleted.\n".to_owned(),
        Some(Matched { series: 0, .. }) => {
            "No series that matches has points in that time; exemplars without any are deleted.\n"
                .to_owned()
        }
        Some(Matched { series, more }) => {
            let more = if *more { " or more" } else { "" };
            format!("Deleted what {series}{more} series had in that time.\n")
        }
    }
}

fn describe(preview: &Preview) -> String {
    let count = |points, exemplars| match exemplars {
        0 => format!("{points} points"),
        exemplars => format!("{points} points and {exemplars} exemplars"),
    };
    let Preview { series, points, exemplars, selected, cost } = preview;
    output::text(|text| {
        for Selected { labels, points, exemplars } in selected {
            writeln!(text, "{labels}: {}", count(*points, *exemplars))?;
        }
        let more = series - selected.len() as u64;
        if more > 0 {
            writeln!(text, "and {more} series more")?;
        }
        let count = count(*points, *exemplars);
        writeln!(text, "{series} series with {count} would go. Nothing was deleted.")?;
        text.write_str(&cost.as_ref().and_then(describe_cost).unwrap_or_default())
    })
}

/// One sentence; `None` if nothing would be left behind.
fn describe_cost(cost: &Cost) -> Option<String> {
    let Cost { windows, index_rows_left, tombstones } = cost;
    let tables = tombstones.iter().filter(|(_, tombstones)| **tombstones > 0);
    let tables: Vec<String> = tables.map(|(table, count)| format!("{count} in {table}")).collect();
    if tables.is_empty() {
        return None;
    }
    let stay = match *index_rows_left {
        0 => String::new(),
        rows => format!("; at least {rows} index rows stay, and queries go on reading them"),
    };
    let tables = tables.join(", ");
    Some(format!(
        "The delete leaves at most these tombstones in {windows} windows: {tables}{stay}.\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delete_says_how_much_matched() {
        let said = |series, more| done(Some(&Matched { series, more }));
        assert_eq!(done(None), "Deleted.\n");
        assert_eq!(
            said(0, false),
            "No series that matches has points in that time; exemplars without any are deleted.\n"
        );
        assert_eq!(said(7, false), "Deleted what 7 series had in that time.\n");
        assert_eq!(said(1_000, true), "Deleted what 1000 or more series had in that time.\n");
    }

    #[test]
    fn a_preview_lists_series_and_counts_all() {
        let json = r#"{"series":3,"points":7,"exemplars":2,"selected":[
            {"labels":"{__name__=\"up\"}","points":4,"exemplars":0},
            {"labels":"{__name__=\"x\"}","points":1,"exemplars":2}]}"#;
        let preview: Preview = serde_json::from_str(json).expect("a preview");
        assert_eq!(
            describe(&preview),
            "{__name__=\"up\"}: 4 points\n{__name__=\"x\"}: 1 points and 2 exemplars\n\
             and 1 series more\n\
             3 series with 7 points and 2 exemplars would go. Nothing was deleted.\n"
        );
    }

    #[test]
    fn a_preview_says_what_a_delete_leaves_behind() {
        let said = |windows: u64, index_rows_left: u64, tombstones: &str| {
            let json = format!(
                r#"{{"series":1,"points":2,"exemplars":0,"selected":[{{"labels":"{{}}","points":2,
                "exemplars":0}}],"cost":{{"windows":{windows},"index_rows_deleted":0,
                "index_rows_left":{index_rows_left},"tombstones":{tombstones}}}}}"#
            );
            describe(&serde_json::from_str(&json).expect("a preview"))
        };
        let begin = "{}: 2 points\n1 series with 2 points would go. Nothing was deleted.\n";
        assert_eq!(said(0, 0, r#"{"data_points":0,"row_keys":0}"#), begin);
        assert_eq!(
            said(2, 0, r#"{"data_points":3,"row_key_index":0,"row_keys":1}"#),
            format!(
                "{begin}The delete leaves at most these tombstones in 2 windows: \
                 3 in data_points, 1 in row_keys.\n"
            )
        );
        assert_eq!(
            said(1, 4, r#"{"data_points":4}"#),
            format!(
                "{begin}The delete leaves at most these tombstones in 1 windows: \
                 4 in data_points; at least 4 index rows stay, and queries go on reading them.\n"
            )
        );
    }
}
