//! Commands for everyday development: `cargo xtask COMMAND`.
//!
//! They run the steps of `./test.sh` one by one, and keep the peers of the integration tests running between two
//! runs. Each command is printed before it runs. The scripts in `tests/peers` start and stop the peers.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

const USAGE: &str = "\
usage: cargo xtask COMMAND
  check             format, lints and docs, as the build server wants them
  unit [ARGUMENTS]  unit tests of all crates, without any peer
  it [FILTER ...]   integration tests; starts a Cassandra where a filter needs one, and keeps it
  peers up|down     starts or stops the peers of integration tests
  ci                all that the build server runs: ./test.sh";

/// Names in the source of a topic whose tests need a Cassandra.
const ASKS_CASSANDRA: [&str; 6] = [
    "TestKeyspace",
    "support::cassandra",
    "support::kairosdb",
    "cassandra_store",
    "cassandra_wal",
    "cassandra()",
];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let begun = Instant::now();
    let done = match arguments[..] {
        ["check"] => check(),
        ["unit", ref rest @ ..] => unit(rest),
        ["it", ref filters @ ..] => integration(filters),
        ["peers", "up"] => Peers::new().up(),
        ["peers", "down"] => Peers::new().down(),
        ["ci"] => run(&mut Command::new("./test.sh")),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(()) => {
            println!("done in {} s", begun.elapsed().as_secs());
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Prints a command and runs it in the root of the project. Fails if the command fails.
fn run(command: &mut Command) -> Result<(), String> {
    let shown = format!("{command:?}");
    println!("$ {shown}");
    let status = command.current_dir(root()).status().map_err(|why| format!("{shown}: {why}"))?;
    if status.success() { Ok(()) } else { Err(format!("{shown}: {status}")) }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the project lies around it")
}

fn cargo(arguments: &[&str]) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.args(arguments);
    cargo
}

fn check() -> Result<(), String> {
    run(&mut cargo(&["fmt", "--all", "--check"]))?;
    run(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    let mut docs = cargo(&["doc", "--workspace", "--no-deps", "--document-private-items"]);
    run(docs.env("RUSTDOCFLAGS", "-Dwarnings"))
}

fn unit(rest: &[&str]) -> Result<(), String> {
    run(cargo(&["test", "--workspace", "--lib", "--bins"]).args(rest))
}

fn integration(filters: &[&str]) -> Result<(), String> {
    let peers = Peers::new();
    peers.fetch()?;
    if filters.is_empty() || filters.iter().any(|filter| asks_cassandra(filter)) {
        peers.up()?;
    }
    let mut tests = Command::new("tests/peers/with.sh");
    tests.args([&peers.folder, &peers.run]);
    run(tests.args(["cargo", "test", "--workspace", "--test", "it", "--"]).args(filters))
}

/// Whether the tests of a topic, the first part of a test path, need a Cassandra. True for an unknown topic.
fn asks_cassandra(filter: &str) -> bool {
    let topic = filter.split("::").next().unwrap_or_default();
    let mut open = vec![root().join("tests/it").join(topic)];
    open.push(open[0].with_extension("rs"));
    let mut is_known = false;
    while let Some(path) = open.pop() {
        if let Ok(entries) = fs::read_dir(&path) {
            open.extend(entries.flatten().map(|entry| entry.path()));
        } else if let Ok(text) = fs::read_to_string(&path) {
            is_known = true;
            if ASKS_CASSANDRA.iter().any(|word| text.contains(word)) {
                return true;
            }
        }
    }
    !is_known
}

/// The peers of integration tests, kept from run to run.
struct Peers {
    /// The files that were fetched.
    folder: PathBuf,
    /// The state of the running peers.
    run: PathBuf,
}

impl Peers {
    fn new() -> Self {
        let folder = env::var_os("PROMKAIROS_PEERS").map(PathBuf::from);
        let folder = folder.unwrap_or_else(|| root().join(".peers"));
        let run = folder.join("dev");
        Self { folder, run }
    }

    fn fetch(&self) -> Result<(), String> {
        run(Command::new("tests/peers/fetch.sh").arg(&self.folder))
    }

    /// Starts both Cassandras unless they run; the second one has login and TLS.
    fn up(&self) -> Result<(), String> {
        self.fetch()?;
        for (command, folder) in [("up", self.run.clone()), ("up-secure", self.run.join("secure"))]
        {
            if folder.join("address").exists() && is_running(&folder) {
                continue;
            }
            let jars = self.folder.join("cassandra");
            let mut start = Command::new("tests/peers/cassandra.sh");
            start.arg(command).arg(jars).arg(&folder);
            // Each test has a keyspace of its own, and a stopped Cassandra is not started again.
            start.env("CASSANDRA_OPTIONS", "-Dcassandra.test.flush_local_schema_changes=false");
            run(start.env("CASSANDRA_HEAP", "1g").env("PEER_LIFE", "short"))?;
        }
        Ok(())
    }

    fn down(&self) -> Result<(), String> {
        for folder in [self.run.join("secure"), self.run.clone()] {
            run(Command::new("tests/peers/cassandra.sh").arg("down").arg(folder))?;
        }
        Ok(())
    }
}

/// Whether the process in the file `pid` of a folder runs.
fn is_running(folder: &Path) -> bool {
    let process = fs::read_to_string(folder.join("pid")).unwrap_or_default();
    let process = process.trim();
    !process.is_empty() && Path::new("/proc").join(process).exists()
}
