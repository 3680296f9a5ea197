//! The names of labels in memory, with the pairs of each.
//!
//! Invariant: each pair is listed once, under the name of its label, and each name has at least one pair. A name with
//! one pair is stored as this pair alone, and the label of the pair gives the name: hostile senders make millions of
//! such names. Only a name that ever had more pairs has a text and a table of its own.
//!
//! The caller provides the label of each pair that was inserted and not removed.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use promkairos_model::LabelRef;

/// Approximate bytes of a new pair with a new name, while the tables grow.
pub(super) const NEW: usize = 3 * size_of::<Name>() + 3 * size_of::<u32>();

/// All label names.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// By the hash of the name.
    table: HashTable<Name>,
    /// The largest capacity that the table ever had.
    room: usize,
    /// Bytes of the names with a table of their own.
    many: usize,
}

/// One name.
#[derive(Debug)]
pub(super) enum Name {
    /// A name with this pair alone.
    One(u32),
    Many(Box<Many>),
}

/// A name that had several pairs.
#[derive(Debug)]
pub(super) struct Many {
    name: Box<str>,
    /// By the hash of the label.
    pairs: HashTable<u32>,
    /// The largest capacity that the table ever had.
    room: usize,
}

/// The place of the pair of a label.
pub(super) enum PairSlot {
    Pair(u32),
    /// There is no pair yet; a new one belongs here.
    None(Vacant),
}

/// The place for a new pair. Valid until the next insertion or removal.
pub(super) struct Vacant {
    name: u64,
    /// The hash of the label, if other pairs have its name.
    label: Option<u64>,
}

impl Names {
    /// Finds the pair of this label.
    pub(super) fn look_up<'a>(
        &self,
        label: LabelRef<'_>,
        hasher: &DefaultHashBuilder,
        label_of: impl Fn(u32) -> LabelRef<'a>,
    ) -> PairSlot {
        let (name, _) = label.pair();
        let hash = hasher.hash_one(name);
        let Some(known) = self.table.find(hash, |known| known.is(name, &label_of)) else {
            return PairSlot::None(Vacant { name: hash, label: None });
        };
        let of_label = hasher.hash_one(label.as_bytes());
        let found = match known {
            Name::One(pair) => Some(*pair).filter(|pair| label_of(*pair) == label),
            Name::Many(many) => many.pairs.find(of_label, |pair| label_of(*pair) == label).copied(),
        };
        match found {
            Some(pair) => PairSlot::Pair(pair),
            None => PairSlot::None(Vacant { name: hash, label: Some(of_label) }),
        }
    }

    /// Inserts a pair whose label has no pair yet.
    pub(super) fn insert<'a>(
        &mut self,
        Vacant { name: hash, label }: Vacant,
        pair: u32,
        hasher: &DefaultHashBuilder,
        label_of: impl Fn(u32) -> LabelRef<'a>,
    ) {
        let hash_of = |name: &Name| hasher.hash_one(name.bytes(&label_of));
        let Some(of_label) = label else {
            self.table.insert_unique(hash, Name::One(pair), hash_of);
            self.room = self.room.max(self.table.capacity());
            return;
        };
        let (text, _) = label_of(pair).pair();
        let Some(known) = self.table.find_mut(hash, |known| known.is(text, &label_of)) else {
            return;
        };
        let hash_of = |pair: &u32| hasher.hash_one(label_of(*pair).as_bytes());
        match known {
            Name::One(first) => {
                let mut pairs = HashTable::with_capacity(2);
                pairs.insert_unique(hash_of(first), *first, hash_of);
                pairs.insert_unique(of_label, pair, hash_of);
                let (name, room) = (label_of(pair).name().into(), pairs.capacity());
                let many = Box::new(Many { name, pairs, room });
                self.many += many.bytes();
                *known = Name::Many(many);
            }
            Name::Many(many) => {
                many.pairs.insert_unique(of_label, pair, hash_of);
                if many.pairs.capacity() > many.room {
                    self.many -= many.bytes();
                    many.room = many.pairs.capacity();
                    self.many += many.bytes();
                }
            }
        }
    }

    /// Removes a pair, and its name if it was the last pair.
    pub(super) fn remove<'a>(
        &mut self,
        pair: u32,
        hasher: &DefaultHashBuilder,
        label_of: impl Fn(u32) -> LabelRef<'a>,
    ) {
        let label = label_of(pair);
        let (name, _) = label.pair();
        let found = self.table.find_entry(hasher.hash_one(name), |known| known.is(name, &label_of));
        let Ok(mut entry) = found else { return };
        if let Name::Many(many) = entry.get_mut() {
            let hash = hasher.hash_one(label.as_bytes());
            if let Ok(entry) = many.pairs.find_entry(hash, |other| *other == pair) {
                entry.remove();
            }
            if !many.pairs.is_empty() {
                return;
            }
            self.many -= many.bytes();
        }
        entry.remove();
    }

    /// The name, if there is one.
    pub(super) fn find<'a>(
        &self,
        name: &str,
        hasher: &DefaultHashBuilder,
        label_of: impl Fn(u32) -> LabelRef<'a>,
    ) -> Option<&Name> {
        let name = name.as_bytes();
        self.table.find(hasher.hash_one(name), |known| known.is(name, &label_of))
    }

    /// All names, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Name> {
        self.table.iter()
    }

    /// Additional bytes that the table takes while it grows, if it will grow soon.
    pub(super) fn growth(&self) -> usize {
        growth(self.table.len(), self.table.capacity(), size_of::<Name>())
    }

    /// Bytes of memory of all names.
    pub(super) fn bytes(&self) -> usize {
        table_bytes(self.room, size_of::<Name>()) + self.many
    }
}

