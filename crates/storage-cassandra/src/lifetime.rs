//! How long data and index rows live: one TTL for all metrics, other TTLs by patterns of names.
//!
//! Of several patterns that match a metric the longest applies; of equally long ones, the first in
//! the order of their bytes. A metric has one TTL, so a window has one too. Its index rows get that
//! TTL plus the row width, as far as Cassandra accepts it, and never less than the data.
//! `index::writer` writes rows again when a TTL has grown.

use std::cmp::Reverse;
use std::collections::HashMap;

use scylla::client::session::Session;

use crate::options::{Options, OptionsError};
use crate::plan::Plan;
use promkairos_kairos::RowSpec;
use promkairos_model::limits::MAX_TTL_SECONDS;
use promkairos_model::{METRIC_NAME, MatchOp, Matcher};
use promkairos_storage::Result;

/// When a row expires, in seconds since 1970.
pub(crate) type Expiry = i64;
/// The row does not expire.
pub(crate) const NEVER: Expiry = i64::MAX;
/// The last expiry, in seconds since 1970, that 32 bits hold: 2038-01-19.
const LAST_SECOND: Expiry = i32::MAX as i64 - 1;

/// How far clocks may differ, in seconds, the time of a statement to Cassandra included. Rows written
/// ahead get this much more than they need, so that a process with another clock does not write them
/// again.
const MARGIN: i64 = 600;
/// The latest expiry of an index row. Cassandra adds the TTL to its own clock, and refuses the row if
/// the sum is after [`LAST_SECOND`].
const LAST_OF_INDEX: Expiry = LAST_SECOND - MARGIN;

/// The TTLs of a keyspace.
#[derive(Debug)]
pub(crate) struct Lifetimes {
    /// Seconds; 0 = for ever.
    of_others: u32,
    /// The first pattern that matches applies.
    patterns: Vec<(Matcher, u32)>,
    /// Seconds that index rows live longer than data.
    index_extra: i64,
    /// Seconds of data in a row.
    width: i64,
    /// No index row may expire later, unless its data does.
    last: Expiry,
    /// The server's `storage_compatibility_mode`, where known.
    mode: Option<String>,
}

impl Lifetimes {
    /// Refuses invalid patterns, and TTLs that no Cassandra accepts.
    pub(crate) fn new(options: &Options) -> Result<Self, OptionsError> {
        let lifetimes = Self {
            of_others: options.ttl_seconds,
            patterns: patterns(&options.ttl_by_metric)?,
            index_extra: options.row_spec.index_ttl_seconds(),
            width: options.row_spec.width() / 1000,
            last: NEVER,
            mode: None,
        };
        lifetimes.checked()
    }

    /// The same keyspace with other TTLs from `now` (seconds since 1970) on. Refuses TTLs that the
    /// server would refuse.
    pub(crate) fn renewed(
        &self,
        of_others: u32,
        by_metric: &[(String, u32)],
        now: i64,
    ) -> Result<Self, OptionsError> {
        let (patterns, mode) = (patterns(by_metric)?, self.mode.clone());
        let renewed = Self { of_others, patterns, mode, last: NEVER, ..*self };
        let mut renewed = renewed.checked()?;
        renewed.limit(now)?;
        Ok(renewed)
    }

    /// Refuses TTLs that no Cassandra accepts.
    fn checked(self) -> Result<Self, OptionsError> {
        match self.longest() {
            Some(ttl) if i64::from(ttl) > MAX_TTL_SECONDS => Err(OptionsError::Ttl(ttl)),
            _ => Ok(self),
        }
    }

    /// Sets the row width of the keyspace that was opened.
    pub(crate) fn cut_by(&mut self, spec: RowSpec) {
        self.index_extra = spec.index_ttl_seconds();
        self.width = spec.width() / 1000;
    }

    /// The longest TTL, except for ever.
    fn longest(&self) -> Option<u32> {
        let all = self.patterns.iter().map(|(_, ttl)| *ttl).chain([self.of_others]);
        all.max().filter(|ttl| *ttl > 0)
    }

