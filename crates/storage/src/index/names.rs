//! The names of labels in memory, with the pairs of each.
//!
//! Invariant: a pair stands under the name of its label, once, and a name has at least one pair. A name with one pair,
//! as hostile senders make millions of them, is that pair, whose label says what the name is; only one that ever had
//! more has a text and a table of its own.
//!
//! What a pair's label is is asked of the caller, for pairs that were put in and not taken out.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use promkairos_model::LabelRef;

/// Bytes, about, that a new pair of a new name takes here while the tables grow.
pub(super) const NEW: usize = 3 * size_of::<Name>() + 3 * size_of::<u32>();

/// The names.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// By the hash of the name.
    table: HashTable<Name>,
    /// The most that the table ever had room for.
    room: usize,
    /// Bytes of names with a table of their own.
    many: usize,
}

/// One name.
#[derive(Debug)]
pub(super) enum Name {
    /// It has this pair alone.
    One(u32),
    Many(Box<Many>),
}

/// A name that had several pairs.
#[derive(Debug)]
pub(super) struct Many {
    name: Box<str>,
    /// By the hash of the label.
    pairs: HashTable<u32>,
    /// The most that the table ever had room for.
    room: usize,
}

/// Where the pair of a label is.
pub(super) enum Place {
    Pair(u32),
    /// Nowhere yet: this is what is known of where it belongs.
    None(Vacant),
}

/// Where a new pair belongs. It holds until something is put in or taken out.
pub(super) struct Vacant {
    name: u64,
    /// The hash of the label, where other pairs have its name.
    label: Option<u64>,
}

impl Names {
    /// The pair of this label.
    pub(super) fn look_up<'a>(
        &self,
        label: LabelRef<'_>,
        hasher: &DefaultHashBuilder,
        label_of: impl Fn(u32) -> LabelRef<'a>,
    ) -> Place {
        let (name, _) = label.pair();
        let hash = hasher.hash_one(name);
        let Some(known) = self.table.find(hash, |known| known.is(name, &label_of)) else {
            return Place::None(Vacant { name: hash, label: None });
        };
        let of_label = hasher.hash_one(label.as_bytes());
        let found = match known {
            Name::One(pair) => Some(*pair).filter(|pair| label_of(*pair) == label),
            Name::Many(many) => many.pairs.find(of_label, |pair| label_of(*pair) == label).copied(),
        };
        match found {
            Some(pair) => Place::Pair(pair),
            None => Place::None(Vacant { name: hash, label: Some(of_label) }),
        }
    }

    /// Puts a pair in whose label has no other.
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

    /// Takes a pair out, and its name with the last one.
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

    /// All of them, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Name> {
        self.table.iter()
    }

    /// Bytes that the table takes more for a while when it grows, if that is near.
    pub(super) fn growth(&self) -> usize {
        growth(self.table.len(), self.table.capacity(), size_of::<Name>())
    }

    /// Bytes that they take.
    pub(super) fn bytes(&self) -> usize {
        table_bytes(self.room, size_of::<Name>()) + self.many
    }
}

impl Name {
    /// How many pairs it has.
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

    /// What it is.
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
        match self {
            Self::One(pair) => label_of(*pair).pair().0 == name,
            Self::Many(many) => many.name.as_bytes() == name,
        }
    }
}

impl Many {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.name.len() + table_bytes(self.room, size_of::<u32>())
    }
}

/// Bytes of a hash table that has room for so many entries of so many bytes before it grows.
pub fn table_bytes(room: usize, each: usize) -> usize {
    /// Control bytes that are looked at together stand behind the others once more.
    const GROUP: usize = 16;
    let buckets = match room {
        0 => return 0,
        1..=3 => 4,
        4..=7 => 8,
        // Seven eighths of them are filled at most.
        _ => (room.saturating_mul(8) / 7).next_power_of_two(),
    };
    buckets * (each + 1) + GROUP
}

/// Bytes that a list or a table of so many entries, with room for so many, takes more for a while when it grows, if
/// that is near: the new one is twice as large, and the old one is there until all is moved.
pub fn growth(len: usize, room: usize, each: usize) -> usize {
    let is_near = len.saturating_add(room / 8) >= room;
    if is_near { 2 * room.saturating_mul(each) } else { 0 }
}
