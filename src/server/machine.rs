//! The resources of the machine: descriptors and memory. Warns if the settings need more than there are;
//! refuses nothing.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::{Config, memory_of_machine};
use crate::limits::SPARE_CONNECTIONS;
use crate::model::ShownSize;

/// Descriptors for other purposes than connections of clients: the log, part files in use, connections to a cluster.
const OF_STORE: u64 = 384;

/// The number of connections for which there are descriptors, at most `connections`; excludes those of the store.
pub(super) fn affordable(connections: usize) -> usize {
    afforded(most_descriptors(), connections)
}

fn afforded(descriptors: u64, connections: usize) -> usize {
    let of_store = OF_STORE.min(descriptors / 2) + SPARE_CONNECTIONS as u64;
    let rest = usize::try_from(descriptors.saturating_sub(of_store)).unwrap_or(usize::MAX);
    connections.min(rest.max(1))
}

/// Warnings about resources that the settings need and the machine lacks.
pub(super) fn missing(config: &Config) -> Vec<String> {
    let connections = config.http.connections + SPARE_CONNECTIONS;
    let missing = [
        few_descriptors(most_descriptors(), connections as u64),
        little_memory(memory_of_machine(), config.memory.limit),
    ];
    missing.into_iter().flatten().collect()
}

/// Raises the limit of descriptors to the hard limit.
pub(super) fn take_descriptors() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If there is no hard limit, the system may refuse "unlimited": then the old limit stays.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// The limit of descriptors after [`take_descriptors`].
fn most_descriptors() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    maximum.or(current).unwrap_or(u64::MAX)
}

fn few_descriptors(descriptors: u64, connections: u64) -> Option<String> {
    let needed = connections + OF_STORE;
    (descriptors < needed).then(|| {
        format!(
            "the process may open {descriptors} files, and with the setting max-connections it may need \
             {needed}: it takes {} connections at a time; raise the limit (ulimit -n, LimitNOFILE)",
            afforded(descriptors, (connections as usize).saturating_sub(SPARE_CONNECTIONS))
        )
    })
}

fn little_memory(available: u64, limit: u64) -> Option<String> {
    (limit > available).then(|| {
        let (limit, available) = (ShownSize::of(limit), ShownSize::of(available));
        format!(
            "the setting memory-limit is {limit}, and the machine or the control group has \
             {available}: the system may end the process before the limit does anything"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_with_its_setting() {
        assert_eq!(few_descriptors(1024, 528), None);
        let text = few_descriptors(256, 528).expect("few");
        assert!(text.contains("may open 256 files") && text.contains("max-connections"), "{text}");
        assert_eq!(little_memory(1 << 30, 1 << 30), None);
        let text = little_memory(1 << 30, 1 << 31).expect("little");
        assert!(text.contains("memory-limit is 2GiB"), "{text}");
    }

    #[test]
    fn connections_leave_the_store_its_descriptors() {
        assert_eq!(afforded(1024, 512), 512);
        assert_eq!(afforded(600, 512), 600 - 300 - SPARE_CONNECTIONS);
        assert_eq!(afforded(80, 512), 80 - 40 - SPARE_CONNECTIONS);
        assert_eq!(afforded(20, 512), 1);
    }

    #[test]
    fn all_descriptors_are_taken() {
        let most = most_descriptors();
        take_descriptors();
        let now = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        assert_eq!(most, now);
    }
}