    /// Applies the server's limit on expiries; `now` is in seconds since 1970.
    fn limit(&mut self, now: i64) -> Result<(), OptionsError> {
        let mode = self.mode.as_deref();
        let Some(longest) = self.longest().filter(|_| mode != Some("NONE")) else { return Ok(()) };
        match (now + i64::from(longest) > LAST_SECOND, mode) {
            (false, _) => self.last = LAST_OF_INDEX,
            (true, Some(mode)) => return Err(OptionsError::TtlBeyond2038(longest, mode.into())),
            (true, None) => tracing::warn!(
                ttl_seconds = longest,
                "rows would expire after 2038-01-19: Cassandra refuses that unless its \
                 storage_compatibility_mode is NONE"
            ),
        }
        Ok(())
    }

    /// Asks the server how late rows may expire, and refuses TTLs that it would refuse.
    pub(crate) async fn ask(&mut self, session: &Session, now: i64) -> Result<(), OptionsError> {
        self.mode = compatibility_mode(session).await;
        self.limit(now)
    }

    /// The TTL of a metric's data in seconds; 0 = for ever.
    pub(crate) fn of(&self, metric: &str) -> u32 {
        let found = self.patterns.iter().find(|(pattern, _)| pattern.matches(metric));
        found.map_or(self.of_others, |(_, ttl)| *ttl)
    }

    /// The TTL of each series of a plan.
    pub(crate) fn of_series(&self, plan: &Plan) -> Vec<u32> {
        if self.patterns.is_empty() {
            return vec![self.of_others; plan.series.len()];
        }
        let mut known: HashMap<&str, u32> = HashMap::new();
        let metrics = plan.series.iter().map(|series| series.metric());
        metrics.map(|metric| *known.entry(metric).or_insert_with(|| self.of(metric))).collect()
    }

    /// TTL and expiry of an index row that is written now over data with this TTL; `now` is in
    /// seconds since 1970.
    pub(crate) fn of_index(&self, ttl: u32, over: Over, now: i64) -> (i32, Expiry) {
        if ttl == 0 {
            return (0, NEVER);
        }
        let extra = match over {
            Over::Accepted => self.index_extra,
            Over::Window { begins_in } => self.index_extra + begins_in + MARGIN,
        };
        let room = self.last.saturating_sub(now).max(ttl.into());
        let ttl = i64::from(ttl).saturating_add(extra).min(MAX_TTL_SECONDS).min(room);
        (i32::try_from(ttl).unwrap_or(i32::MAX), now + ttl)
    }

    /// Until when index rows over data with this TTL must last, as far as Cassandra accepts it.
    pub(crate) fn index_needed(&self, ttl: u32, over: Over, now: i64) -> Expiry {
        let last = match (ttl, over) {
            (0, _) => return NEVER,
            (_, Over::Accepted) => now,
            (_, Over::Window { begins_in }) => now + begins_in + self.width,
        };
        // The expiry that a row can get is enough, minus what differences between clocks may cost.
        let most = self.of_index(ttl, over, now).1 - MARGIN;
        (last + i64::from(ttl)).min(most.max(now + i64::from(ttl)))
    }
}

/// The patterns in the order in which they are tried.
fn patterns(by_metric: &[(String, u32)]) -> Result<Vec<(Matcher, u32)>, OptionsError> {
    let mut sorted: Vec<&(String, u32)> = by_metric.iter().collect();
    sorted.sort_by_key(|(pattern, _)| (Reverse(pattern.len()), pattern));
    let compiled = sorted.into_iter().map(|(pattern, ttl)| {
        let matcher = Matcher::new(MatchOp::Regex, METRIC_NAME, pattern)
            .map_err(|error| OptionsError::TtlPattern(pattern.clone(), error.to_string()))?;
        Ok((matcher, *ttl))
    });
    compiled.collect()
}

/// The data that index rows lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    /// Data that is accepted now.
    Accepted,
    /// All data that is accepted in a window that begins in this many seconds.
    Window { begins_in: i64 },
}

/// The TTL to send for a cell that was accepted at `stamp`, in milliseconds: 0 = none. None when
/// the cell has expired already.
pub(crate) fn ttl_left(ttl_seconds: u32, now: i64, stamp: i64) -> Option<i32> {
    if ttl_seconds == 0 {
        return Some(0);
    }
    let age = now.saturating_sub(stamp).max(0) / 1000;
    let left = i64::from(ttl_seconds) - age;
    if left > 0 { i32::try_from(left).ok() } else { None }
}

