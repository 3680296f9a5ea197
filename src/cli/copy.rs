//! `promkairos copy`: copies data from one store to another, and compares both.
//!
//! The result is printed on stdout, as text or JSON; a progress bar on stderr, on a terminal. An
//! interrupted copy resumes when it is started again. The exit code is 1 if the two sides differ
//! afterwards, or something is left out that the user did not allow; 2 if the state file belongs to
//! another copy, or a side refuses the request.

mod open_endpoint;
mod report;
mod text;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::builder::PossibleValuesParser;
use clap::{ArgAction, ArgMatches, Command};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::api::parse_time;
use crate::config::{CassandraConfig, Config, parse_duration};
use crate::copy::left_out::{REASONS, REFUSED};
use crate::copy::{
    Copier, CopyError, Endpoint, Job, JobText, Progress, Selector, Stage, StateFile,
};
use crate::limits::DRAIN_TIMEOUT;
use crate::model::{MAX_TIMESTAMP, MIN_TIMESTAMP, TimeLimits, TimeRange};
use crate::promql::parse_selector;
use crate::telemetry;

use super::args::{switch, valued};
use super::client::{Access, access_arguments};
use super::error::{CliError, FAULT, WRONG, of_store};
use super::output;
use open_endpoint::{EndpointName, Opened, Rank};
use report::{ANY_REASON, Allowed, Report};

/// A selector of everything.
const EVERYTHING: &str = "{__name__!=\"\"}";

/// Interval of saving the progress while nothing is copied.
const BETWEEN_SAVES: Duration = Duration::from_millis(200);

/// The parsed command line.
struct Asked {
    from: EndpointName,
    to: EndpointName,
    text: JobText,
    job: Job,
    at_once: usize,
    patience: Duration,
    allowed: Allowed,
    /// `None` if both sides are only compared.
    state: Option<PathBuf>,
}

/// The command's definition.
pub(super) fn command() -> Command {
    const FROM: &str =
        "embedded:DIR, cassandra:HOSTS/KEYSPACE, or http[s]://HOST:PORT of a running server";
    const MATCH: &str = "Series to copy, such as 'up{job=\"a\"}'; may be given again";
    const LEFT_OUT: &str =
        "Exit with 0 even if data was left out for this reason; may be given again";
    let time = |name, which: &str| {
        let help = format!("{which} time to copy (RFC 3339, or seconds since 1970)");
        valued(name, "TIME", help).allow_negative_numbers(true)
    };
    let reasons = REASONS.map(|(reason, _)| reason).into_iter().chain([ANY_REASON]);
    Command::new("copy")
        .about("Copy data from one store to another, and compare both")
        .arg(valued("from", "PLACE", FROM).required(true))
        .arg(valued("to", "PLACE", "embedded:DIR or cassandra:HOSTS/KEYSPACE").required(true))
        .arg(
            valued("match", "SELECTOR", MATCH)
                .action(ArgAction::Append)
                .default_value(EVERYTHING)
                .hide_default_value(true),
        )
        .arg(time("start", "First"))
        .arg(time("end", "Last"))
        .arg(
            valued("state", "FILE", "Keep the progress here, and go on from there")
                .default_value("promkairos-copy.json"),
        )
        .arg(
            valued("at-once", "N", "Pieces written at the same time")
                .value_parser(clap::value_parser!(u16).range(1..=64))
                .default_value("4"),
        )
        .arg(
            valued("patience", "DURATION", "How long a side may be away before the copy gives up")
                .default_value("5m"),
        )
        .arg(switch("verify-only", "Copy nothing, only compare"))
        .arg(switch("allow-more", "Exit with 0 even if the target has more than the source"))
        .arg(
            valued("allow-left-out", "REASON", LEFT_OUT)
                .action(ArgAction::Append)
                .value_parser(PossibleValuesParser::new(reasons)),
        )
        .arg(switch("json", "The report as JSON"))
        .args(access_arguments())
}

