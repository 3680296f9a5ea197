//! The times at which an expression is evaluated.
//!
//! An instant query is a range query with one step. A subquery has steps of its own. Within one
//! evaluation a point is identified by the index of its step.

/// Evaluation times: `start`, `start + interval`, … up to `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Steps {
    /// The first time, in milliseconds.
    pub start: i64,
    /// No step is after this time; it need not be a step itself.
    pub end: i64,
    /// Milliseconds between two steps; above 0.
    pub interval: i64,
}

impl Steps {
    /// One step.
    pub fn instant(time: i64) -> Self {
        Self { start: time, end: time, interval: 1 }
    }

    /// How many steps there are.
    pub fn count(&self) -> usize {
        match self.end.checked_sub(self.start) {
            Some(width) if width >= 0 => (width / self.interval) as usize + 1,
            Some(_) => 0,
            None => usize::MAX,
        }
    }

    /// The time of a step.
    pub fn time(&self, step: usize) -> i64 {
        self.start + self.interval * step as i64
    }

    /// The time of the last step; `start` if there are no steps.
    pub fn last(&self) -> i64 {
        self.time(self.count().saturating_sub(1))
    }

    /// All times.
    pub fn times(self) -> impl Iterator<Item = i64> {
        (0..self.count()).map(move |step| self.time(step))
    }

    /// Only the first step.
    pub fn first(&self) -> Self {
        Self { end: self.start.min(self.end), ..*self }
    }

    /// Whether start and end are equal: how Prometheus recognizes an instant query.
    pub fn is_instant(&self) -> bool {
        self.start == self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_end_at_or_before_the_end() {
        let check = |start, end, interval, want: &[i64]| {
            let steps = Steps { start, end, interval };
            assert_eq!(steps.times().collect::<Vec<_>>(), want);
            assert_eq!(steps.last(), *want.last().unwrap_or(&start));
        };
        check(0, 25, 10, &[0, 10, 20]);
        check(-5, 5, 10, &[-5, 5]);
        check(7, 7, 10, &[7]);
        check(7, 6, 10, &[]);
    }
}
