//! Runs Prometheus' scripts: loads a store in memory, asks, compares. Each instant query is also asked pinned to its
//! time by `@` at other times, and as the middle of a range.
//!
//! The scripts are in `tests/data/promql` and in `$PROMQLTEST_DIR`, if it is set.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use promkairos::promql::{
    Engine, NameRemoval, QueryOptions, QueryResult, QueryValue, Settings, StartTimestamps, Steps,
    Syntax, Value, ValueType, parse,
};
use promkairos::storage::memory::MemoryStore;

use super::data;
use super::script::compare::{Answer, Sample, check_answer, check_failure, check_notes};
use super::script::variants::{Variant, as_range, middle, pinned};
use super::script::{self, Command, Eval, When};

/// Most samples that a query of these scripts may hold.
pub(super) const MAX_SAMPLES: usize = 10_000;

#[tokio::test(flavor = "multi_thread")]
async fn scripts() {
    run_all(paths(), &settings()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_of_names_that_are_removed_at_once() {
    let folder = own_scripts().join("names_at_once");
    let settings = Settings { name_removal: NameRemoval::AtOnce, ..settings() };
    run_all(scripts_in(&folder), &settings).await;
}

async fn run_all(paths: Vec<PathBuf>, settings: &Settings) {
    let (mut passed, mut failures) = (0, Vec::new());
    let mut total = 0;
    for path in paths {
        let text = std::fs::read_to_string(&path).expect("a readable script");
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let run = run(&name, &text, settings).await;
        println!("{name}: {} of {}", run.passed, run.total);
        passed += run.passed;
        total += run.total;
        failures.extend(run.failures);
    }
    println!("all scripts: {passed} of {total}");
    assert!(total > 0, "no script found");
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
}

fn own_scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/promql")
}

/// All scripts that run with [`settings`], sorted.
pub(super) fn paths() -> Vec<PathBuf> {
    let other = std::env::var_os("PROMQLTEST_DIR").map(PathBuf::from);
    let folders = [Some(own_scripts()), other].into_iter().flatten();
    let mut paths: Vec<PathBuf> = folders.flat_map(|folder| scripts_in(&folder)).collect();
    paths.sort();
    paths
}

fn scripts_in(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).expect("a folder of scripts");
    let found = files.map(|file| file.expect("a file").path());
    let found = found.filter(|path| path.extension().is_some_and(|end| end == "test"));
    let found: Vec<PathBuf> = found.collect();
    assert!(!found.is_empty(), "no script in {}", folder.display());
    found
}

#[derive(Default)]
struct Run {
    passed: usize,
    total: usize,
    failures: Vec<String>,
}

async fn run(name: &str, text: &str, settings: &Settings) -> Run {
    let mut run = Run::default();
    let commands = match script::parse(text) {
        Ok(commands) => commands,
        Err(error) => {
            run.failures.push(format!("{name}: {error}"));
            return run;
        }
    };
    let mut store = Arc::new(MemoryStore::new());
    for command in commands {
        match command {
            Command::Clear => store = Arc::new(MemoryStore::new()),
            Command::Load(load) => data::add(&store, &load.series).await,
            Command::Eval(eval) => {
                run.total += 1;
                match (Case { store: &store, eval: &eval, settings }).check().await {
                    Ok(()) => run.passed += 1,
                    Err(error) => {
                        run.failures.push(format!("{name}:{}: {}: {error}", eval.line, eval.expr));
                    }
                }
            }
        }
    }
    run
}

/// The settings that Prometheus has for these scripts.
pub(super) fn settings() -> Settings {
    Settings {
        max_samples: MAX_SAMPLES,
        name_removal: NameRemoval::Delayed,
        start_timestamps: StartTimestamps::Used,
        ..Settings::default()
    }
}

struct Case<'a> {
    store: &'a Arc<MemoryStore>,
    eval: &'a Eval,
    settings: &'a Settings,
}

impl Case<'_> {
    async fn check(&self) -> Result<(), String> {
        if let When::Range(start, end, interval) = self.eval.when {
            return self.check_one(&self.eval.expr, Asked::Range(start, end, interval)).await;
        }
        for variant in pinned(self.eval)? {
            let fail = |error| format!("as {} at {}: {error}", variant.expr, variant.time);
            self.check_one(&variant.expr, Asked::Instant(variant.time)).await.map_err(fail)?;
            self.check_middle(&variant)
                .await
                .map_err(|error| fail(format!("in a range: {error}")))?;
        }
        Ok(())
    }

    async fn check_one(&self, expr: &str, asked: Asked) -> Result<(), String> {
        let result = match self.ask(expr, asked).await {
            Ok(result) => result,
            Err(error) => return check_failure(&self.eval.expected, &error),
        };
        check_answer(self.eval, &answer(result.value))?;
        let shown = result.annotations.shown(expr, usize::MAX);
        check_notes(&self.eval.notes, &shown.warnings, &shown.infos)
    }

    async fn check_middle(&self, variant: &Variant) -> Result<(), String> {
        let Some((start, end, interval)) = as_range(self.eval, variant) else { return Ok(()) };
        let expr = parse(&variant.expr, Syntax::ALL).map_err(|e| e.to_string())?;
        let scalar = expr.value_type() == ValueType::Scalar;
        let result = self.ask(&variant.expr, Asked::Range(start, end, interval)).await?;
        let Answer::Matrix(series) = answer(result.value) else {
            return Err("not a matrix".to_owned());
        };
        check_answer(self.eval, &middle(series, variant.time, scalar))
    }

    async fn ask(&self, expr: &str, asked: Asked) -> Result<QueryResult, String> {
        let expr = parse(expr, Syntax::ALL).map_err(|error| error.to_string())?;
        let (engine, options) = (Engine::new(self.settings.clone()), QueryOptions::default());
        let store = Arc::clone(self.store);
        let result = match asked {
            Asked::Instant(time) => engine.instant(store, &expr, time, &options).await,
            Asked::Range(start, end, interval) => {
                engine.range(store, &expr, Steps { start, end, interval }, &options).await
            }
        };
        result.map_err(|error| error.to_string())
    }
}

/// When a query is asked.
#[derive(Debug, Clone, Copy)]
enum Asked {
    Instant(i64),
    Range(i64, i64, i64),
}

fn answer(value: QueryValue) -> Answer {
    match value {
        QueryValue::Scalar(_, value) => Answer::Scalar(value),
        QueryValue::String(_, text) => Answer::String(text),
        QueryValue::Vector(samples) => {
            let one = |sample: promkairos::promql::Sample| (sample.labels, value_of(sample.value));
            Answer::Vector(samples.into_iter().map(one).collect())
        }
        QueryValue::Matrix(series) => {
            let one = |series: promkairos::promql::SeriesPoints| {
                let floats = series.floats.into_iter().map(|(time, v)| (time, Sample::Float(v)));
                let histograms =
                    series.histograms.into_iter().map(|(time, h)| (time, Sample::Histogram(h)));
                let mut points: Vec<(i64, Sample)> = floats.chain(histograms).collect();
                points.sort_by_key(|(time, _)| *time);
                (series.labels, points)
            };
            Answer::Matrix(series.into_iter().map(one).collect())
        }
    }
}

fn value_of(value: Value) -> Sample {
    match value {
        Value::Float(value) => Sample::Float(value),
        Value::Histogram(histogram) => Sample::Histogram(histogram),
    }
}
