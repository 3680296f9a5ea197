//! The files of the read cache: damaged, too small, impossible.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use promkairos::model::{Matcher, TimeRange};
use promkairos::storage::cassandra::ReadCacheOptions;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::super::keyspace::{Request, named};
use super::{Cached, all, fill, series};
use crate::support::seed;

#[tokio::test]
async fn damaged_files_cost_a_read_and_nothing_else() {
    let cached = Cached::new().await;
    let (plain, store) = (cached.keyspace.open().await, cached.open().await);
    let want = fill(&plain, "m").await;
    let mut random = StdRng::seed_from_u64(seed());
    for round in 0..20 {
        let damaged = store.metrics.read_cache_damaged.get();
        assert_eq!(store.rows_read(&named("m"), TimeRange::ALL).await, (want.clone(), 20_000));
        assert_eq!(store.rows_read(&named("m"), TimeRange::ALL).await, (want.clone(), 0));
        // The file in use: abandoned files are closed.
        let [path] = &cached.files()[..] else { panic!("{:?}", cached.files()) };
        let file = File::options().read(true).write(true).open(path).expect("opens");
        let len = file.metadata().expect("a file").len();
        if round % 2 == 0 {
            file.set_len(random.random_range(0..len - 1)).expect("cut");
        } else {
            // Not in the replaced part of the file, which is not read any more.
            let (mut byte, at) = ([0], random.random_range(len - len / 4..len));
            file.read_exact_at(&mut byte, at).expect("read");
            let flipped = byte[0] ^ 1 << random.random_range(0..8);
            file.write_all_at(&[flipped], at).expect("written");
        }
        drop(file);
        let (got, rows) = store.rows_read(&named("m"), TimeRange::ALL).await;
        assert_eq!(got, want);
        assert!(rows > 0 && store.metrics.read_cache_damaged.get() > damaged);
        // The points that were read again are in a new file, the rest is in no file.
        Request::default().floats(&series("m", 0), &[(0, 0.0)]).write(&plain).await;
        let (got, _) = store.rows_read(&named("m"), TimeRange::ALL).await;
        assert_eq!(got, want);
        Request::default().floats(&series("m", 0), &[(0, 0.0)]).write(&plain).await;
    }
    cached.keyspace.drop().await;
}

#[tokio::test]
async fn a_small_cache_makes_room_and_stays_right() {
    let cached = Cached::new().await;
    let plain = cached.keyspace.open().await;
    let bytes = 32 << 10;
    let small = ReadCacheOptions { bytes, ..cached.options() };
    let store = cached.open_with(small, cached.keyspace.options()).await;
    let want = fill(&plain, "m").await;
    for _ in 0..3 {
        assert_eq!(all(&store.store, &named("m"), TimeRange::ALL).await, want);
        assert!(store.metrics.read_cache_bytes.get() <= bytes as i64);
        let on_disk: u64 = cached.files().iter().map(|path| size(path)).sum();
        assert!(on_disk <= bytes, "{on_disk}");
    }
    assert!(store.metrics.read_cache_evictions.get() > 0);
    // Points that fit are cached.
    let one = [Matcher::equal("__name__", "m"), Matcher::equal("host", "h7")];
    store.rows_read(&one, TimeRange::ALL).await;
    assert_eq!(store.rows_read(&one, TimeRange::ALL).await.1, 0);
    cached.keyspace.drop().await;
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}

#[tokio::test]
async fn without_a_folder_to_write_to_everything_is_read() {
    let cached = Cached::new().await;
    let plain = cached.keyspace.open().await;
    let file = cached.folder.path().join("file");
    std::fs::write(&file, "no folder").expect("written");
    let nowhere = ReadCacheOptions { dir: file.join("x"), ..cached.options() };
    let store = cached.open_with(nowhere, cached.keyspace.options()).await;
    let want = fill(&plain, "m").await;
    for _ in 0..3 {
        assert_eq!(store.rows_read(&named("m"), TimeRange::ALL).await, (want.clone(), 20_000));
    }
    assert_eq!(store.metrics.read_cache_entries.get(), 0);
    cached.keyspace.drop().await;
}
