//! What each release wrote is opened by this program and answered as if this program had written it.
//!
//! `tests/data/releases/0.1` is of e1a4bdc: the folder of its embedded store after `writes.jsonl`, the first five
//! requests in part files, the others in the log of a process that was killed; and its settings with their defaults. A
//! folder of a release is never changed; a new release adds its own.

use std::path::Path;
use std::process::Command;

use super::{lines, replay, write_case};
use crate::support::promkairos::{Backend, Promkairos};
use crate::tidy::root;

/// The one request of `writes.jsonl` that 0.1 refused: it has no Content-Type.
const REFUSED: &str = "write-021";

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("it is there") {
        let entry = entry.expect("it can be listed");
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            std::fs::copy(from, to).expect("it can be copied");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_folder_of_0_1_with_its_log_answers_as_new_data() {
    let data = tempfile::tempdir().expect("a folder");
    copy(&root().join("tests/data/releases/0.1/embedded"), &data.path().join("embedded"));
    let mut server = Promkairos::ready(data.path(), &Backend::Embedded, &[]).await;
    let refused = lines("writes").into_iter().find(|case| case["id"] == REFUSED);
    write_case(&server.url(""), &refused.expect("it is there")).await;
    replay(&server.url(""), "requests", 2930).await;
    // And once this program has written all of it.
    assert!(server.process.terminate().success(), "{}", server.process.log());
    let server = Promkairos::ready(data.path(), &Backend::Embedded, &[]).await;
    replay(&server.url(""), "requests", 2930).await;
}

#[test]
fn the_settings_of_0_1_are_valid() {
    let file = root().join("tests/data/releases/0.1/settings.toml");
    let mut check = Command::new(env!("CARGO_BIN_EXE_promkairos"));
    let output = check.arg("check-config").arg("--config").arg(file).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
