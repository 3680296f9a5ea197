//! A histogram as text, as `count_values` uses it as a label value.

use std::fmt;

use super::float::FloatHistogram;
use super::iterate::{Bucket, BucketRule};
use crate::format::general;

impl fmt::Display for FloatHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{count:{}, sum:{}", general(self.count), general(self.sum))?;
        let zero = Some(self.zero_bucket());
        for bucket in self.full_buckets(zero).filter(|bucket| bucket.count != 0.0) {
            write!(f, ", {bucket}")?;
        }
        f.write_str("}")
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (open, close) = match self.rule {
            BucketRule::OpenLeft => ('(', ']'),
            BucketRule::OpenRight => ('[', ')'),
            BucketRule::OpenBoth => ('(', ')'),
            BucketRule::ClosedBoth => ('[', ']'),
        };
        let (lower, upper, count) = (general(self.lower), general(self.upper), general(self.count));
        write!(f, "{open}{lower},{upper}{close}:{count}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::{custom, positive};

    #[test]
    fn buckets_that_hold_something_in_order() {
        let mut h = positive(0, 0, &[3.0, 0.0, 1234567.5], 1e6);
        h.negative = [(1, 2.0)].into_iter().collect();
        (h.zero_count, h.zero_threshold) = (1.0, 1e-5);
        h.count = 25.0;
        let want =
            "{count:25, sum:1e+06, [-2,-1):2, [-1e-05,1e-05]:1, (0.5,1]:3, (2,4]:1.2345675e+06}";
        assert_eq!(h.to_string(), want);
        let want = "{count:3, sum:5, [-Inf,1]:1, (1,+Inf]:2}";
        assert_eq!(custom(&[1.0], &[1.0, 2.0], 5.0).to_string(), want);
    }
}
