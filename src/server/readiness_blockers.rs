//! The problems of clusters that the operator has to fix, for `/-/ready`. They are kept by cluster, so that
//! success of one cluster does not clear the problem of another.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::lazy_store::Opening;
use crate::api::AppState;

/// The problems, by name of the cluster.
pub(super) struct ReadinessBlockers {
    state: Arc<AppState>,
    all: Mutex<BTreeMap<String, String>>,
}

impl ReadinessBlockers {
    pub(super) fn new(state: Arc<AppState>) -> Self {
        Self { state, all: Mutex::default() }
    }

    /// Notes the state of opening a cluster. An unreachable cluster needs no operator.
    pub(super) fn note(&self, cluster: &str, opening: &Opening) {
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
