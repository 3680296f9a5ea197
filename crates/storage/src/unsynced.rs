//! Acknowledged writes that the servers of a store keep only in memory for a while, as a Cassandra
//! does with `commitlog_sync: periodic`: they are lost if the servers are killed.
//!
//! The owner of a log keeps the data that it passed down for this period, and passes it down again
//! if a server has restarted meanwhile. No I/O here.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;

use super::error::StoreError;

/// The servers that answer: a permanent name for each, and a number that changes when it restarts.
pub type Starts = BTreeMap<String, i64>;

/// The servers of such a store.
#[async_trait]
pub trait Unsynced: Send + Sync {
    /// How long acknowledged data may be lost; zero = never.
    fn period(&self) -> Duration;

    /// The minimum number of servers that have the data when it is acknowledged.
    fn copies(&self) -> usize;

    /// The servers that answer now.
    async fn starts(&self) -> Result<Starts, StoreError>;

    /// Acknowledged writes may be missing: forget cached knowledge of them, and write again what
    /// the store itself needs (such as `spec`).
    async fn start_over(&self) -> Result<(), StoreError>;
}

/// The state of acknowledged writes after servers restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// At least one copy is on a server that did not restart.
    Kept,
    /// As many servers restarted as hold a copy: all copies may be lost.
    Lost,
    /// Some servers do not answer; if they restarted too, all copies may be lost.
    Unknown,
}

impl Since {
    /// Compares the starts before and now, if all data was on `copies` servers.
    pub fn judge(before: &Starts, now: &Starts, copies: usize) -> Self {
        let copies = copies.max(1);
        let was_started =
            |(server, start): &(&String, &i64)| now.get(*server).is_some_and(|now| now != *start);
        let started = before.iter().filter(was_started).count();
        let silent = before.keys().filter(|server| !now.contains_key(*server)).count();
        if started >= copies {
            Self::Lost
        } else if started + silent >= copies {
            Self::Unknown
        } else {
            Self::Kept
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_servers_have_to_be_started_again_as_there_are_copies() {
        let starts = |all: &[(&str, i64)]| -> Starts {
            all.iter().map(|(name, start)| ((*name).to_owned(), *start)).collect()
        };
        let before = starts(&[("a", 1), ("b", 1), ("c", 1)]);
        let check = |now: &[(&str, i64)], want: [Since; 3]| {
            let found = [1, 2, 3].map(|copies| Since::judge(&before, &starts(now), copies));
            assert_eq!(found, want, "{now:?}");
        };
        use Since::{Kept, Lost, Unknown};
        check(&[("a", 1), ("b", 1), ("c", 1)], [Kept, Kept, Kept]);
        check(&[("a", 1), ("b", 1), ("c", 1), ("d", 9)], [Kept, Kept, Kept]);
        check(&[("a", 1), ("b", 1)], [Unknown, Kept, Kept]);
        check(&[("a", 2), ("b", 1), ("c", 1)], [Lost, Kept, Kept]);
        check(&[("a", 2), ("b", 1)], [Lost, Unknown, Kept]);
        check(&[("a", 2), ("b", 2)], [Lost, Lost, Unknown]);
        check(&[("a", 2), ("b", 2), ("c", 2)], [Lost, Lost, Lost]);
        check(&[], [Unknown, Unknown, Unknown]);
        assert_eq!(Since::judge(&Starts::new(), &before, 0), Kept);
    }
}
