//! What a query may cost: the limits of the settings, lowered by the limits of the request.
//!
//! A request cannot raise the limit of a setting: here the lower of both holds. The API refuses a request with a
//! higher limit. The cost of a query is counted in [`SampleCounts`](super::counts::SampleCounts).

use std::time::Duration;

use super::error::LimitSource;
use super::setting_names::{MAX_SAMPLES_READ, MAX_SERIES};
use super::settings::Settings;

/// Limits that a request sets for itself. They only lower the limits of the settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CostLimits {
    /// Most series of all selectors; 0 = the setting.
    pub series: u64,
    /// Most samples taken from the store; 0 = the setting.
    pub samples_read: u64,
    /// Longest time, including the time in the queue; 0 = the setting.
    pub duration: Duration,
}

/// A limit and its source.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit<T> {
    pub most: T,
    pub of: LimitSource,
}

/// How much a query may cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Longest time, including the time in the queue.
    pub duration: Limit<Duration>,
    /// Most series of all selectors, if limited.
    pub series: Option<Limit<u64>>,
    /// Most samples taken from the store, if limited.
    pub samples: Option<Limit<u64>>,
}

impl Limits {
    /// The limits of a query, from the settings, the `timeout` and the limits of its request.
    pub(crate) fn new(
        settings: &Settings,
        timeout: Option<Duration>,
        request: &CostLimits,
    ) -> Self {
        let (most, setting) = settings.longest();
        let mut duration = Limit { most, of: LimitSource::Setting(setting) };
        let own = Some(request.duration).filter(|own| !own.is_zero());
        for (most, name) in [(own, "max_query_duration"), (timeout, "timeout")] {
            if let Some(most) = most.filter(|most| *most < duration.most) {
                duration = Limit { most, of: LimitSource::Request(name) };
            }
        }
        Self {
            duration,
            series: lower(settings.max_series, MAX_SERIES, request.series, "max_series"),
            samples: lower(
                settings.max_samples_read,
                MAX_SAMPLES_READ,
                request.samples_read,
                "max_samples_read",
            ),
        }
    }
}

/// The lower of two limits; 0 is no limit.
fn lower(
    setting: u64,
    setting_name: &'static str,
    request: u64,
    parameter: &'static str,
) -> Option<Limit<u64>> {
    match (setting, request) {
        (0, 0) => None,
        (most, 0) => Some(Limit { most, of: LimitSource::Setting(setting_name) }),
        (most, own) if most != 0 && most <= own => {
            Some(Limit { most, of: LimitSource::Setting(setting_name) })
        }
        (_, most) => Some(Limit { most, of: LimitSource::Request(parameter) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_only_lowers_limits() {
        let seconds = Duration::from_secs;
        let check = |setting: (u64, u64), request: (u64, u64), timeout: u64, want: (u64, u64)| {
            let settings = Settings {
                timeout: seconds(100),
                max_duration: seconds(setting.1),
                max_series: setting.0,
                max_samples_read: setting.0,
                ..Settings::default()
            };
            let own = CostLimits {
                series: request.0,
                samples_read: request.0,
                duration: seconds(request.1),
            };
            let limits = Limits::new(&settings, Some(seconds(timeout)), &own);
            let most = |limit: Option<Limit<u64>>| limit.map_or(0, |limit| limit.most);
            assert_eq!((most(limits.series), most(limits.samples)), (want.0, want.0));
            assert_eq!(limits.duration.most, seconds(want.1), "{limits:?}");
        };
        check((0, 0), (0, 0), 200, (0, 100));
        check((7, 0), (0, 0), 200, (7, 100));
        check((7, 0), (9, 150), 200, (7, 100));
        check((7, 0), (5, 50), 200, (5, 50));
        check((0, 0), (5, 50), 20, (5, 20));
        // `query-max-duration` replaces the time-out.
        check((7, 150), (0, 0), 200, (7, 150));
        check((7, 10), (0, 20), 200, (7, 10));
    }
}
