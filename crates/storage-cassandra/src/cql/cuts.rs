//! The unread slices, in order, of a row or partition that a server does not read in one statement. A slice is cut
//! where the server gives up on it. Every position lies in exactly one slice. The number of cuts is bounded.

/// Slices from a first position up to, but excluding, a last one, in order.
#[derive(Debug)]
pub(crate) struct Cuts<B> {
    /// The slices not read yet, in reverse order.
    left: Vec<[B; 2]>,
    /// The slice that is being read.
    now: Option<[B; 2]>,
    cuts: u32,
    most_cuts: u32,
}

impl<B: Clone + Ord> Cuts<B> {
    /// All from `start` up to, but excluding, `end`, cut at the positions `at`, which rise.
    pub(crate) fn of(start: B, end: B, at: impl IntoIterator<Item = B>, most_cuts: u32) -> Self {
        let mut cuts = Self { left: Vec::new(), now: None, cuts: 0, most_cuts };
        cuts.push(start, end, at);
        cuts
    }

    /// Adds the slices from `start` to before `end`, cut at the positions `at`; the first of them is next.
    fn push(&mut self, start: B, end: B, at: impl IntoIterator<Item = B>) {
        let begin = self.left.len();
        let mut from = start;
        for place in at.into_iter().filter(|place| *place < end) {
            if from < place {
                self.left.push([std::mem::replace(&mut from, place.clone()), place]);
            }
        }
        if from < end {
            self.left.push([from, end]);
        }
        self.left[begin..].reverse();
    }

    /// The next slice; `None` = everything is read.
    pub(crate) fn next(&mut self) -> Option<&[B; 2]> {
        self.now = self.left.pop();
        self.now.as_ref()
    }

    /// The slice that is being read.
    pub(crate) fn now(&self) -> Option<&[B; 2]> {
        self.now.as_ref()
    }

    /// Ends the current slice: it was read to its end.
    pub(crate) fn finish_slice(&mut self) -> Option<[B; 2]> {
        self.now.take()
    }

    /// Cuts the current slice, on which the server gave up; it was read up to before `from`, where given. The rest
    /// is cut at the positions between its ends that `at` returns. False if there is none, or after too many cuts.
    pub(crate) fn cut(&mut self, from: Option<B>, at: impl FnOnce(&B, &B) -> Vec<B>) -> bool {
        let Some([start, end]) = self.now.take() else { return false };
        self.cuts += 1;
        let start = from.unwrap_or(start);
        if start >= end {
            return true;
        }
        let places = at(&start, &end);
        if places.is_empty() || self.cuts > self.most_cuts {
            return false;
        }
        self.push(start, end, places);
        true
    }

    /// Where the unread slices begin, the current one included.
    pub(crate) fn starts(&self) -> impl Iterator<Item = &B> {
        self.now.iter().chain(self.left.iter().rev()).map(|[start, _]| start)
    }

    /// Whether any slice was cut.
    pub(crate) fn is_cut(&self) -> bool {
        self.cuts > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_without_a_gap() {
        let mut cuts = Cuts::of(0, 100, [], 3);
        assert_eq!(cuts.next(), Some(&[0, 100]));
        assert!(cuts.cut(None, |_, _| vec![0, 40, 70, 100, 120]));
        assert_eq!(cuts.starts().copied().collect::<Vec<_>>(), [0, 40, 70]);
        assert_eq!(cuts.next(), Some(&[0, 40]));
        assert_eq!(cuts.finish_slice(), Some([0, 40]));
        assert_eq!(cuts.next(), Some(&[40, 70]));
        assert!(cuts.cut(Some(55), |start, end| vec![(start + end) / 2]));
        assert_eq!(cuts.next(), Some(&[55, 62]));
        assert_eq!(cuts.finish_slice(), Some([55, 62]));
        assert_eq!(cuts.next(), Some(&[62, 70]));
        assert!(!cuts.cut(None, |_, _| Vec::new()), "no place between");
        assert_eq!(cuts.next(), Some(&[70, 100]));
        assert!(cuts.is_cut());
        assert!(!cuts.cut(None, |_, _| vec![80]), "too many cuts");
        assert_eq!(cuts.next(), None);
        assert_eq!(Cuts::of(5, 5, [], 1).next(), None);
    }
}
