//! `promkairos wal repair`: shows what of a damaged log would be lost and, with `--apply`, repairs
//! it or gives up a log that is gone. The exit code is 1 if damage is left.

use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;

use clap::{ArgMatches, Command};

use crate::config::{Config, StoreConfig};
use crate::model::ShownTime;
use crate::server::{give_up_log, refuse_foreign, wal_dir};
use crate::storage::StoreError;
use crate::storage::disk::Disk;
use crate::storage::head::wal::{Contents, Loss, RepairMode, RepairReport, is_gone, repair};

use super::args::switch;
use super::error::{CliError, FAULT};
use super::output::{self, print};

/// The command's definition.
pub(super) fn command() -> Command {
    const APPLY: &str = "Take the damage out, or begin a new log where it is gone; without it only say what \
                         would be lost";
    Command::new("wal").about("Look after the log").subcommand_required(true).subcommand(
        Command::new("repair")
            .about("Show what of a damaged log would be lost, and take the damage out")
            .after_help(EXIT_CODES)
            .arg(switch("apply", APPLY)),
    )
}

/// The end of the command's help.
const EXIT_CODES: &str = "Exit codes: 0 the log is sound, or was repaired; 1 it is damaged and nothing was changed, \
                          or a fault; 2 an argument or a setting is wrong.";

/// Runs `wal repair` on the log of the chosen store.
pub(super) fn run(matches: &ArgMatches) -> Result<ExitCode, CliError> {
    let (_, matches) = matches.subcommand().expect("clap requires repair, the only one");
    let config = Config::load(matches)?;
    let mode = if matches.get_flag("apply") { RepairMode::Apply } else { RepairMode::Show };
    let store = match config.store {
        StoreConfig::Embedded => "embedded",
        StoreConfig::Cassandra { .. } => "cassandra",
    };
    let folder = wal_dir(&config.data_dir, &config.store);
    let failed = |error: StoreError| CliError::Command(error.to_string());
    if is_gone(&folder, &Disk).map_err(failed)? {
        return give_up(&config, &folder, mode);
    }
    if !folder.is_dir() {
        let other = log_of_other_store(&config);
        let what = format!("no log of the {store} store at {}{other}", folder.display());
        return Err(CliError::Refused(what));
    }
    refuse_foreign(&config.data_dir, &config.store)?;
    let report = repair(&folder, mode).map_err(failed)?;
    print(&describe(&report, mode))?;
    Ok(match (report.losses.is_empty(), mode) {
        (true, _) | (false, RepairMode::Apply) => ExitCode::SUCCESS,
        (false, RepairMode::Show) => ExitCode::from(FAULT),
    })
}

/// How to name the other store, if its log is there.
fn log_of_other_store(config: &Config) -> &'static str {
    let (log, hint) = match config.store {
        StoreConfig::Embedded => (
            "cassandra/wal",
            "; there is a log of the Cassandra store: add --store cassandra --ack wal",
        ),
        StoreConfig::Cassandra { .. } => {
            ("embedded/wal", "; there is a log of the embedded store: add --store embedded")
        }
    };
    if config.data_dir.join(log).is_dir() { hint } else { "" }
}

