//! Says when the program was built, and of a release which commit it is.
//!
//! `SOURCE_DATE_EPOCH` sets the time, in seconds since 1970, for builds that are the same each time.
//! `BUILD_COMMIT` says it to who builds without a repository, or, empty, takes it away: each commit compiles
//! everything anew otherwise. Other builds have none, as they are of what is being changed.

use std::env;
use std::error::Error;
use std::path::Path;
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-env-changed=SOURCE_DATE_EPOCH");
    let time = env::var("SOURCE_DATE_EPOCH").map_or("now".to_owned(), |epoch| format!("@{epoch}"));
    // As Prometheus writes it.
    let date = line("date", &["-u", "-d", &time, "+%Y%m%d-%H:%M:%S"]).unwrap_or_default();
    println!("cargo::rustc-env=BUILD_DATE={date}");
    println!("cargo::rerun-if-env-changed=BUILD_COMMIT");
    // Not that of a repository around this folder.
    if env::var("PROFILE")? == "release"
        && env::var_os("BUILD_COMMIT").is_none()
        && Path::new(".git").exists()
        && let Some(commit) = line("git", &["rev-parse", "--short=12", "HEAD"])
        && let Some(log) = line("git", &["rev-parse", "--git-path", "logs/HEAD"])
    {
        println!("cargo::rerun-if-changed={log}");
        // `cargo run` hands it on to the program, which takes every PROMKAIROS_ for a setting.
        println!("cargo::rustc-env=BUILD_COMMIT={commit}");
    }
    Ok(())
}

/// The line that a program answers; `None` where it is not there or fails.
fn line(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let line = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| line.trim().to_owned())
}