/// Runs `copy`.
pub(super) fn run_copy(matches: &ArgMatches) -> Result<ExitCode, CliError> {
    let config = Config::load(matches)?;
    let cassandra = CassandraConfig::load(matches)?;
    telemetry::start_log(&config.log, &telemetry::Traces::default());
    let asked = asked(matches, &cassandra)?;
    let runtime = Runtime::new().map_err(CliError::system("cannot start the runtime"))?;
    let report = runtime.block_on(carry_out(&config, asked));
    // A server that sends nothing any more must not keep the process alive.
    runtime.shutdown_timeout(DRAIN_TIMEOUT);
    let report = report?;
    match matches.get_flag("json") {
        true => output::print_json(&report)?,
        false => output::print(&text::describe(&report))?,
    }
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn asked(matches: &ArgMatches, cassandra: &CassandraConfig) -> Result<Asked, CliError> {
    let get = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let refuse = |name: &str, text: &str, why: &dyn std::fmt::Display| {
        CliError::usage(format!("--{name} {text:?}: {why}"))
    };
    let access = Access::of(matches)?;
    let place = |name: &'static str, rank| {
        let text = get(name).unwrap_or_default();
        if let Some(why) = EndpointName::login(text) {
            return Err(CliError::usage(format!("--{name}: {why}")));
        }
        EndpointName::parse(text, cassandra, &access, rank).map_err(|why| refuse(name, text, &why))
    };
    let (from, to) = (place("from", Rank::Source)?, place("to", Rank::Target)?);
    let mut flags = access_arguments().map(|argument| argument.get_id().to_string()).into_iter();
    if !from.is_server()
        && let Some(flag) = flags.find(|flag| matches.contains_id(flag))
    {
        let why = "needs --from http://HOST:PORT";
        return Err(refuse(&flag, get(&flag).unwrap_or_default(), &why));
    }
    let names = (get("from").unwrap_or_default(), get("to").unwrap_or_default());
    if names.0 == names.1 {
        return Err(refuse("to", names.1, &"the same as --from"));
    }
    if from.is_same_folder(&to) {
        return Err(refuse("to", names.1, &"the same folder as that of --from"));
    }
    let time = |name: &str, otherwise| match get(name) {
        Some(text) => parse_time(text).map_err(|why| refuse(name, text, &why)),
        None => Ok(otherwise),
    };
    let range = TimeRange::new(time("start", MIN_TIMESTAMP)?, time("end", MAX_TIMESTAMP)?);
    if range.is_empty() {
        return Err(refuse("end", get("end").unwrap_or_default(), &"before --start"));
    }
    let all = |name| matches.get_many::<String>(name).into_iter().flatten();
    let selectors = all("match").map(|text| {
        let matchers = parse_selector(text).map_err(|why| refuse("match", text, &why))?;
        Ok(Selector { text: text.clone(), matchers })
    });
    let selectors = selectors.collect::<Result<Vec<_>, CliError>>()?;
    let patience = get("patience").unwrap_or_default();
    Ok(Asked {
        from,
        to,
        text: JobText {
            from: names.0.to_owned(),
            to: names.1.to_owned(),
            selectors: selectors.iter().map(|selector| selector.text.clone()).collect(),
            times: (range.start, range.end),
        },
        job: Job { selectors, range },
        at_once: matches.get_one::<u16>("at-once").map_or(1, |number| usize::from(*number)),
        patience: parse_duration(patience).map_err(|why| refuse("patience", patience, &why))?,
        allowed: Allowed {
            more: matches.get_flag("allow-more"),
            left_out: all("allow-left-out").cloned().collect(),
        },
        state: if matches.get_flag("verify-only") { None } else { get("state").map(PathBuf::from) },
    })
}

/// Opens both sides, works until done or until a signal arrives, and closes them.
async fn carry_out(config: &Config, asked: Asked) -> Result<Report, CliError> {
    let stopped = stopped()?;
    let mut stopped = std::pin::pin!(stopped);
    let (path, times) = (asked.state.clone(), asked.to.sample_times(config));
    let cut_off = || match &path {
        Some(path) => CliError::Command(format!("stopped; {}", goes_on(path))),
        None => CliError::Command("stopped".into()),
    };
    let state = asked.state.as_ref().map(|path| StateFile::open(path, asked.text.clone()));
    let state = state.transpose().map_err(failed)?;
    let open = async {
        let from = asked.from.open(config, asked.patience, Rank::Source).await?;
        // Without a state nothing is copied.
        let rank = state.as_ref().map_or(Rank::Compared, |_| Rank::Target);
        let to = asked.to.open(config, asked.patience, rank).await?;
        Ok::<_, CliError>((from, to))
    };
    let (from, to) = tokio::select! {
        opened = open => opened?,
        () = &mut stopped => return Err(cut_off()),
    };
    let done = tokio::select! {
        done = work(&from, &to, asked, state, times) => done,
        () = &mut stopped => Err(cut_off()),
    };
    let (first, second) = (from.close().await, to.close().await);
    let report = done?;
    first?;
    second?;
    Ok(report)
}

