//! Compiles the messages under `proto/`, without protoc, and says of a release which commit it is.
//!
//! `BUILD_COMMIT` says it to who builds without a repository, or, empty, takes it away: each commit compiles
//! everything anew otherwise. Other builds have none, as they are of what is being changed.

use std::env;
use std::error::Error;
use std::path::Path;
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files = protox::compile(["prometheus.proto", "write_v2.proto"], ["proto"])?;
    prost_build::Config::new().compile_fds(files)?;
    println!("cargo::rerun-if-env-changed=BUILD_COMMIT");
    // Not that of a repository around this folder.
    if env::var("PROFILE")? == "release"
        && env::var_os("BUILD_COMMIT").is_none()
        && Path::new(".git").exists()
        && let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"])
        && let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"])
    {
        println!("cargo::rerun-if-changed={log}");
        // `cargo run` hands it on to the program, which takes every PROMKAIROS_ for a setting.
        println!("cargo::rustc-env=BUILD_COMMIT={commit}");
    }
    Ok(())
}

/// The line that git answers; `None` without git.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let line = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| line.trim().to_owned())
}
