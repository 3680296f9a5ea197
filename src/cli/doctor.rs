//! `promkairos doctor`: checks a keyspace and, with `--fix`, repairs it.
//!
//! The findings are printed on stdout, as text or JSON; a progress bar on stderr, on a terminal.
//! With `--state` an interrupted check resumes. The exit code is 1 if faults are left.

mod text;

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{ArgMatches, Command};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::runtime::Runtime;

use crate::config::{CassandraConfig, Config, parse_duration};
use crate::storage::StoreError;
use crate::storage::cassandra::doctor::{Depth, Doctor, Kind, Progress, Settings};
use crate::storage::disk::{Disk, replace};
use crate::{server, telemetry};

use super::args::{switch, valued};
use super::error::CliError;
use super::output;

/// How often the state is written.
const SAVE_EVERY: Duration = Duration::from_secs(1);

/// The command's definition.
pub(super) fn command() -> Command {
    let value = |name, value, default: &'static str, help: &str| {
        let argument = valued(name, value, format!("{help} [default: {default}]"));
        argument.default_value(default).hide_default_value(true)
    };
    Command::new("doctor")
        .about("Check the one keyspace that --cassandra-* name, of any cluster, and mend it with --fix")
        .arg(
            valued("fix", "KIND,...", "Mend what can be mended, or only findings of these kinds")
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value(""),
        )
        .arg(switch("json", "The report as JSON"))
        .arg(switch("no-cells", "Do not read cells: quicker, but blind to write times and expiry"))
        .arg(value("rate", "N", "2000", "Reads a second at most; 0 = as fast as it goes"))
        .arg(value(
            "settled",
            "DURATION",
            "24h",
            "How long a window must be closed and left alone before anything in it is too much",
        ))
        .arg(value("pause", "DURATION", "5s", "Wait between two looks at what looks wrong"))
        .arg(value("wide", "ROWS", "100000", "List partitions with more rows than this"))
        .arg(value("hot", "CELLS", "36000", "List partitions with more cells of the last hour"))
        .arg(valued("state", "FILE", "Keep the progress here, and go on from there"))
}

