//! The Java client of KairosDB, unmodified. `tests/peers/client/Reads.java` uses it and prints what it reads.

use std::process::{Command, Stdio};

use super::variable;
use crate::tidy::root;

/// What the client reads of a metric, from a server whose API is at `url`.
pub(crate) fn read(url: &str, metric: &str, start: i64, end: i64) -> String {
    let mut client = Command::new(root().join("tests/peers/kairosdb_client.sh"));
    client.arg("reads").arg(variable("PROMKAIROS_TEST_KAIROSDB_CLIENT"));
    client.args([url, metric, &start.to_string(), &end.to_string()]);
    let done = client.stderr(Stdio::inherit()).output().expect("the client runs");
    let text = String::from_utf8(done.stdout).expect("UTF-8");
    assert!(done.status.success(), "the client of {url} fails after {text}");
    text
}
