//! Kills and power cuts at each operation of the disk: one short history is run repeatedly, and
//! each time the process ends one operation later.
//!
//! Complements the random histories, which rarely end between two particular operations.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use promkairos::model::{MatchOp, Matcher, TimeRange};
use promkairos::storage::Store;

use crate::batch::Batch;
use crate::disk::PowerDisk;
use crate::model::{Content, DAY, DAYS, Model, NOW, Outcome};
use crate::store::{Bounds, Opened, open};

/// How a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The files keep everything that was written.
    Kill,
    /// The files keep what was synced, and some of the rest.
    PowerCut,
}

/// Runs the history, ends it at the operation with this number, counted from 1, and starts again.
/// Returns whether the history was complete before; an error says how the law was broken.
pub async fn run(operation: u32, end: End) -> Result<bool, String> {
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (disk, clock) = (PowerDisk::new(operation.into()), Arc::new(AtomicI64::new(NOW)));
    let bounds = Bounds { flush_memory: 512 << 20, wal_limit: 8 << 30, segment: 1 << 15 };
    disk.cut_after(operation);
    let mut model = Model::default();
    if let Ok(store) = open(&disk, dir.path(), &clock, bounds).await {
        history(&store, &mut model).await;
    }
    let is_over = !disk.is_dead();
    let disk = match end {
        End::Kill => disk.after_kill(),
        End::PowerCut => disk.after_cut(),
    };
    let store = open(&disk, dir.path(), &clock, bounds).await;
    let store = store.map_err(|error| format!("the start after operation {operation}: {error}"))?;
    let found = store.found().await.map_err(|error| error.to_string())?;
    model.compare(&found).map_err(|error| format!("{end:?} at operation {operation}: {error}"))?;
    Ok(is_over)
}

/// Writes, a flush, an overwrite, a delete, more flushes, compaction and an orderly stop. Errors
/// are due to a disk that is gone.
async fn history(store: &Opened, model: &mut Model) {
    let time = |day: i64| (DAYS.start + day) * DAY + 1_000;
    for round in 0..5i32 {
        let mut batch = Batch::new();
        let mut written = Vec::new();
        for host in ["a", "b"] {
            batch = batch.series(&[("__name__", "m"), ("host", host)]);
            for day in 0..2 {
                let (time, value) = (time(day) + i64::from(round / 2), f64::from(round));
                batch = batch.sample(time, value);
                written.push(((host.to_owned(), time), Content::Float(value.to_bits())));
            }
        }
        let outcome = result(&store.head.write(batch.build()).await);
        written.into_iter().for_each(|(key, value)| model.point(key, value, outcome));
        if round == 2
            && let Ok(matcher) = Matcher::new(MatchOp::Equal, "host", "b")
        {
            let range = TimeRange::new(time(0), time(1));
            let outcome = result(&store.head.delete(&[matcher], range).await);
            model.delete("b", range, outcome);
        }
        // A failed flush changes nothing visible.
        drop(store.head.flush().await);
    }
    drop(store.parts.maintain(NOW));
    drop(store.head.close().await);
}

fn result<T, E>(result: &Result<T, E>) -> Outcome {
    match result {
        Ok(_) => Outcome::Acknowledged,
        Err(_) => Outcome::Refused,
    }
}
