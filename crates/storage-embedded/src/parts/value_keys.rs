//! Finds the blocks of a part that can have the values of a label.
//!
//! A part of version 3 keeps only a prefix of the first name and value of each block: a value may
//! be longer than a block, and all values together larger than memory. Where prefixes are equal,
//! the blocks themselves are read. Older parts keep whole first values, by label. Pure bytes:
//! reading blocks is for [`lookup`](super::lookup).

use super::block_ref::BlockRef;

/// Most bytes that are kept of a name and of a value.
pub(super) const KEY_BYTES: usize = 64;

/// A block of values of one label with their postings, in a part of version 1 or 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ValueBlock {
    /// The first value in it.
    pub(super) first: Box<str>,
    pub(super) block: BlockRef,
}

/// All values of one label, in a part of version 1 or 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NameEntry {
    pub(super) name: Box<str>,
    /// Number of values.
    pub(super) values: u64,
    /// Sorted.
    pub(super) blocks: Vec<ValueBlock>,
}

/// The prefix of a label. Keys order as their labels do; labels with the same prefix have equal keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key<'a> {
    name: &'a [u8],
    value: &'a [u8],
}

impl<'a> Key<'a> {
    /// The key of a label. If the name is cut, the value is left out.
    pub(super) fn of(name: &'a str, value: &'a str) -> Self {
        let cut = |text: &'a str| &text.as_bytes()[..text.len().min(KEY_BYTES)];
        let value = if name.len() < KEY_BYTES { cut(value) } else { &[] };
        Self { name: cut(name), value }
    }

    /// Whether the key is the whole label, not cut.
    fn is_whole(&self) -> bool {
        self.name.len() < KEY_BYTES && self.value.len() < KEY_BYTES
    }
}

/// A block of labels or of names in a part of version 3, with the key of its first entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyedBlock {
    pub(super) name: Box<[u8]>,
    pub(super) value: Box<[u8]>,
    pub(super) block: BlockRef,
}

impl KeyedBlock {
    pub(super) fn new(key: Key<'_>, block: BlockRef) -> Self {
        Self { name: key.name.into(), value: key.value.into(), block }
    }

    fn key(&self) -> Key<'_> {
        Key { name: &self.name, value: &self.value }
    }
}

/// The only block that can have a label: the last one that begins at or before it. `begins_behind`
/// says whether a block begins behind the label; it is called only if the keys are equal and cut.
pub(super) fn block_of<E>(
    blocks: &[KeyedBlock],
    name: &str,
    value: &str,
    mut begins_behind: impl FnMut(&KeyedBlock) -> Result<bool, E>,
) -> Result<usize, E> {
    let key = Key::of(name, value);
    let mut low = blocks.partition_point(|block| block.key() < key);
    let mut high = low + blocks[low..].partition_point(|block| block.key() == key);
    if key.is_whole() {
        // A block with this key begins with this very label.
        low = high;
    }
    while low < high {
        let middle = low + (high - low) / 2;
        match begins_behind(&blocks[middle])? {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    Ok(low.saturating_sub(1))
}

/// Approximate number of blocks that can have values of a label that begin with `prefix`.
pub(super) fn blocks_with(blocks: &[KeyedBlock], name: &str, prefix: &str) -> usize {
    let key = Key::of(name, prefix);
    let first = blocks.partition_point(|block| block.key() < key).saturating_sub(1);
    let may_have = |block: &KeyedBlock| {
        block.key() <= key || (*block.name == *key.name && block.value.starts_with(key.value))
    };
    blocks[first..].partition_point(may_have)
}

/// The entry of a label in a part of version 1 or 2.
pub(super) fn entry_of<'a>(names: &'a [NameEntry], name: &str) -> Option<&'a NameEntry> {
    let at = names.binary_search_by(|entry| (*entry.name).cmp(name)).ok()?;
    names.get(at)
}

impl NameEntry {
    /// The blocks that can hold values with this prefix: from the last one that begins at or before
    /// it.
    pub(super) fn blocks_with(&self, prefix: &str) -> &[ValueBlock] {
        let after = self.blocks.partition_point(|block| &*block.first <= prefix);
        let behind = &self.blocks[after..];
        let more = behind.partition_point(|block| block.first.starts_with(prefix));
        &self.blocks[after.saturating_sub(1)..after + more]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn blocks_of_old_parts_are_found_by_value() {
        let at = BlockRef { offset: 0, len: 1 };
        let entry_of = |firsts: &[&str]| {
            let block = |first: &&str| ValueBlock { first: (*first).into(), block: at };
            NameEntry { name: "n".into(), values: 9, blocks: firsts.iter().map(block).collect() }
        };
        let entry = entry_of(&["b", "f"]);
        let firsts = |prefix| -> Vec<&str> {
            entry.blocks_with(prefix).iter().map(|block| &*block.first).collect()
        };
        assert_eq!(firsts(""), ["b", "f"]);
        for (prefix, want) in [("b", "b"), ("e", "b"), ("f", "f"), ("fa", "f"), ("g", "f")] {
            assert_eq!(firsts(prefix), [want], "{prefix}");
        }
        assert!(firsts("a").is_empty());
        let entry = entry_of(&["aa", "ab", "b", "ba", "bb", "c"]);
        let count = |prefix| entry.blocks_with(prefix).len();
        assert_eq!((count(""), count("a"), count("ab"), count("b"), count("bb")), (6, 2, 1, 3, 1));
        assert_eq!((count("0"), count("bc"), count("d")), (0, 1, 1));
    }

    /// A text with about the length of a key; many share a prefix.
    fn text() -> impl Strategy<Value = String> {
        (prop_oneof![Just(0), 60usize..68, Just(200)], "[ab]{0,3}").prop_map(|(len, end)| {
            let mut text = "x".repeat(len);
            text.push_str(&end);
            text
        })
    }

    proptest! {
        #[test]
        fn the_block_of_a_label_is_found(
            labels in prop::collection::btree_set((text(), text()), 1..40),
            per_block in 1usize..4,
            asked in prop::collection::vec((text(), text()), 1..20),
        ) {
            let labels: Vec<_> = labels.into_iter().collect();
            let firsts: Vec<_> = labels.chunks(per_block).map(|some| &some[0]).collect();
            let block = |(at, (name, value)): (usize, &&(String, String))| {
                KeyedBlock::new(Key::of(name, value), BlockRef { offset: at as u64, len: 1 })
            };
            let blocks: Vec<_> = firsts.iter().enumerate().map(block).collect();
            prop_assert!(blocks.is_sorted_by_key(KeyedBlock::key));
            for (name, value) in asked.iter().chain(&labels) {
                let behind = |block: &KeyedBlock| {
                    Ok::<_, ()>(*firsts[block.block.offset as usize] > (name.clone(), value.clone()))
                };
                let want = firsts.iter().filter(|first| ***first <= (name.clone(), value.clone()));
                let want = want.count().saturating_sub(1);
                prop_assert_eq!(block_of(&blocks, name, value, behind), Ok(want));
            }
        }
    }
}