/// Copies, unless only a comparison is wanted or the copy was done before, and compares.
async fn work(
    from: &Opened,
    to: &Opened,
    asked: Asked,
    state: Option<(StateFile, Progress)>,
    times: TimeLimits,
) -> Result<Report, CliError> {
    let Asked { text: JobText { from: source, to: target, .. }, .. } = asked;
    let Endpoint::Store(to) = to.side.clone() else {
        return Err(CliError::Refused(format!("{target}: cannot be written to")));
    };
    let Asked { job, at_once, patience, allowed, .. } = asked;
    let copier = Copier { from: from.side.clone(), to, job, at_once, patience, times };
    let bar = Bar::new();
    let (file, progress) = state.unzip();
    let mut progress = progress.unwrap_or_default();
    let mut last_saved = Instant::now();
    let mut last_planned = Instant::now();
    let mut moved = |progress: &Progress, stage: Stage| {
        // Queries of the plan are many and short: drawing each would use up the draws for what follows.
        let is_plan = matches!(stage, Stage::Planning { .. });
        if !is_plan || last_planned.elapsed() >= BETWEEN_SAVES {
            last_planned = Instant::now();
            bar.show(stage, progress.totals.points());
        }
        let is_piece = matches!(stage, Stage::Copying { .. });
        match &file {
            Some(file) if is_piece || last_saved.elapsed() >= BETWEEN_SAVES => {
                last_saved = Instant::now();
                file.save(progress)
            }
            _ => Ok(()),
        }
    };
    if let Some(file) = &file {
        let copied = copier.copy(&mut progress, &mut moved).await;
        let how = |error: &CopyError| format!("{error}; {}", goes_on(file.path()));
        copied.map_err(|error| because_of(&error, how(&error)))?;
    }
    let compared = copier.compare(&mut progress, from.left_out.as_deref(), &mut moved);
    let (compared, mut left_out) = compared.await.map_err(failed)?;
    bar.0.finish_and_clear();
    let copied = file.as_ref().map(|_| progress.totals.clone());
    if let Some(copied) = &copied {
        let first = || copied.reasons.first().cloned().unwrap_or_default();
        left_out.add(REFUSED, copied.refused, first);
    }
    if let Some(file) = file {
        file.remove().map_err(failed)?;
    }
    let source_starts = from.side.starts();
    let (from, to) = (source, target);
    Ok(Report { from, to, copied, compared, source_starts, left_out, allowed })
}

/// Says what another run does. Nothing is kept before the first piece, or if the file cannot be
/// written.
fn goes_on(path: &Path) -> String {
    let path_shown = path.display();
    match path.exists() {
        true => format!("the same command goes on from what {path_shown} keeps"),
        false => format!("there is no {path_shown}, so the same command begins anew"),
    }
}

/// The error of a copy that ended early.
fn failed(error: CopyError) -> CliError {
    because_of(&error, error.to_string())
}

/// The same with this text.
fn because_of(error: &CopyError, text: String) -> CliError {
    let code = match error {
        CopyError::OtherState(_) => WRONG,
        CopyError::Store { source, .. } => of_store(source),
        CopyError::Chunk { .. } | CopyError::Unsorted(_) | CopyError::State(_) => FAULT,
    };
    CliError::with_code(code, text)
}

