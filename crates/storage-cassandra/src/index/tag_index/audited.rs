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
pub(crate) struct Audited(Mutex<Turns>);

#[derive(Default)]
struct Turns {
    windows: HashMap<Identity, Turn>,
    /// How many times a window joined the end of the queue.
    joined: u64,
}

struct Turn {
    window: Window,
    /// Whether it was read since it was last compared.
    is_due: bool,
    /// Its place in the queue.
    place: u64,
    /// The last pair compared; none = begin with the first.
    after: Option<Pair>,
}

impl Audited {
    /// Remembers that a window was read.
    pub(crate) fn note(&self, key: WindowKey<'_>) {
        let mut turns = self.0.lock();
        let id = key.identity();
        if let Some(turn) = turns.windows.get_mut(&id) {
            turn.is_due = true;
            return;
        }
        if turns.windows.len() >= MOST_WINDOWS {
            let idle = turns.windows.iter().filter(|(_, turn)| !turn.is_due);
            let Some(oldest) = idle.min_by_key(|(_, turn)| turn.place).map(|(id, _)| *id) else {
                return;
            };
            turns.windows.remove(&oldest);
        }
        turns.joined += 1;
        let place = turns.joined;
        let turn = Turn { window: key.to_window(), is_due: true, place, after: None };
        turns.windows.insert(id, turn);
    }

    /// The windows of a round, those that waited longest first, and where each continues.
    pub(crate) fn take(&self) -> Vec<(Window, Option<Pair>)> {
        let Turns { windows, joined } = &mut *self.0.lock();
        let mut due: Vec<&mut Turn> = windows.values_mut().filter(|turn| turn.is_due).collect();
        due.sort_by_key(|turn| turn.place);
        due.truncate(WINDOWS_A_ROUND);
        let taken = due.into_iter().map(|turn| {
            *joined += 1;
            (turn.is_due, turn.place) = (false, *joined);
            (turn.window.clone(), turn.after.clone())
        });
        taken.collect()
    }

    /// Remembers where a window continues.
    pub(crate) fn put(&self, key: WindowKey<'_>, after: Option<Pair>) {
        if let Some(turn) = self.0.lock().windows.get_mut(&key.identity()) {
            turn.after = after;
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
