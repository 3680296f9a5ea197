//! Senders and readers of KairosDB in Java, unmodified: its own client, and Micrometer.

use std::process::{Command, Stdio};

use super::variable;
use crate::tidy::root;

/// What the client reads of a metric, from a server whose API is at `url`. `tests/peers/client/Reads.java` prints it.
pub(crate) fn read(url: &str, metric: &str, start: i64, end: i64) -> String {
    run(&["reads", url, metric, &start.to_string(), &end.to_string()])
}

/// Writes the metrics of `tests/peers/client/Writes.java`, whose names begin with `prefix`.
pub(crate) fn write(url: &str, telnet_port: u16, prefix: &str, time: i64) {
    run(&["writes", url, &telnet_port.to_string(), prefix, &time.to_string()]);
}

fn run(arguments: &[&str]) -> String {
    let mut client = Command::new(root().join("tests/peers/kairosdb_client.sh"));
    client.arg(variable("PROMKAIROS_TEST_KAIROSDB_CLIENT")).args(arguments);
    let done = client.stderr(Stdio::inherit()).output().expect("the client runs");
    let text = String::from_utf8(done.stdout).expect("UTF-8");
    assert!(done.status.success(), "{arguments:?} fails after {text}");
    text
}