/// Completes when a signal asks the process to end.
fn stopped() -> Result<impl Future<Output = ()>, CliError> {
    let no_signals = CliError::system("cannot wait for signals");
    let mut terminate = signal(SignalKind::terminate()).map_err(no_signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(no_signals)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// The progress bar.
struct Bar(ProgressBar);

impl Bar {
    fn new() -> Self {
        let bar = ProgressBar::new(0);
        let style = ProgressStyle::with_template("{msg:32} {wide_bar} {pos}/{len} days {eta:>4}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self(bar)
    }

    fn show(&self, stage: Stage, points: u64) {
        let (what, done, days) = match stage {
            Stage::Planning { days } => (format!("planning, {days} days"), 0, days),
            Stage::Copying { done, days } => (format!("copying, {points} points"), done, days),
            Stage::Comparing { done, days } => ("comparing".to_owned(), done, days),
        };
        // Drawn once for both. A bar without a length would look full.
        self.0.update(|state| {
            state.set_len(days.max(1));
            state.set_pos(done);
        });
        self.0.set_message(what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Asked, String> {
        let arguments = std::iter::once("copy").chain(arguments.iter().copied());
        let command = command().args(crate::config::arguments());
        let matches = command.try_get_matches_from(arguments).map_err(|e| e.to_string())?;
        let cassandra = CassandraConfig::load(&matches).expect("defaults");
        asked(&matches, &cassandra).map_err(|error| error.to_string())
    }

    #[test]
    fn everything_is_copied_unless_told() {
        let asked = parse(&["--from=embedded:a", "--to=cassandra:b/c"]).expect("valid");
        assert_eq!(asked.text.selectors, [EVERYTHING]);
        assert_eq!(asked.text.times, (MIN_TIMESTAMP, MAX_TIMESTAMP));
        assert_eq!(asked.at_once, 4);
        assert_eq!(asked.state, Some(PathBuf::from("promkairos-copy.json")));
        let some = ["--match=up", "--match=down", "--start=-1", "--end=2.5", "--verify-only"];
        let places = ["--from=http://a:1", "--to=embedded:b"];
        let asked = parse(&[&places[..], &some].concat()).expect("valid");
        assert_eq!(asked.text.selectors, ["up", "down"]);
        assert_eq!(asked.text.times, (-1_000, 2_500));
        assert_eq!(asked.state, None);
    }

    #[test]
    fn only_a_file_that_is_there_is_gone_on_from() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state");
        let shown = path.display().to_string();
        let want = format!("there is no {shown}, so the same command begins anew");
        assert_eq!(goes_on(&path), want);
        std::fs::write(&path, "").expect("written");
        assert_eq!(goes_on(&path), format!("the same command goes on from what {shown} keeps"));
    }

    #[test]
    fn a_folder_by_two_paths_is_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let (data, link) = (folder.path().join("data"), folder.path().join("link"));
        std::fs::create_dir(&data).expect("made");
        std::os::unix::fs::symlink(&data, &link).expect("made");
        let place = |flag: &str, path: &Path| format!("{flag}=embedded:{}", path.display());
        let (from, to) = (place("--from", &data), place("--to", &link));
        let error = parse(&[&from, &to]).err().expect("refused");
        assert!(error.contains(": the same folder as that of --from"), "{error}");
        let other = place("--to", &folder.path().join("other"));
        parse(&[&from, &other]).expect("another folder");
    }

    #[test]
    fn what_is_refused() {
        let good = ["--from=embedded:a", "--to=cassandra:b/c"];
        let check = |more: &[&str], want: &str| {
            let error = parse(&[&good[..], more].concat()).err().expect("refused");
            assert!(error.starts_with(want), "{more:?}: {error}");
        };
        check(&["--match=up{"], "--match \"up{\": ");
        check(&["--start=2", "--end=1"], "--end \"1\": before --start");
        check(&["--start=yesterday"], "--start \"yesterday\": cannot parse");
        check(&["--patience=5"], "--patience \"5\": not a duration");
        check(&["--server-ca=/dev/null"], "/dev/null: holds no certificate in PEM");
        check(&["--server-token-file=Cargo.toml"], "Cargo.toml: the file has more than one line");
        check(&["--server-token-file=/dev/null"], "/dev/null: the file is empty");
        let password = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(password.path(), "p\n").expect("written");
        let file = format!("--server-password-file={}", password.path().display());
        let login = ["--server-username=u", &file];
        check(&login, "--server-username \"u\": needs --from http");
        check(&["--at-once=0"], "error: invalid value '0' for '--at-once <N>'");
        for from in ["http://op:hunter2@a:1", "op:hunter2@a:1", "cassandra:op:hunter2@a/k"] {
            let error = parse(&["--from", from, "--to=embedded:a"]).err().expect("refused");
            let want = "--from: no user and no password may stand in a ";
            assert!(error.starts_with(want) && !error.contains("hunter2"), "{error}");
        }
        let error = parse(&["--from=embedded:a", "--to=embedded:a"]).err().expect("refused");
        assert!(error.starts_with("--to \"embedded:a\": the same as --from"), "{error}");
    }
}
