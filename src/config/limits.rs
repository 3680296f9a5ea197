//! Makes the limits of requests from the settings of `settings::limits`.

use super::error::ConfigError;
use super::memory::MemoryConfig;
use super::raw::Raw;
use crate::api::{LimitsConfig, ListLimits};
use crate::ingest::{SeriesAnswer, WriteLimits};
use crate::limits::LABEL_LIMITS;
use crate::model::{LabelLimits, MAX_SAMPLE_AGE, MAX_SAMPLE_LEAD, ShownSize, TimeLimits};

/// The limits of requests.
pub(super) fn from_raw(raw: &Raw, memory: &MemoryConfig) -> Result<LimitsConfig, ConfigError> {
    Ok(LimitsConfig {
        requests: raw.count("max-concurrent-requests", 1)?,
        body_timeout: raw.positive("http-body-timeout")?,
        answer_timeout: raw.positive("http-answer-timeout")?,
        reads: raw.count("remote-read-max-concurrency", 1)?,
        lists: lists(raw, memory)?,
        writes: writes(raw, memory)?,
    })
}

fn lists(raw: &Raw, memory: &MemoryConfig) -> Result<ListLimits, ConfigError> {
    const SIZE: &str = "max-label-results-size";
    // An item that does not fit would hide all items after it.
    const LEAST: usize = 2 * LABEL_LIMITS.total_bytes;
    const AT_ONCE: &str = "label-max-concurrency";
    let at_once = raw.count(AT_ONCE, 1)?;
    let most = memory.queries() / at_once as u64;
    if most < LEAST as u64 {
        let least = ShownSize::of(LEAST);
        let why = format!("as many answers of {least} must fit into half of memory-limit");
        return Err(raw.refuse(AT_ONCE, why));
    }
    let share = memory.list().clamp(LEAST as u64, most);
    let bytes = memory.size_or(raw, SIZE, share, at_once)?;
    if bytes < LEAST {
        return Err(raw.refuse(SIZE, format!("must be at least {}", ShownSize::of(LEAST))));
    }
    Ok(ListLimits {
        results: raw.count("max-label-results", 1)?,
        bytes,
        at_once,
        wait: raw.positive("label-max-wait")?,
    })
}

fn writes(raw: &Raw, memory: &MemoryConfig) -> Result<WriteLimits, ConfigError> {
    let size = |name| raw.size(name).map(|bytes| bytes as usize);
    let unless_zero = |name| raw.number::<u32>(name, 0).map(|count| (count > 0).then_some(count));
    Ok(WriteLimits {
        body_bytes: size("max-request-body-size")?,
        decoded_bytes: size("max-decoded-body-size")?,
        series_per_request: raw.count("max-series-per-request", 1)?,
        samples_per_request: raw.count("max-samples-per-request", 1)?,
        sample_times: TimeLimits {
            age: raw.unless_zero(MAX_SAMPLE_AGE)?,
            lead: raw.unless_zero(MAX_SAMPLE_LEAD)?,
            // Depends on the store.
            retention: None,
        },
        labels: LabelLimits {
            labels: raw.count("max-labels-per-series", 1)?,
            name_bytes: size("max-label-name-size")?,
            value_bytes: size("max-label-value-size")?,
            total_bytes: size("max-labels-size")?,
        },
        active_series: unless_zero("max-active-series")?,
        active_series_per_metric: unless_zero("max-active-series-per-metric")?,
        metadata_bytes: memory.size_or(
            raw,
            "max-metadata-size",
            memory.metadata(),
            METADATA_COPIES,
        )?,
        series_answer: match raw.word("series-limit-answer")? {
            "429" => SeriesAnswer::Retry,
            _ => SeriesAnswer::Drop,
        },
        samples_per_second: unless_zero("max-samples-per-second")?,
    })
}

