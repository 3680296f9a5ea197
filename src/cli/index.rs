//! `promkairos index build|drop|status METRIC`: the tag index of a metric, through the running
//! server. A build or a drop continues in the server if this command is interrupted; the command,
//! started again, shows the same job.

use std::fmt::Write;
use std::time::Duration;

use clap::{Arg, ArgMatches, Command};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use super::args::valued;
use super::client::{self, Client, items};
use super::error::CliError;
use super::output;
use crate::model::{Printable, ShownLabel, ShownMetric};

/// Interval of asking the server for the progress.
const LOOK: Duration = Duration::from_millis(300);
/// Why a drop leaves index rows, and what to do about them.
const WHY_LEFT: &str = "in partitions where KairosDB has rows too (they do no harm; drop again \
                        after gc_grace_seconds and a compaction of tag_indexed_row_keys)";

/// The command's definition.
pub(super) fn command() -> Command {
    let metric = Arg::new("metric").value_name("METRIC").help("A metric, or * for all of them");
    let pace = "Rows of row_keys done a second at most [default: 2000]";
    let pace =
        valued("rows-per-second", "N", pace).value_parser(clap::value_parser!(u32).range(1..));
    let job = |name: &'static str, about: &'static str| {
        let command = Command::new(name).about(about).arg(metric.clone().required(true));
        command.arg(pace.clone()).args(client::arguments())
    };
    Command::new("index")
        .about("Build, drop or show the tag index of a metric in the cluster for writes")
        .subcommand_required(true)
        .subcommand(job("build", "Index what is older than the configuration"))
        .subcommand(job("drop", "Delete the index rows of a metric that is no longer configured"))
        .subcommand(
            Command::new("status")
                .about("Show what is indexed, from when on, and what is under way")
                .arg(metric.clone())
                .args(client::arguments()),
        )
}

/// Runs `index`.
pub(super) fn run(matches: &ArgMatches) -> Result<(), CliError> {
    let (name, matches) = matches.subcommand().expect("clap requires one");
    let client = Client::of(matches)?;
    let metric = matches.get_one::<String>("metric").map(String::as_str);
    if name == "status" {
        let data = client.get("/api/v1/status/tag_index", &[])?;
        return output::print(&describe(&data, metric));
    }
    let metric = metric.unwrap_or_default();
    let pace = matches.get_one::<u32>("rows-per-second").map(u32::to_string);
    let pace = pace.iter().map(|pace| ("rows_per_second", pace.as_str()));
    let query: Vec<_> = std::iter::once(("metric", metric)).chain(pace).collect();
    client.post(&format!("/api/v1/admin/tag_index/{name}"), &query)?;
    follow(&client, metric)
}

/// Shows the progress of a job until it ends.
fn follow(client: &Client, metric: &str) -> Result<(), CliError> {
    let style = "{msg} [{bar:40}] {pos}/{len} windows, {elapsed}";
    let style = ProgressStyle::with_template(style).expect("a valid template");
    let bar = ProgressBar::new(0).with_style(style.progress_chars("=> "));
    bar.set_message(metric.to_owned());
    loop {
        let mut data = client.get("/api/v1/status/tag_index", &[])?;
        let job = data["jobs"][metric].take();
        bar.set_length(job["windows"].as_u64().unwrap_or(0));
        bar.set_position(job["windows_done"].as_u64().unwrap_or(0));
        match job["state"].as_str() {
            Some("running") => std::thread::sleep(LOOK),
            Some("done") => {
                bar.finish_and_clear();
                return output::print(&format!("{}: {}\n", shown(metric), describe_job(&job)));
            }
            _ => {
                bar.abandon();
                let why = job["error"].as_str().unwrap_or("the server no longer knows of it");
                return Err(CliError::Command(format!("index of {}: {why}", shown(metric))));
            }
        }
    }
}

fn describe(data: &Value, metric: Option<&str>) -> String {
    let wanted = |name: Option<&str>| metric.is_none() || name == metric || name == Some("*");
    let text = output::text(|text| {
        for tag in items(&data["tags"]).iter().filter(|tag| wanted(tag["metric"].as_str())) {
            describe_tag(text, tag)?;
        }
        for (name, job) in data["jobs"].as_object().into_iter().flatten() {
            if wanted(Some(name)) {
                writeln!(text, "{}: {}", shown(name), describe_job(job))?;
            }
        }
        Ok(())
    });
    if text.is_empty() { "not indexed\n".into() } else { text }
}

