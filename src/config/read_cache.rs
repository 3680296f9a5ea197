//! Settings of the read cache of the Cassandra store.

use std::time::Duration;

use super::error::ConfigError;
use super::raw::Raw;
use crate::storage::cassandra::{LEAST_SETTLED_AFTER, MOST_CACHE_AGE};

/// First maximum age of an entry. A dashboard that is opened again finds the entry, and what a
/// KairosDB writes late is seen soon.
pub const FIRST_CACHE_AGE: Duration = Duration::from_secs(10);

/// Size of the read cache, the age from which points are kept, and how long entries are used.
#[derive(Debug, Clone)]
pub struct ReadCacheConfig {
    /// Bytes of its files; more than 0.
    pub bytes: u64,
    /// Age from which points are kept; at least [`LEAST_SETTLED_AFTER`].
    pub settled_after: Duration,
    /// How long an entry is used; at most [`MOST_CACHE_AGE`].
    pub max_age: Duration,
}

impl ReadCacheConfig {
    /// `None` = the cache is off.
    pub(super) fn from_raw(raw: &Raw) -> Result<Option<Self>, ConfigError> {
        const SIZE: &str = "cassandra-read-cache-size";
        const SETTLED_AFTER: &str = "cassandra-read-cache-settled-after";
        const MAX_AGE: &str = "cassandra-read-cache-max-age";
        let bytes = raw.size(SIZE)?;
        let settled_after = raw.duration(SETTLED_AFTER)?;
        if settled_after < LEAST_SETTLED_AFTER {
            return Err(raw.refuse(SETTLED_AFTER, "must be at least 10m"));
        }
        let max_age = raw.duration(MAX_AGE)?;
        if max_age.is_zero() || max_age > MOST_CACHE_AGE {
            return Err(raw.refuse(MAX_AGE, "must be more than 0 and at most 24h"));
        }
        Ok((bytes > 0).then_some(Self { bytes, settled_after, max_age }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::load_cassandra;
    use super::*;

    fn load(settings: &[&str]) -> Result<Option<ReadCacheConfig>, String> {
        load_cassandra(settings).map(|config| config.read_cache)
    }

    #[test]
    fn it_is_on_and_can_be_switched_off() {
        let hour = Duration::from_secs(3600);
        let config = load(&[]).expect("valid").expect("on");
        assert_eq!((config.bytes, config.settled_after, config.max_age), (1 << 30, 2 * hour, hour));
        assert!(load(&["--cassandra-read-cache-size=0"]).expect("valid").is_none());
    }

    #[test]
    fn what_other_writers_do_not_count_on_is_refused() {
        for (setting, value, why) in [
            ("settled-after", "9m", "at least 10m"),
            ("max-age", "25h", "at most 24h"),
            ("max-age", "0", "more than 0"),
            ("size", "much", "much"),
        ] {
            let error = load(&[&format!("--cassandra-read-cache-{setting}={value}")]);
            let error = error.map(drop).expect_err("refused");
            assert!(error.contains(setting) && error.contains(why), "{error}");
        }
        assert!(load(&["--cassandra-read-cache-settled-after=10m"]).is_ok());
        assert!(load(&["--cassandra-read-cache-max-age=24h"]).is_ok());
    }
}