/// During a flush the old metadata, the new and what arrives meanwhile are all in memory.
pub const METADATA_COPIES: usize = 4;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::http::HttpConfig;
    use super::super::root::Config;
    use super::super::testing::load;
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_program() {
        let config = load(&[]).expect("valid");
        assert_eq!(config.http, HttpConfig::default());
        assert_eq!(config.limits, LimitsConfig::default());
    }

    #[test]
    fn what_is_said_holds() {
        let config = load(&[
            "--max-active-series=1000000",
            "--max-active-series-per-metric=5000",
            "--series-limit-answer=429",
            "--max-sample-age=2y",
            "--max-sample-lead=3000y",
            "--max-request-body-size=1MiB",
            "--max-decoded-body-size=2MiB",
            "--max-labels-per-series=30",
            "--max-labels-size=4KiB",
            "--max-connections=9",
            "--http-answer-timeout=5s",
            "--remote-read-max-concurrency=3",
            "--max-label-results=7",
            "--max-label-results-size=1MiB",
            "--max-metadata-size=3MiB",
            "--label-max-concurrency=2",
            "--label-max-wait=3s",
        ]);
        let Config { http, limits, .. } = config.expect("valid");
        let answer_timeout = Duration::from_secs(5);
        let want = HttpConfig { connections: 9, answer_timeout, ..HttpConfig::default() };
        assert_eq!((http, limits.reads, limits.answer_timeout), (want, 3, answer_timeout));
        let lists =
            ListLimits { results: 7, bytes: 1 << 20, at_once: 2, wait: Duration::from_secs(3) };
        assert_eq!(limits.lists, lists);
        assert_eq!(limits.writes.active_series, Some(1_000_000));
        assert_eq!(limits.writes.active_series_per_metric, Some(5_000));
        assert_eq!(limits.writes.metadata_bytes, 3 << 20);
        assert_eq!(limits.writes.series_answer, SeriesAnswer::Retry);
        let years = |years: u64| Some(Duration::from_secs(years * 365 * 86_400));
        let times = TimeLimits { age: years(2), lead: years(3_000), retention: None };
        assert_eq!(limits.writes.sample_times, times);
        let any = load(&["--max-sample-age=0", "--max-sample-lead=0"]).expect("valid");
        assert_eq!(any.limits.writes.sample_times, TimeLimits::default());
        let labels = limits.writes.labels;
        assert_eq!((labels.labels, labels.total_bytes), (30, 4 << 10));
        assert_eq!((limits.writes.body_bytes, limits.writes.decoded_bytes), (1 << 20, 2 << 20));
    }

    #[test]
    fn what_no_limit_can_be() {
        let check = |argument: &str, want: &str| {
            assert_eq!(load(&[argument]).err().as_deref(), Some(want), "{argument}");
        };
        check(
            "--max-connections=0",
            "--max-connections \"0\": must be a whole number of at least 1",
        );
        check(
            "--label-max-concurrency=4000000000",
            "--label-max-concurrency \"4000000000\": as many answers of 64KiB must fit into half \
             of memory-limit",
        );
        check(
            "--max-sample-lead=1",
            "--max-sample-lead \"1\": not a duration; write it as 15s, 2h, 1h30m or 2y (units: ms s m h d w y)",
        );
        check("--label-max-wait=0", "--label-max-wait \"0\": must be more than 0");
        check(
            "--max-label-results-size=65535B",
            "--max-label-results-size \"65535B\": must be at least 64KiB",
        );
        check("--http-body-timeout=0", "--http-body-timeout \"0\": must be more than 0");
        check("--max-http2-streams=4294967296", "--max-http2-streams \"4294967296\": is too large");
        check(
            "--max-samples-per-request=2000000",
            "--max-samples-per-request \"2000000\": must be at most 1048576",
        );
        check(
            "--max-request-body-size=64MiB",
            "--max-request-body-size \"64MiB\": must be at least 1KiB, at most 32MiB",
        );
        check(
            "--max-decoded-body-size=33MiB",
            "--max-decoded-body-size \"33MiB\": must be at least 1KiB, at most 32MiB",
        );
        check(
            "--max-labels-size=15B",
            "--max-labels-size \"15B\": must be at least 16 bytes, at most 32KiB",
        );
        check(
            "--series-limit-answer=500",
            "--series-limit-answer \"500\": must be one of 400, 429",
        );
    }
}