fn describe_tag(text: &mut String, tag: &Value) -> std::fmt::Result {
    let name = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (metric, state) = (name(&tag["metric"]), name(&tag["state"]));
    let label = match name(&tag["tag"]) {
        all if all == "*" => all,
        label => ShownLabel(&label).to_string(),
    };
    write!(text, "{} tag {label}: {state}", shown(&metric))?;
    if let Some(from) = tag["from"].as_i64() {
        write!(text, ", read from {} on", output::time(from))?;
        if from != i64::MIN {
            let metric = Printable(&metric);
            write!(text, " (and before that after promkairos index build '{metric}')")?;
        }
    }
    let gaps = items(&tag["gaps"]).iter().filter_map(Value::as_i64);
    let gaps: Vec<String> = gaps.map(output::time).collect();
    if !gaps.is_empty() {
        write!(text, ", but for {}", gaps.join(", "))?;
    }
    writeln!(text)
}

/// The name of a metric, or `*` for all metrics.
fn shown(metric: &str) -> String {
    match metric {
        "*" => metric.to_owned(),
        metric => ShownMetric(metric).to_string(),
    }
}

fn describe_job(job: &Value) -> String {
    let name = |key: &str| job[key].as_str().unwrap_or_default();
    let (done, windows) = (&job["windows_done"], &job["windows"]);
    let rows = match job["kind"].as_str() {
        // A server of version 0.1 does not count index rows.
        Some("drop") => job["deleted"].as_u64().map(|rows| format!("{rows} index rows deleted")),
        _ => Some(format!("{} rows", job["rows"])),
    };
    let rows = rows.map(|rows| format!(", {rows}")).unwrap_or_default();
    let left = match job["left"].as_u64() {
        None | Some(0) => String::new(),
        Some(left) => format!(", {left} left {WHY_LEFT}"),
    };
    let error = job["error"].as_str().map_or_else(String::new, |error| format!(": {error}"));
    format!("{} {}, {done} of {windows} windows{rows}{left}{error}", name("kind"), name("state"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_a_tag_and_a_line_a_job() {
        let data = serde_json::json!({
            "version": 3, "adapters": {},
            "tags": [
                { "metric": "m", "tag": "host", "state": "readable", "from": i64::MIN, "gaps": [0] },
                { "metric": "n", "tag": "*", "state": "writing", "from": null, "gaps": [] },
                { "metric": "*", "tag": "*", "state": "readable", "from": 1_000, "gaps": [] },
            ],
            "jobs": { "m": { "kind": "build", "state": "running", "error": null, "windows": 4,
                             "windows_done": 1, "rows": 7, "rows_per_second": 5 } },
        });
        let first = "m tag host: readable, read from the beginning on, but for \
                     1970-01-01T00:00:00Z\n";
        let job = "m: build running, 1 of 4 windows, 7 rows\n";
        let all = "* tag *: readable, read from 1970-01-01T00:00:01Z on (and before that after \
                   promkairos index build '*')\n";
        assert_eq!(describe(&data, Some("m")), format!("{first}{all}{job}"));
        assert_eq!(describe(&data, None), format!("{first}n tag *: writing\n{all}{job}"));
        assert_eq!(describe(&serde_json::json!({}), Some("o")), "not indexed\n");
        let mut job = serde_json::json!({ "kind": "drop", "state": "done", "error": null, "windows": 4,
                                          "windows_done": 4, "rows": 7, "deleted": 3 });
        assert_eq!(describe_job(&job), "drop done, 4 of 4 windows, 3 index rows deleted");
        job["left"] = 0.into();
        assert_eq!(describe_job(&job), "drop done, 4 of 4 windows, 3 index rows deleted");
        job["left"] = 2.into();
        let left = "drop done, 4 of 4 windows, 3 index rows deleted, 2 left in partitions where \
                    KairosDB has rows too (they do no harm; drop again after gc_grace_seconds and \
                    a compaction of tag_indexed_row_keys)";
        assert_eq!(describe_job(&job), left);
        job["left"].take();
        job["deleted"].take();
        assert_eq!(describe_job(&job), "drop done, 4 of 4 windows");
    }
}
