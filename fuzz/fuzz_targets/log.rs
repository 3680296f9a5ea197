//! The write-ahead log: a segment file with any content is replayed, refused or repaired.
#![no_main]

use std::fs;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use promkairos::storage::head::wal::disk::RealDisk;
use promkairos::storage::head::wal::{self, RepairMode, WalOptions};
use promkairos::telemetry::HeadMetrics;

fuzz_target!(|data: &[u8]| {
    let dir = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    fs::write(dir.path().join("00000000000000000001.wal"), data).expect("a file");
    let options = || WalOptions {
        dir: dir.path().to_owned(),
        segment_bytes: 1 << 16,
        disk: Arc::new(RealDisk),
    };
    let open = || wal::open(options(), HeadMetrics::default(), 0, &mut |_| Ok(()));
    if open().is_err() {
        let _ = wal::repair(dir.path(), RepairMode::Apply);
    }
    drop(open());
});
