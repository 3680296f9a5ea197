//! `promkairos delete` against a running server: the preview, the delete, and refusals.

use std::path::Path;
use std::process::{Command, Output};

use super::api::float_body;
use super::support::promkairos::{Backend, Message, Promkairos};
use super::support::remote_read::ReadSeries;

pub(crate) fn delete(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_promkairos"))
        .current_dir(folder)
        .arg("delete")
        .args(arguments)
        .output()
        .expect("it runs")
}

#[track_caller]
pub(crate) fn said(output: &Output) -> &str {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::str::from_utf8(&output.stdout).expect("UTF-8")
}

#[track_caller]
/// The one line printed by a command that cannot be run as given.
fn refused(output: &Output) -> &str {
    last_words(output, 2)
}

/// The one line printed by a command that met a fault: it may succeed later.
fn fault(output: &Output) -> &str {
    last_words(output, 1)
}

fn last_words(output: &Output, code: i32) -> &str {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    let text = std::str::from_utf8(&output.stderr).expect("UTF-8");
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

fn times(found: &[ReadSeries]) -> Vec<(&str, Vec<i64>)> {
    found.iter().map(|s| (&s.labels["job"][..], s.points.keys().copied().collect())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_shows_what_a_delete_takes() {
    let data = tempfile::tempdir().expect("a folder");
    for backend in [Backend::Embedded, Backend::cassandra_store(), Backend::cassandra_wal()] {
        let folder = data.path().join(backend.flags().join(""));
        let server = Promkairos::ready(&folder, &backend, &["--enable-admin-api=true"]).await;
        for (job, time) in [("a", 1000), ("a", 2000), ("a", 5000), ("b", 1000), ("c", 9000)] {
            let answer = server.write(Message::V1, float_body(job, time, 1.0)).await;
            assert_eq!(answer.expect("it answers").status, 204);
        }
        let url = server.url("");
        let range = ["--start=1970-01-01T00:00:01Z", "--end", "4.5", "--server", &url];
        let selected = ["--match", "up{job=\"a\"}", "--match", "up{job=~\"a|b|c\"}"];
        let dry = delete(data.path(), &[&selected[..], &range, &["--dry-run"]].concat());
        let cost = match backend {
            // Each selector is a delete of its own: `a` counts twice. It is not known yet which rows will be empty.
            Backend::CassandraStore { .. } => {
                "The delete leaves at most these tombstones in 2 windows: 4 in data_points, \
                 2 in row_key_time_index, 4 in row_keys.\n"
            }
            // Points in the log or the embedded store leave no tombstones.
            Backend::Embedded | Backend::CassandraWal { .. } => "",
        };
        let want = "{__name__=\"up\", job=\"a\"}: 2 points\n\
                    {__name__=\"up\", job=\"b\"}: 1 points\n\
                    2 series with 3 points would go. Nothing was deleted.\n";
        assert_eq!(said(&dry), format!("{want}{cost}"), "{backend:?}");
        let all = [("a", vec![1000, 2000, 5000]), ("b", vec![1000]), ("c", vec![9000])];
        let read = async || server.read("__name__", "up").await.expect("it can be read");
        assert_eq!(times(&read().await), all, "{backend:?}");
        let done = delete(data.path(), &[&selected[..], &range].concat());
        let text = said(&done).strip_prefix("Deleted what ").and_then(|rest| rest.split_once(' '));
        let (series, rest) = text.expect("how many");
        assert_eq!(rest, "series had in that time.\n");
        assert!(series.parse::<u32>().is_ok_and(|series| series >= 2), "{backend:?}: {series}");
        let none = [&["--match", "nosuch"][..], &range].concat();
        let none = delete(data.path(), &none);
        assert!(said(&none).starts_with("No series that matches has points in that time; "));
        assert_eq!(times(&read().await), [("a", vec![5000]), ("c", vec![9000])], "{backend:?}");
        let dry = delete(data.path(), &[&selected[..], &range, &["--dry-run"]].concat());
        let nothing = "0 series with 0 points would go. Nothing was deleted.\n";
        assert!(said(&dry).starts_with(nothing), "{backend:?}: {dry:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_say_what_to_do() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Promkairos::ready(data.path(), &Backend::Embedded, &[]).await;
    let url = server.url("");
    let ask = |arguments: &[&str]| delete(data.path(), &[arguments, &["--server", &url]].concat());
    let up = ["--match=up", "--start=0", "--end=1"];
    let disabled = ask(&up);
    assert!(fault(&disabled).contains("admin APIs disabled: --enable-admin-api"), "{disabled:?}");
    drop(server);
    let gone = ask(&up);
    assert!(fault(&gone).contains("onnection refused"), "{gone:?}");

    let server =
        Promkairos::ready(data.path(), &Backend::Embedded, &["--enable-admin-api=true"]).await;
    let url = server.url("");
    let ask = |arguments: &[&str]| delete(data.path(), &[arguments, &["--server", &url]].concat());
    for (arguments, reason) in [
        (&["--match=up{", "--start=0", "--end=1"][..], ": --match: 1:"),
        (&["--match=up", "--start=yesterday", "--end=1"], "invalid parameter \"start\""),
        (&["--match=up", "--start=Inf", "--end=1"], "\"Inf\" is beyond all times"),
        (&["--match=up", "--start=0", "--end=1e30"], "\"1e30\" is beyond all times"),
        (&["--match=up", "--start=NaN", "--end=1"], "\"NaN\" is beyond all times"),
        (&["--match=up", "--start=0", "--end=-5"], "must not be before start"),
        (&["--match={a=\"\"}", "--start=0", "--end=1"], "non-empty matcher"),
        (&["--match=up", "--start=0"], "--end"),
        (&["--start=0", "--end=1"], "--match"),
    ] {
        let output = ask(arguments);
        assert!(refused(&output).contains(reason), "{arguments:?}: {output:?}");
    }
}
