//! What leads to whole windows, as read recently: rows of data of one window lie all over the ring. Bounded.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::doctor::judge::Standing;
use crate::identity::Identity;

/// The most entries cached of each kind.
const MOST_KEPT: usize = 100_000;

/// The rows that lead to windows, as read recently.
#[derive(Default)]
pub(super) struct Leads {
    pub(super) times: Mutex<HashMap<Identity, Option<Standing>>>,
    pub(super) names: Mutex<HashMap<Identity, bool>>,
}

impl Leads {
    /// Forgets everything, so that it is read again.
    pub(super) fn forget(&self) {
        self.times.lock().clear();
        self.names.lock().clear();
    }

    pub(super) fn keep<T>(kept: &Mutex<HashMap<Identity, T>>, identity: Identity, value: T) {
        let mut kept = kept.lock();
        if kept.len() >= MOST_KEPT {
            kept.clear();
        }
        kept.insert(identity, value);
    }
}
