//! What the operator has to mend at a cluster, for `/-/ready`: by cluster, so that one which is there takes
//! nothing away of what is said of another. Nothing is decided here.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::later::Opening;
use crate::api::AppState;

/// What is in the way, by the name of the cluster.
pub(super) struct Obstacles {
    state: Arc<AppState>,
    all: Mutex<BTreeMap<String, String>>,
}

impl Obstacles {
    pub(super) fn new(state: Arc<AppState>) -> Self {
        Self { state, all: Mutex::default() }
    }

    /// Takes in how the opening of a cluster goes. One that is only away needs nobody.
    pub(super) fn told(&self, cluster: &str, opening: &Opening) {
        let mut all = self.all.lock();
        match opening {
            Opening::Refused(what) => drop(all.insert(cluster.to_owned(), what.clone())),
            Opening::Done => drop(all.remove(cluster)),
            Opening::Away(_) => return,
        }
        let texts: Vec<&str> = all.values().map(String::as_str).collect();
        self.state.set_obstacle((!texts.is_empty()).then(|| texts.join("; ")));
    }
}
