//! One label in the canonical encoding of label sets. A label set is the concatenation of its labels, sorted by name.
//!
//! So label sets can share labels, and can be compared with the bytes of a sender label by label. The encoding of a
//! label contains its length: two concatenations are equal only if their labels are.

use super::label_order::end_of_label;
use super::labels::{Labels, LabelsRef, RawLabels, text};

/// An owned label. The default is no label: no name and no bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Label(Box<[u8]>);

/// A borrowed label: bytes in the canonical encoding, by construction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LabelRef<'a>(pub(super) &'a [u8]);

impl Label {
    /// The label of this name and value.
    pub fn new(name: &str, value: &str) -> Self {
        let mut bytes = Vec::new();
        RawLabels::push(&mut bytes, name.as_bytes(), value.as_bytes());
        Self(bytes.into())
    }

    /// A borrowed view.
    pub fn as_ref(&self) -> LabelRef<'_> {
        LabelRef(&self.0)
    }
}

impl<'a> LabelRef<'a> {
    /// The canonical encoding.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// The name.
    pub fn name(self) -> &'a str {
        text(self.pair().0)
    }

    /// The value.
    pub fn value(self) -> &'a str {
        text(self.pair().1)
    }

    /// Name and value as bytes, which can be compared without a check of UTF-8.
    pub fn pair(self) -> (&'a [u8], &'a [u8]) {
        if let [0x0A, length @ 0..0x80, 0x0A, name, rest @ ..] = self.0
            && let Some((name, [0x12, _, value @ ..])) = rest.split_at_checked(usize::from(*name))
            && usize::from(*length) == 4 + name.len() + value.len()
        {
            // All lengths take one byte, as for nearly all labels.
            return (name, value);
        }
        RawLabels(self.0).pairs().next().flatten().unwrap_or_default()
    }
}

impl<'a> LabelsRef<'a> {
    /// The labels in order of their names.
    pub fn labels(self) -> impl Iterator<Item = LabelRef<'a>> {
        let mut rest = self.as_bytes();
        std::iter::from_fn(move || {
            let (label, others) = rest.split_at_checked(end_of_label(rest, 0)?)?;
            rest = others;
            Some(LabelRef(label))
        })
    }
}

impl Labels {
    /// The set of these labels, which must be sorted by name, with unique names.
    pub fn joined<'a>(labels: impl Iterator<Item = LabelRef<'a>>) -> Self {
        // Most sets are shorter.
        let mut joined = Vec::with_capacity(512);
        labels.for_each(|label| joined.extend_from_slice(label.as_bytes()));
        debug_assert!(Self::from_bytes(&joined).is_ok(), "labels that are no set");
        LabelsRef(&joined).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_label_knows_its_name_and_value() {
        for (name, value) in [
            ("a", "b".into()),
            ("a", "é".repeat(200)),
            ("__name__", "x".repeat(115)),
            ("n", "".into()),
        ] {
            let label = Label::new(name, &value);
            assert_eq!((label.as_ref().name(), label.as_ref().value()), (name, &*value));
        }
        // Around the length above which a length takes two bytes.
        for length in 120..130 {
            let (name, value) = ("n".repeat(3), "v".repeat(length));
            let label = Label::new(&name, &value);
            assert_eq!(label.as_ref().pair(), (name.as_bytes(), value.as_bytes()));
            let label = Label::new(&value, &name);
            assert_eq!(label.as_ref().pair(), (value.as_bytes(), name.as_bytes()));
        }
        assert_eq!(Label::default().as_ref().name(), "");
    }

    proptest! {
        #[test]
        fn a_set_is_its_labels(
            pairs in prop::collection::btree_map("[a-c]{1,3}|a{120,140}", "(a|é){1,9}|b{110,140}", 0..9),
        ) {
            let set = Labels::from_pairs(&pairs).expect("valid");
            let labels: Vec<LabelRef<'_>> = set.as_ref().labels().collect();
            let told: Vec<(&str, &str)> = labels.iter().map(|l| (l.name(), l.value())).collect();
            prop_assert_eq!(&told, &set.iter().collect::<Vec<_>>());
            for (label, (name, value)) in labels.iter().zip(told) {
                let own = Label::new(name, value);
                prop_assert_eq!(*label, own.as_ref());
            }
            prop_assert_eq!(Labels::joined(labels.iter().copied()), set);
        }
    }
}
