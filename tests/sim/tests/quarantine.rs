//! The quarantine file on a disk that fails: a line reported as durable is found after a power cut,
//! exactly once, and is counted once.

use std::path::Path;
use std::sync::Arc;

use promkairos::storage::cassandra::Quarantine;
use promkairos::storage::log_files::LogFiles;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use sim::disk::PowerDisk;
use sim::{long, seed};

const PATH: &str = "data/quarantine.jsonl";

fn open(disk: &PowerDisk) -> Quarantine {
    Quarantine::new(PATH.into(), Arc::new(disk.clone()))
}

fn line(number: u32) -> String {
    // Some lines are longer than a sector; most begin within one.
    let padding = "x".repeat(number as usize * 37 % 600);
    format!("{{\"metric\":\"m{number}{padding}\",\"reason\":\"no\"}}\n")
}

fn any_line(random: &mut StdRng) -> String {
    line(random.random_range(0..60))
}

/// All whole lines; bytes after the last of them are torn.
fn found(disk: &PowerDisk) -> Vec<String> {
    let Ok(file) = LogFiles::open(disk, Path::new(PATH)) else { return Vec::new() };
    let mut bytes = vec![0; file.size().expect("a size") as usize];
    let read = file.read_at(&mut bytes, 0).expect("it can be read");
    assert_eq!(read, bytes.len());
    bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1));
    let text = String::from_utf8_lossy(&bytes).into_owned();
    text.lines().map(|line| line.to_owned() + "\n").collect()
}

/// Whichever operation fails, the next attempt makes the same lines durable, and counts them.
#[tokio::test]
async fn a_sync_that_failed_is_not_taken_for_one_that_worked() {
    for seed in 0..if long() { 500 } else { 50 } {
        for failing in 1..12 {
            let disk = PowerDisk::new(seed);
            let quarantine = open(&disk);
            assert_eq!(quarantine.keep(vec![line(1)]).await.expect("a healthy disk"), 1);
            disk.fail_once(failing);
            let again = || quarantine.keep(vec![line(1), line(2)]);
            let new = match again().await {
                Err(_) => again().await.expect("it fails once"),
                Ok(new) => new,
            };
            assert_eq!(new, 1, "seed {seed}, operation {failing}");
            disk.fail_once(0);
            assert_eq!(quarantine.keep(vec![line(2)]).await.expect("a healthy disk"), 0);
            let left = found(&disk.after_cut());
            assert_eq!(left, [line(1), line(2)], "seed {seed}, operation {failing}");
        }
    }
}

/// The same if the process ends in between: what the next process reads may never have been synced.
#[tokio::test]
async fn what_an_earlier_process_left_is_not_taken_for_durable() {
    let mut failed = 0;
    for seed in 0..if long() { 500 } else { 50 } {
        for failing in 1..6 {
            let disk = PowerDisk::new(seed);
            let quarantine = open(&disk);
            assert_eq!(quarantine.keep(vec![line(1)]).await.expect("a healthy disk"), 1);
            disk.fail_once(failing);
            let both = || vec![line(1), line(2)];
            failed += u32::from(quarantine.keep(both()).await.is_err());
            let disk = disk.after_kill();
            open(&disk).keep(both()).await.expect("a healthy disk");
            let left = found(&disk.after_cut());
            assert_eq!(left, [line(1), line(2)], "seed {seed}, operation {failing}");
        }
    }
    assert!(failed > 20, "{failed}");
}

#[tokio::test]
async fn what_is_kept_is_found_after_power_cuts() {
    let (mut kept, mut failed, mut cuts) = (0, 0, 0);
    let first = seed();
    for number in 0..if long() { 2_000 } else { 100 } {
        let seed = first.wrapping_add(number);
        println!("history {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let mut disk = PowerDisk::new(seed);
        let mut quarantine = open(&disk);
        let mut acknowledged = Vec::new();
        // Lines from before this process, and lines that it counted.
        let mut counted = 0;
        for _ in 0..40 {
            match random.random_range(0..10) {
                0 => {
                    disk.cut_after(random.random_range(1..8));
                    let _ = quarantine.keep(vec![any_line(&mut random)]).await;
                    disk = disk.after_cut();
                    quarantine = open(&disk);
                    let left = found(&disk);
                    let lost = acknowledged.iter().find(|line| !left.contains(line));
                    assert_eq!(lost, None, "{left:?}");
                    counted = left.len() as u64;
                    cuts += 1;
                }
                1 => {
                    disk = disk.after_kill();
                    quarantine = open(&disk);
                    counted = found(&disk).len() as u64;
                }
                2 => disk.fill(random.random_bool(0.5)),
                3 => disk.fail(random.random_range(0..6)),
                _ => {}
            }
            let lines: Vec<_> =
                (0..random.random_range(1..4)).map(|_| any_line(&mut random)).collect();
            let Ok(new) = quarantine.keep(lines.clone()).await else {
                failed += 1;
                continue;
            };
            kept += 1;
            counted += new;
            acknowledged.extend(lines);
            let all = found(&disk);
            assert_eq!(all.len() as u64, counted, "{all:?}");
            for line in &acknowledged {
                assert_eq!(all.iter().filter(|other| *other == line).count(), 1, "{all:?}");
            }
        }
    }
    println!("kept {kept}, failed {failed}, cuts {cuts}");
    assert!(kept > 500 && failed > 100 && cuts > 100);
}