/// Reports that the log is gone. With `--apply` the next start begins a new log.
fn give_up(config: &Config, folder: &Path, mode: RepairMode) -> Result<ExitCode, CliError> {
    refuse_foreign(&config.data_dir, &config.store)?;
    let lost = format!(
        "{}: the log is gone. What it held and the store does not have is lost; how much is unknown.\n",
        folder.display()
    );
    match mode {
        RepairMode::Show => {
            print(
                &(lost + "Nothing was changed. Put the folder back; --apply begins a new log.\n"),
            )?;
            Ok(ExitCode::from(FAULT))
        }
        RepairMode::Apply => {
            give_up_log(config)?;
            print(&(lost + "The next start begins a new log.\n"))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The report as text, with a line for each loss.
fn describe(report: &RepairReport, mode: RepairMode) -> String {
    let RepairReport { losses, torn, valid, kept } = report;
    output::text(|text| {
        losses.iter().try_for_each(|loss| describe_loss(text, loss))?;
        if let Some((path, Range { start, end })) = torn {
            let path = path.display();
            writeln!(
                text,
                "{path}: bytes {start} to {end}: a torn end, which the next start cuts off"
            )?;
        }
        let good = describe_contents(valid);
        match (losses.is_empty(), mode) {
            (true, _) => writeln!(text, "The log is sound: {good}."),
            (false, RepairMode::Show) => {
                writeln!(text, "Good: {good}. Nothing was changed; --apply takes the damage out.")
            }
            (false, RepairMode::Apply) => {
                write!(text, "Good: {good}. Repaired")?;
                if !kept.is_empty() {
                    let kept: Vec<_> = kept.iter().map(|path| path.to_string_lossy()).collect();
                    write!(text, "; the damaged files are kept: {}", kept.join(", "))?;
                }
                writeln!(text)
            }
        }
    })
}

fn describe_contents(contents: &Contents) -> String {
    let Contents { records, undecoded, samples, series } = contents;
    let undecoded = match undecoded {
        0 => String::new(),
        undecoded => format!(", {undecoded} of the records cannot be decoded"),
    };
    format!("{records} records with {samples} samples of {series} series{undecoded}")
}

fn describe_loss(text: &mut String, loss: &Loss) -> std::fmt::Result {
    let Loss { path, bytes, what, first, last, accepted, contents } = loss;
    write!(text, "{}: bytes {} to {}: {what}: ", path.display(), bytes.start, bytes.end)?;
    match last {
        Some(last) if last < first => text.push_str("no record is lost"),
        Some(last) => write!(text, "records {first} to {last} are lost")?,
        None => write!(text, "records from {first} on are lost, how many is unknown")?,
    }
    if last.is_none_or(|last| last >= *first) {
        let Contents { records, undecoded, samples, series } = *contents;
        match records - undecoded {
            0 => text.push_str(", what they held is unknown"),
            decoded if loss.records() == Some(decoded) => {
                write!(text, ", with {samples} samples of {series} series")?;
            }
            _ => write!(text, ", with {samples} samples of {series} series or more")?,
        }
    }
    if let Some(after) = accepted.0 {
        write!(text, ", accepted after {}", ShownTime(after))?;
    }
    if let Some(before) = accepted.1 {
        write!(text, ", accepted before {}", ShownTime(before))?;
    }
    writeln!(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(losses: Vec<Loss>) -> RepairReport {
        let valid = Contents { records: 7, undecoded: 0, samples: 120, series: 30 };
        RepairReport { losses, torn: None, valid, kept: vec!["/d/1.wal.damaged".into()] }
    }

    #[test]
    fn a_report_names_file_bytes_and_records() {
        let good = "7 records with 120 samples of 30 series";
        let sound = describe(&report(vec![]), RepairMode::Show);
        assert_eq!(sound, format!("The log is sound: {good}.\n"));
        let torn = Some(("/d/2.wal".into(), 5..9));
        let text = describe(&RepairReport { torn, ..report(vec![]) }, RepairMode::Show);
        let line = "/d/2.wal: bytes 5 to 9: a torn end, which the next start cuts off\n";
        assert_eq!(text, format!("{line}{sound}"));
        let loss = Loss {
            path: "/d/1.wal".into(),
            bytes: 10..20,
            what: "checksum".into(),
            first: 3,
            last: Some(4),
            accepted: (Some(100), None),
            contents: Contents { records: 2, undecoded: 0, samples: 9, series: 5 },
        };
        let line = "/d/1.wal: bytes 10 to 20: checksum: records 3 to 4 are lost, \
                    with 9 samples of 5 series, accepted after 1970-01-01T00:00:00.1Z\n";
        assert_eq!(
            describe(&report(vec![loss.clone()]), RepairMode::Show),
            format!("{line}Good: {good}. Nothing was changed; --apply takes the damage out.\n")
        );
        let contents = Contents { undecoded: 1, ..loss.contents };
        let partly = Loss { contents, ..loss.clone() };
        let text = describe(&report(vec![partly]), RepairMode::Show);
        assert!(text.contains("lost, with 9 samples of 5 series or more, accepted"), "{text}");
        let contents = Contents::default();
        let dark = Loss { contents, ..loss.clone() };
        let text = describe(&report(vec![dark]), RepairMode::Show);
        assert!(text.contains("are lost, what they held is unknown, accepted"), "{text}");
        let text =
            describe(&report(vec![Loss { last: Some(2), ..loss.clone() }]), RepairMode::Show);
        assert!(text.contains("checksum: no record is lost, accepted"), "{text}");
        let missing = Loss { last: None, ..loss };
        let text = describe(&report(vec![missing.clone()]), RepairMode::Apply);
        assert!(text.contains("records from 3 on are lost, how many is unknown"), "{text}");
        assert!(text.ends_with("the damaged files are kept: /d/1.wal.damaged\n"), "{text}");
        let nothing_kept = RepairReport { kept: Vec::new(), ..report(vec![missing]) };
        let text = describe(&nothing_kept, RepairMode::Apply);
        assert!(text.ends_with("series. Repaired\n"), "{text}");
    }
}
