//! Lists of partition keys for one SELECT, and whether the server accepts such lists.
//!
//! Many small partitions read together cost a server a fraction of reading them one by one. A server may have
//! guardrails against lists: after its first refusal each key is read alone, which is never refused. A single
//! key is no list either: its statement goes to a replica. The statements are not here.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::cql::failure::Failure;
use promkairos_kairos::TableName;
use promkairos_storage::Result;

/// The most keys in one SELECT.
const MOST: usize = 10;

// Some installations refuse more than 20 partitions, or lists of more than 25 combinations.
const _: () = assert!(MOST * TableName::ALL.len() <= 25);

/// Whether the server refuses lists.
#[derive(Debug, Default)]
pub(crate) struct KeyLists {
    refused: AtomicBool,
}

impl KeyLists {
    /// Splits keys into parts for one SELECT each, as even as can be. No part is empty.
    pub(crate) fn parts<'k, T>(&self, keys: &'k [T]) -> impl Iterator<Item = &'k [T]> + use<'k, T> {
        let most = if self.refused.load(Ordering::Relaxed) { 1 } else { MOST };
        let parts = keys.len().div_ceil(most).max(1);
        keys.chunks(keys.len().div_ceil(parts).max(1))
    }

    /// The result of reading `keys` keys together; None = each key must be read alone.
    pub(crate) async fn together<T>(
        &self,
        keys: usize,
        ask: impl Future<Output = Result<T, Failure>>,
    ) -> Result<Option<T>> {
        if keys < 2 {
            return Ok(None);
        }
        match ask.await {
            Err(Failure::Refused(why)) => {
                self.refuse(&why);
                Ok(None)
            }
            // A server that gives up on this list may still read each key alone.
            Err(Failure::Unread(_)) => Ok(None),
            asked => Ok(Some(asked?)),
        }
    }

    fn refuse(&self, why: &str) {
        if !self.refused.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "Cassandra takes no lists of {MOST} keys, so each is asked for alone from now on, which makes \
                 queries of many metrics slower: {why}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_few_and_evenly_many() {
        let lists = KeyLists::default();
        let lens = |keys: usize| -> Vec<usize> {
            let keys: Vec<usize> = (0..keys).collect();
            let parts: Vec<&[usize]> = lists.parts(&keys).collect();
            assert_eq!(parts.concat(), keys);
            parts.into_iter().map(<[usize]>::len).collect()
        };
        assert_eq!(lens(0), [0usize; 0]);
        assert_eq!(lens(1), [1]);
        assert_eq!(lens(10), [10]);
        assert_eq!(lens(11), [6, 5]);
        assert_eq!(lens(22), [8, 8, 6]);
        lists.refuse("a guardrail");
        assert_eq!(lens(3), [1; 3]);
    }
}
