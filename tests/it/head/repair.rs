//! Tests: the report of a repair of the log about samples and series in good and in lost records,
//! and the exit code of the command.

use std::ops::Range;
use std::path::{Path, PathBuf};

use promkairos::storage::head::wal::{Contents, RepairMode, repair};

use super::*;
use crate::api::{float_body, run};
use crate::support::promkairos::{Backend, Message, Promkairos};

/// A sample of the series `shared`, and two samples of a series that only this record has.
fn batch(number: i64) -> Batch {
    let shared = Batch::new().series(&[("__name__", "shared")]).sample(T + number, 1.0);
    let own = format!("own{number}");
    shared.series(&[("__name__", &own), ("job", "a")]).sample(T, 1.0).sample(T + 1, 2.0)
}

/// The only segment, and the range of each record that names a series of its own, in order.
fn records(segment: &Path) -> (Vec<u8>, Vec<Range<usize>>) {
    let bytes = std::fs::read(segment).expect("readable");
    let (mut at, mut found) = (48, Vec::new());
    while let Some(length) = bytes.get(at..at + 4) {
        let length = u32::from_le_bytes(length.try_into().expect("4 bytes")) as usize;
        if length == 0 {
            break;
        }
        let next = at + 8 + length;
        // 1 is the kind of a write.
        if bytes[at + 9] == 1 {
            found.push(at..next);
        }
        at = next;
    }
    (bytes, found)
}

async fn filled(records: i64) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a folder");
    let below = Arc::new(Gate::default());
    below.set(Mode::NoFlush);
    let head = open(Options { segment_bytes: 1 << 20, ..options(&dir) }, &below).await;
    for number in 0..records {
        put(&head, &batch(number)).await;
    }
    drop(head);
    let segment = only_segment(dir.path());
    (dir, segment)
}

fn only_segment(folder: &Path) -> PathBuf {
    let mut segments = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        segments.extend(path.extension().is_some_and(|end| end == "wal").then_some(path));
    }
    assert_eq!(segments.len(), 1, "{segments:?}");
    segments.remove(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn good_and_lost_records_are_reported_in_samples_and_series() {
    let (dir, segment) = filled(5).await;
    let sound = repair(dir.path(), RepairMode::Show).expect("readable");
    assert_eq!(sound.valid, Contents { records: 5, undecoded: 0, samples: 15, series: 6 });
    let (good, at) = records(&segment);
    assert_eq!(at.len(), 5);
    let (whole, nothing) =
        (Contents { records: 1, undecoded: 0, samples: 3, series: 2 }, Contents::default());
    let dark = Contents { records: 1, undecoded: 1, ..nothing };
    // The checksum, the length, the length that the body declares, and the last value.
    for (byte, flip, contents) in [(4, 1, whole), (2, 0x40, nothing), (31, 0xff, dark)] {
        let mut bad = good.clone();
        bad[at[2].start + byte] ^= flip;
        std::fs::write(&segment, &bad).expect("written");
        for mode in [RepairMode::Show, RepairMode::Apply] {
            let report = repair(dir.path(), mode).expect("readable");
            let losses = &report.losses;
            assert_eq!(losses.len(), 1, "byte {byte}: {losses:?}");
            assert_eq!((losses[0].records(), losses[0].contents), (Some(1), contents), "{byte}");
            let left = Contents { records: 4, undecoded: 0, samples: 12, series: 5 };
            assert_eq!(report.valid, left, "byte {byte}");
        }
        let repaired = repair(dir.path(), RepairMode::Show).expect("readable");
        assert_eq!((repaired.losses.len(), repaired.valid.samples), (0, 12));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_lost_records_in_a_row_are_reported_together() {
    let (dir, segment) = filled(5).await;
    let (mut bytes, at) = records(&segment);
    for record in &at[1..4] {
        bytes[record.start + 4] ^= 1;
    }
    std::fs::write(&segment, &bytes).expect("written");
    let report = repair(dir.path(), RepairMode::Show).expect("readable");
    let (records, samples) = report.losses.iter().fold((0, 0), |(records, samples), loss| {
        assert!(loss.records().is_none_or(|lost| lost == loss.contents.records));
        (records + loss.contents.records, samples + loss.contents.samples)
    });
    assert_eq!((records, samples), (3, 9), "{:?}", report.losses);
    assert_eq!(report.valid, Contents { records: 2, undecoded: 0, samples: 6, series: 3 });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_exit_code_of_the_command_says_whether_damage_is_left() {
    let data = tempfile::tempdir().expect("a folder");
    let flags = ["--wal-limit=64MiB"];
    let mut server = Promkairos::ready(data.path(), &Backend::Embedded, &flags).await;
    for time in 1..=5 {
        let answer = server.write(Message::V1, float_body("a", time, 1.0)).await;
        assert_eq!(answer.expect("it answers").status, 204);
    }
    server.process.kill();
    let segment = only_segment(&data.path().join("embedded/wal"));
    let (mut bytes, at) = records(&segment);
    assert_eq!(at.len(), 5);
    // The checksum of a record that others follow.
    bytes[at[2].start + 4] ^= 1;
    std::fs::write(&segment, &bytes).expect("written");
    let folder = data.path().to_str().expect("UTF-8");
    for (more, code, want) in [
        (None, 1, "Nothing was changed; --apply takes the damage out.\n"),
        (None, 1, " are lost, with 1 samples of 1 series"),
        (Some("--apply"), 0, "Repaired; the damaged files are kept: "),
        (None, 0, "The log is sound: "),
    ] {
        let arguments = ["wal", "repair", "--data-dir", folder].into_iter().chain(more);
        let output = run(data.path(), &arguments.collect::<Vec<_>>(), &[]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert!(said.contains(want), "{more:?}: {said}");
    }
}
