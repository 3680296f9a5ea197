//! The windows that were read through the tag index lately, and how far each is compared with `row_keys`. They take
//! turns. Bounded; no I/O: `audit` compares.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::identity::Identity;
use crate::index::window::{Window, WindowKey};

/// The most windows that are remembered as read through the index.
const MOST_WINDOWS: usize = 1024;

/// Windows compared in one round.
const WINDOWS_A_ROUND: usize = 4;

/// A tag and a value.
pub(crate) type Pair = (String, String);

/// Windows that were read through the index lately, and how far each is compared.
#[derive(Default)]
pub(crate) struct Audited(Mutex<Queue>);

/// The windows, in the order in which they are compared.
#[derive(Default)]
struct Queue {
    windows: HashMap<Identity, QueuedWindow>,
    /// How many times a window joined the end of the queue.
    joined: u64,
}

/// A window that waits for its comparison.
struct QueuedWindow {
    window: Window,
    /// Whether it was read since it was last compared.
    is_due: bool,
    /// Its position in the queue; the smallest is next.
    position: u64,
    /// The last pair compared; none = begin with the first.
    after: Option<Pair>,
}

impl Audited {
    /// Remembers that a window was read.
    pub(crate) fn note(&self, key: WindowKey<'_>) {
        let mut queue = self.0.lock();
        let id = key.identity();
        if let Some(queued) = queue.windows.get_mut(&id) {
            queued.is_due = true;
            return;
        }
        if queue.windows.len() >= MOST_WINDOWS {
            let idle = queue.windows.iter().filter(|(_, queued)| !queued.is_due);
            let Some(oldest) = idle.min_by_key(|(_, queued)| queued.position).map(|(id, _)| *id)
            else {
                return;
            };
            queue.windows.remove(&oldest);
        }
        queue.joined += 1;
        let position = queue.joined;
        let queued = QueuedWindow { window: key.to_window(), is_due: true, position, after: None };
        queue.windows.insert(id, queued);
    }

    /// The windows of a round, those that waited longest first, and where each continues.
    pub(crate) fn take(&self) -> Vec<(Window, Option<Pair>)> {
        let Queue { windows, joined } = &mut *self.0.lock();
        let mut due: Vec<&mut QueuedWindow> =
            windows.values_mut().filter(|queued| queued.is_due).collect();
        due.sort_by_key(|queued| queued.position);
        due.truncate(WINDOWS_A_ROUND);
        let taken = due.into_iter().map(|queued| {
            *joined += 1;
            (queued.is_due, queued.position) = (false, *joined);
            (queued.window.clone(), queued.after.clone())
        });
        taken.collect()
    }

    /// Remembers where a window continues.
    pub(crate) fn put(&self, key: WindowKey<'_>, after: Option<Pair>) {
        if let Some(queued) = self.0.lock().windows.get_mut(&key.identity()) {
            queued.after = after;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use promkairos_kairos::{RowTime, TableName};

    fn key(row_time: i64) -> WindowKey<'static> {
        let row_time = RowTime::from_stored(row_time);
        WindowKey { metric: "m", table_name: TableName::DataPoints, row_time }
    }

    #[test]
    fn windows_that_are_read_have_their_turn_and_go_on_where_they_were() {
        let audited = Audited::default();
        let after = |row_time: i64| Some((String::new(), row_time.to_string()));
        let mut turns: HashMap<i64, u32> = HashMap::new();
        for round in 0..30 {
            (0..10).for_each(|row_time| audited.note(key(row_time)));
            for (window, place) in audited.take() {
                let row_time = window.row_time.millis();
                let turn = turns.entry(row_time).or_default();
                assert_eq!(place.is_some(), *turn > 0, "{round} {row_time}");
                assert_eq!(place.or(after(row_time)), after(row_time));
                audited.put(window.key(), after(row_time));
                *turn += 1;
            }
        }
        assert!(turns.len() == 10 && turns.values().all(|turns| *turns == 12), "{turns:?}");
        assert_eq!(audited.take().len(), 4, "what was noted and not taken yet");
        assert_eq!(audited.take().len(), 2);
        assert_eq!(audited.take().len(), 0, "nobody reads them any more");
    }

    #[test]
    fn memory_is_bounded_and_the_windows_in_use_stay() {
        let audited = Audited::default();
        let most = MOST_WINDOWS as i64;
        (0..most + 5).for_each(|row_time| audited.note(key(row_time)));
        assert_eq!(audited.0.lock().windows.len(), MOST_WINDOWS, "all are due");
        let taken = audited.take();
        audited.note(key(most + 7));
        let windows = &audited.0.lock().windows;
        assert!(windows.contains_key(&key(most + 7).identity()));
        let left = taken.iter().filter(|(w, _)| windows.contains_key(&w.key().identity()));
        assert_eq!((windows.len(), left.count()), (MOST_WINDOWS, WINDOWS_A_ROUND - 1));
    }
}