impl Name {
    /// The number of its pairs.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(many) => many.pairs.len(),
        }
    }

    /// Its pairs, in no order.
    pub(super) fn pairs(&self) -> impl Iterator<Item = u32> {
        let (one, many) = match self {
            Self::One(pair) => (Some(*pair), None),
            Self::Many(many) => (None, Some(many.pairs.iter().copied())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// The text of the name.
    pub(super) fn text<'a: 'b, 'b>(&'b self, label_of: impl Fn(u32) -> LabelRef<'a>) -> &'b str {
        match self {
            Self::One(pair) => label_of(*pair).name(),
            Self::Many(many) => &many.name,
        }
    }

    fn bytes<'a: 'b, 'b>(&'b self, label_of: impl Fn(u32) -> LabelRef<'a>) -> &'b [u8] {
        match self {
            Self::One(pair) => label_of(*pair).pair().0,
            Self::Many(many) => many.name.as_bytes(),
        }
    }

    fn is<'a>(&self, name: &[u8], label_of: impl Fn(u32) -> LabelRef<'a>) -> bool {
        self.bytes(label_of) == name
    }
}

impl Many {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.name.len() + table_bytes(self.room, size_of::<u32>())
    }
}

/// Bytes of a hash table that holds `room` entries of `each` bytes before it grows.
pub fn table_bytes(room: usize, each: usize) -> usize {
    /// Control bytes: the table repeats the first group of them at its end.
    const GROUP: usize = 16;
    let buckets = match room {
        0 => return 0,
        1..=3 => 4,
        4..=7 => 8,
        // At most seven eighths of the buckets are used.
        _ => (room.saturating_mul(8) / 7).next_power_of_two(),
    };
    buckets * (each + 1) + GROUP
}

/// Additional bytes that a list or table of `len` entries of `each` bytes takes while it grows, if it will grow soon.
/// The new one is twice as large as `room`, and the old one stays until all entries are moved.
pub fn growth(len: usize, room: usize, each: usize) -> usize {
    let is_near = len.saturating_add(room / 8) >= room;
    if is_near { 2 * room.saturating_mul(each) } else { 0 }
}
