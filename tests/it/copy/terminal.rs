//! The progress bar is drawn on a terminal, and nowhere else.

use std::process::Command;

use promkairos::model::METRIC_NAME;

use super::{AT, DAY, copy, embedded, made, text};
use crate::cassandra::keyspace::{Request, labels};

/// Under `script` of util-linux both streams of the command are a terminal.
#[tokio::test(flavor = "multi_thread")]
async fn a_progress_bar_is_on_a_terminal_and_nowhere_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let series = labels(&[(METRIC_NAME, "up")]);
    let days = [0, DAY, 2 * DAY].map(|day| (AT + day, 1.0));
    made(&data, &[Request::default().floats(&series, &days)]).await;
    let (source, first, second) = (
        embedded(&data),
        embedded(&folder.path().join("first")),
        embedded(&folder.path().join("second")),
    );

    let output = copy(folder.path(), &["--from", &source, "--to", &first]);
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("The same on both sides: 3 points"), "{}", text(&output));
    assert!(!text(&output).contains("/3 days"), "{}", text(&output));

    let line =
        format!("'{}' copy --from '{source}' --to '{second}'", env!("CARGO_BIN_EXE_promkairos"));
    let output = Command::new("script")
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .current_dir(folder.path())
        .env("TERM", "xterm")
        .stdin(std::process::Stdio::null())
        .output()
        .expect("script of util-linux is there");
    assert!(output.status.success(), "{}", text(&output));
    let shown = text(&output);
    // Not every state is drawn, but the first ones are.
    for part in ["copying, 1 points", "0/3 days", "The same on both sides: 3 points"] {
        assert!(shown.contains(part), "no {part:?} in {}", shown.escape_debug());
    }
    // A bar without a length would be full.
    assert!(!shown.contains("0/0 days"), "{}", shown.escape_debug());
    // The bar is cleared before the report.
    let (bar, report) = (shown.rfind(" days"), shown.find("Copied 3 points"));
    let between = bar.zip(report).and_then(|(bar, report)| shown.get(bar..report));
    let is_cleared = between.is_some_and(|between| between.contains("\r\u{1b}[2K"));
    assert!(is_cleared, "{}", shown.escape_debug());
}