/// The latest expiry of an index row that is safe on this server. A server that does not say that it holds later
/// expiries may refuse them.
pub(crate) async fn last_expiry(session: &Session) -> Expiry {
    match compatibility_mode(session).await.as_deref() {
        Some("NONE") => NEVER,
        _ => LAST_OF_INDEX,
    }
}

/// The mode of a Cassandra 5, which returns null for its default; None from older versions and ScyllaDB.
async fn compatibility_mode(session: &Session) -> Option<String> {
    let cql = "SELECT value FROM system_views.settings WHERE name = 'storage_compatibility_mode'";
    let result = session.query_unpaged(cql, &[]).await.ok()?.into_rows_result().ok()?;
    let (mode,) = result.maybe_first_row::<(Option<String>,)>().ok()??;
    Some(mode.unwrap_or_else(|| "CASSANDRA_4".into()))
}

/// Refuses settings that are known to be wrong without asking Cassandra: the times to live.
pub fn check(options: &Options) -> Result<()> {
    Ok(Lifetimes::new(options).map(drop)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u32 = 86_400;

    fn lifetimes(ttl_seconds: u32, patterns: &[(&str, u32)]) -> Result<Lifetimes, OptionsError> {
        let ttl_by_metric = patterns.iter().map(|(p, ttl)| ((*p).to_owned(), *ttl)).collect();
        let options = Options { ttl_seconds, ttl_by_metric, ..Options::default() };
        Lifetimes::new(&options)
    }

    #[test]
    fn the_longest_pattern_that_matches_holds() {
        let ttls = [("node_.*", 90), ("node_debug_.*", 1), ("a|b", 7), ("up", 0), (".p", 5)];
        let ttls = lifetimes(30, &ttls).expect("valid");
        for (metric, want) in [
            ("node_load1", 90),
            ("node_debug_x", 1),
            ("my_node_x", 30),
            ("a", 7),
            ("ab", 30),
            ("up", 5),
            ("", 30),
        ] {
            assert_eq!(ttls.of(metric), want, "{metric}");
        }
    }

    #[test]
    fn what_no_cassandra_takes_is_refused() {
        let years = 20 * 365 * DAY;
        assert!(lifetimes(years, &[]).is_ok());
        for ttls in [lifetimes(years + 1, &[]), lifetimes(0, &[("a", 7), ("b", years + 1)])] {
            assert_eq!(ttls.map(drop), Err(OptionsError::Ttl(years + 1)));
        }
        let error = lifetimes(0, &[("a(", 7)]).map(drop).expect_err("refused");
        assert!(error.to_string().contains("\"a(\""), "{error}");
    }

    #[test]
    fn what_this_cassandra_refuses_is_refused() {
        let now = LAST_SECOND - i64::from(DAY);
        let check = |ttl, mode: Option<&str>| {
            let ttls = Lifetimes { mode: mode.map(str::to_owned), ..lifetimes(0, &[("m", ttl)])? };
            // A change at run time is refused like at the start.
            let [mut begun, running] = [ttls, lifetimes(5, &[])?];
            let running = Lifetimes { mode: begun.mode.clone(), ..running };
            let renewed = running.renewed(0, &[("m".to_owned(), ttl)], now).map(drop);
            assert_eq!(begun.limit(now), renewed);
            renewed
        };
        let refused = OptionsError::TtlBeyond2038(DAY + 1, "CASSANDRA_4".into());
        assert_eq!(check(DAY + 1, Some("CASSANDRA_4")), Err(refused));
        assert_eq!(check(DAY, Some("CASSANDRA_4")), Ok(()));
        assert_eq!(check(DAY + 1, Some("NONE")), Ok(()));
        assert_eq!(check(DAY + 1, None), Ok(()));
    }

    #[test]
    fn other_lifetimes_hold_for_what_comes() {
        let before = lifetimes(30, &[("a.*", 7)]).expect("valid");
        let after = before.renewed(60, &[("b.*".to_owned(), 9)], 0).expect("valid");
        assert_eq!(["a1", "b1"].map(|metric| before.of(metric)), [7, 30]);
        assert_eq!(["a1", "b1"].map(|metric| after.of(metric)), [60, 9]);
        let too_long = 20 * 365 * DAY + 1;
        let refused = before.renewed(too_long, &[], 0).map(drop);
        assert_eq!(refused, Err(OptionsError::Ttl(too_long)));
    }

    #[test]
    fn index_rows_outlive_data_as_far_as_cassandra_takes_it() {
        let width = RowSpec::DEFAULT.index_ttl_seconds();
        let check = |mode: Option<&str>, now, want: i64| {
            let mut ttls = lifetimes(DAY, &[]).expect("valid");
            ttls.mode = mode.map(str::to_owned);
            ttls.limit(now).expect("taken");
            let (ttl, expiry) = ttls.of_index(DAY, Over::Accepted, now);
            assert_eq!((i64::from(ttl), expiry), (want, now + want), "{mode:?} {now}");
            assert!(expiry >= ttls.index_needed(DAY, Over::Accepted, now));
        };
        let whole = i64::from(DAY) + width;
        for mode in [Some("NONE"), Some("CASSANDRA_4"), None] {
            check(mode, 0, whole);
        }
        check(Some("NONE"), LAST_SECOND - whole + 5, whole);
        check(Some("CASSANDRA_4"), LAST_SECOND - whole + 5, whole - 5 - MARGIN);
        check(None, LAST_SECOND, whole);
        let ever = lifetimes(0, &[]).expect("valid");
        let (over, ahead) = (Over::Accepted, Over::Window { begins_in: 7 });
        assert_eq!((ever.of_index(0, over, 5), ever.index_needed(0, over, 5)), ((0, NEVER), NEVER));
        assert_eq!(
            (ever.of_index(0, ahead, 5), ever.index_needed(0, ahead, 5)),
            ((0, NEVER), NEVER)
        );
    }

    #[test]
    fn a_clock_of_cassandra_that_is_later_refuses_no_index_row() {
        let width = RowSpec::DEFAULT.index_ttl_seconds();
        let mut ttls = lifetimes(DAY, &[]).expect("valid");
        ttls.mode = Some("CASSANDRA_4".to_owned());
        for before in (0..2 * width).step_by(977) {
            let now = LAST_SECOND - i64::from(DAY) - MARGIN - before;
            ttls.limit(now).expect("taken");
            for over in [Over::Accepted, Over::Window { begins_in: 3_600 }] {
                let (ttl, _) = ttls.of_index(DAY, over, now);
                assert!(now + MARGIN + i64::from(ttl) <= LAST_SECOND, "{before}");
                assert!(ttl >= DAY as i32, "{before}");
            }
        }
    }

    #[test]
    fn index_rows_written_ahead_last_for_all_data_of_their_window() {
        let width = RowSpec::DEFAULT.width() / 1000;
        let check = |now, last| {
            let mut ttls = lifetimes(DAY, &[]).expect("valid");
            ttls.last = last;
            let over = Over::Window { begins_in: 3_600 };
            let (_, expiry) = ttls.of_index(DAY, over, now);
            // Another process with another clock, later, still finds nothing to write.
            for later in 0..3_600 {
                let over = Over::Window { begins_in: 3_600 - later };
                assert!(expiry - 2 >= ttls.index_needed(DAY, over, now + later), "{later}");
            }
            (expiry, ttls.index_needed(DAY, Over::Accepted, now + 3_600 + width))
        };
        let (expiry, needed) = check(0, NEVER);
        assert!(expiry - 2 >= needed, "the last data of the window asks for no new row");
        // No later than Cassandra accepts, and not repeatedly.
        assert_eq!(check(LAST_SECOND - width, LAST_SECOND).0, LAST_SECOND);
    }

    #[test]
    fn ttl_shrinks_with_age() {
        for (ttl, age_ms, want) in [
            (0, 1 << 40, Some(0)),
            (60, 0, Some(60)),
            (60, 999, Some(60)),
            (60, 59_999, Some(1)),
            (60, 60_000, None),
            (60, -5_000, Some(60)),
        ] {
            assert_eq!(ttl_left(ttl, 1 << 41, (1 << 41) - age_ms), want, "{ttl} {age_ms}");
        }
    }
}
