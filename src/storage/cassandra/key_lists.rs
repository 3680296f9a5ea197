//! Keys of partitions that one SELECT asks for together, and whether the server takes such lists.
//!
//! Small partitions cost a server a fraction together of what they cost one by one. A server may have guardrails
//! against lists: from its first refusal on each key is asked for alone, which it never refuses. A single key is
//! no list either: its statement goes to a node that has it. What is asked for, and how, is for others.

use std::sync::atomic::{AtomicBool, Ordering};

use super::executor::Failure;
use crate::kairos::TableName;
use crate::storage::StoreError;

/// Keys in one SELECT at most.
const MOST: usize = 10;

// There are installations that refuse more than 20 partitions, or lists of more than 25 combinations.
const _: () = assert!(MOST * TableName::ALL.len() <= 25);

/// What is known of the server.
#[derive(Debug, Default)]
pub(super) struct KeyLists {
    refused: AtomicBool,
}

impl KeyLists {
    /// Keys in parts for one SELECT each, as even as can be. None is empty.
    pub(super) fn parts<'k, T>(&self, keys: &'k [T]) -> impl Iterator<Item = &'k [T]> + use<'k, T> {
        let most = if self.refused.load(Ordering::Relaxed) { 1 } else { MOST };
        let parts = keys.len().div_ceil(most).max(1);
        keys.chunks(keys.len().div_ceil(parts).max(1))
    }

    /// What comes of asking for so many keys together; None = each is to be asked for alone.
    pub(super) async fn together<T>(
        &self,
        keys: usize,
        ask: impl Future<Output = Result<T, Failure>>,
    ) -> Result<Option<T>, StoreError> {
        if keys < 2 {
            return Ok(None);
        }
        match ask.await {
            Err(Failure::Refused(why)) => {
                self.refuse(&why);
                Ok(None)
            }
            // What makes a server give up on one of them does not concern the others.
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