/// Runs `doctor`.
pub(super) fn run_doctor(matches: &ArgMatches) -> Result<ExitCode, CliError> {
    let config = Config::load(matches)?;
    let cassandra = CassandraConfig::load(matches)?;
    telemetry::start_log(&config.log, &telemetry::Traces::default());
    let settings = settings(matches)?;
    let state = matches.get_one::<String>("state").map(PathBuf::from);
    let runtime = Runtime::new().map_err(CliError::system("cannot start the runtime"))?;
    let failed = |error: StoreError| CliError::of_store("", &error);
    let options = server::cassandra_options(&config, &cassandra).map_err(failed)?;
    let (spec, progress) = runtime.block_on(async {
        let doctor = Doctor::connect(options, settings.clone()).await.map_err(failed)?;
        let progress = examine(&doctor, state.as_deref()).await?;
        Ok::<_, CliError>((doctor.row_spec(), progress))
    })?;
    let report = &progress.report;
    match matches.get_flag("json") {
        true => output::print_json(report)?,
        false => {
            let spec = format!("{}, rows of {} ms", spec.unit().as_str(), spec.width());
            let keyspace = &cassandra.keyspace;
            output::print(&output::text(|text| {
                text::write_all(text, keyspace, &spec, report, &settings)
            }))?;
        }
    }
    Ok(if report.left() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the check to its end, shows a progress bar and saves the state.
async fn examine(doctor: &Doctor, state: Option<&Path>) -> Result<Progress, CliError> {
    let mut progress = match state {
        Some(path) => load(path, doctor.start())?,
        None => doctor.start(),
    };
    let bar = ProgressBar::new(progress.done().1);
    let style = ProgressStyle::with_template("{msg:21} {wide_bar} {percent:>3} % {eta:>4}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let mut saved = Instant::now();
    let run = doctor.run(&mut progress, |progress| {
        bar.set_message(progress.stage.name());
        bar.set_position(progress.done().0);
        match state {
            Some(path) if saved.elapsed() >= SAVE_EVERY => {
                saved = Instant::now();
                save(path, progress)
            }
            _ => Ok(()),
        }
    });
    let result = run.await;
    bar.finish_and_clear();
    let Some(path) = state else {
        result.map_err(|error| CliError::Command(error.to_string()))?;
        return Ok(progress);
    };
    if let Err(error) = result {
        save(path, &progress).map_err(|error| CliError::Command(error.to_string()))?;
        let path = path.display();
        return Err(CliError::Command(format!("{error}; {path} keeps how far the check has come")));
    }
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != ErrorKind::NotFound => {
            Err(CliError::System { what: path.display().to_string(), source })
        }
        _ => Ok(progress),
    }
}

/// The progress in the file; `start` if there is no file.
fn load(path: &Path, start: Progress) -> Result<Progress, CliError> {
    let refused = |what: String| CliError::Refused(format!("{}: {what}", path.display()));
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(start),
        Err(source) => {
            return Err(CliError::System { what: path.display().to_string(), source });
        }
    };
    let progress: Progress = serde_json::from_slice(&bytes)
        .map_err(|error| refused(format!("not the state of a check: {error}")))?;
    if !progress.continues(&start) {
        let why = "the state of a check of another keyspace, or with other settings";
        return Err(refused(why.into()));
    }
    Ok(progress)
}

/// Replaces the file durably.
fn save(path: &Path, progress: &Progress) -> Result<(), StoreError> {
    let failed = |source| StoreError::Io { path: path.to_owned(), source };
    let json = serde_json::to_vec(progress).map_err(|error| failed(error.into()))?;
    let mut next = path.as_os_str().to_owned();
    next.push(".next");
    let write = |path: &Path| Disk::write_new(path, &json);
    replace(&Disk, path, next.as_ref(), write).map_err(|error| failed(error.into()))
}

fn settings(matches: &ArgMatches) -> Result<Settings, CliError> {
    let text = |name: &str| matches.get_one::<String>(name).map_or("", String::as_str);
    let refuse = |name: &str, why: &dyn std::fmt::Display| {
        CliError::usage(format!("--{name} {:?}: {why}", text(name)))
    };
    let duration = |name: &str| parse_duration(text(name)).map_err(|error| refuse(name, &error));
    let count = |name: &str| text(name).parse().map_err(|_| refuse(name, &"not a number"));
    let rate: u32 = text("rate").parse().map_err(|_| refuse("rate", &"not a number"))?;
    let fix = match matches.get_one::<String>("fix").map(String::as_str) {
        None => BTreeSet::new(),
        Some("") => Kind::ALL.into_iter().filter(|kind| kind.remedy().is_some()).collect(),
        Some(kinds) => kinds
            .split(',')
            .map(|kind| kind.trim().parse().map_err(|error: String| refuse("fix", &error)))
            .collect::<Result<_, _>>()?,
    };
    Ok(Settings {
        fix,
        depth: if matches.get_flag("no-cells") { Depth::Index } else { Depth::Cells },
        settled: duration("settled")?,
        pause: duration("pause")?,
        rate: (rate > 0).then_some(rate),
        wide: count("wide")?,
        hot: count("hot")?,
        ..Settings::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Settings, String> {
        let arguments = std::iter::once("doctor").chain(arguments.iter().copied());
        let matches = command().try_get_matches_from(arguments).map_err(|e| e.to_string())?;
        settings(&matches).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_to_be_mended() {
        assert_eq!(parse(&[]).expect("valid").fix, BTreeSet::new());
        let all = parse(&["--fix"]).expect("valid").fix;
        assert!(all.contains(&Kind::UnindexedData) && !all.contains(&Kind::LaterStamp));
        let some = parse(&["--fix=missing-name,leftover"]).expect("valid").fix;
        assert_eq!(some, BTreeSet::from([Kind::MissingName, Kind::Leftover]));
        let error = parse(&["--fix=later-stamp"]).expect_err("cannot be mended");
        assert!(error.starts_with("--fix \"later-stamp\": \"later-stamp\" is nothing"), "{error}");
    }

    #[test]
    fn settings_are_checked() {
        let settings = parse(&["--rate=0", "--no-cells", "--settled=1h"]).expect("valid");
        assert_eq!((settings.rate, settings.depth), (None, Depth::Index));
        assert_eq!(settings.settled, Duration::from_secs(3600));
        assert!(parse(&["--rate=x"]).expect_err("refused").starts_with("--rate \"x\": not a"));
        assert!(parse(&["--pause=5"]).expect_err("refused").starts_with("--pause \"5\": not a"));
    }
}
