//! The inputs that fuzzing found worth keeping, and random changes of them, through every fuzz target.
//!
//! `tests/data/fuzz/TARGET/` holds small inputs that reach different code, and every input that
//! once made a target fail. These tests do not search for new inputs; `cargo fuzz` does.

use std::fs;
use std::path::PathBuf;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::support::{long, seed};
use crate::tidy::root;

#[path = "../../fuzz/targets/mod.rs"]
pub(crate) mod targets;

fn kept(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = root().join("tests/data/fuzz").join(target);
    let files = fs::read_dir(&folder).expect("a folder for each target");
    let mut kept: Vec<_> = files
        .map(|file| file.expect("a file").path())
        .map(|path| (path.clone(), fs::read(path).expect("readable")))
        .collect();
    kept.sort();
    assert!(!kept.is_empty(), "{} holds nothing", folder.display());
    kept
}

/// Panics with the origin of the input when a target fails.
fn check(target: &str, origin: &str, data: &[u8]) {
    let outcome = std::panic::catch_unwind(|| targets::check(target, data));
    assert!(outcome.is_ok(), "{target} fails with {origin}: {}", data.escape_ascii());
}

/// Makes a few random changes: flipped bits, extreme numbers, pieces removed, doubled or replaced.
fn changed(random: &mut StdRng, data: &[u8], other: &[u8]) -> Vec<u8> {
    let mut data = data.to_vec();
    for _ in 0..random.random_range(1..=4) {
        let at = random.random_range(0..=data.len());
        let end = (at + random.random_range(0..16)).min(data.len());
        match random.random_range(0..6) {
            0 if at < data.len() => data[at] ^= 1 << random.random_range(0..8),
            1 if at < data.len() => data[at] = [0, 1, 0x7f, 0x80, 0xff][random.random_range(0..5)],
            2 => drop(data.drain(at..end)),
            3 => drop(data.splice(at..at, data[at..end].to_vec())),
            4 => data.truncate(at),
            _ => {
                let from = random.random_range(0..=other.len());
                let to = (from + random.random_range(0..64)).min(other.len());
                data.splice(at..at, other[from..to].iter().copied());
            }
        }
    }
    data
}

fn replay(target: &str) {
    let kept = kept(target);
    for (path, data) in &kept {
        check(target, &path.display().to_string(), data);
    }
    let mut random = StdRng::seed_from_u64(seed());
    for _ in 0..if long() { 50_000 } else { 2_000 } {
        let (path, data) = &kept[random.random_range(0..kept.len())];
        let (_, other) = &kept[random.random_range(0..kept.len())];
        let data = changed(&mut random, data, other);
        check(target, &format!("a change of {}", path.display()), &data);
    }
}

#[test]
fn every_target_has_its_inputs() {
    let folder = root().join("tests/data/fuzz");
    let mut folders: Vec<_> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("a folder").file_name().into_string().expect("a name"))
        .collect();
    folders.sort();
    let mut names: Vec<_> = targets::TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    names.sort();
    assert_eq!(folders, names);
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            replay(stringify!($name));
        })*
    };
}

targets! {
    write_v1 write_v2 compressed remote_read read_answer answer_frames json_answer copy_state request log
    checkpoint keyspace_file quarantine chunk frame row_key index_row tag_index manifest metadata_file part_end
    settings web_config kairosdb_conf kairosdb_query authorization client_names traceparent regex promql evaluation
}
