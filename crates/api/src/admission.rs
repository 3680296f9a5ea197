//! Permits for requests whose whole answer is in memory: labels, series, metadata and the like. A
//! limited number runs at a time; others wait for a limited time.
//!
//! Changed settings create new permits. Running and waiting requests keep the ones they started with,
//! and share nothing with new requests.

use std::sync::Arc;

use tokio::time::Instant;

use super::ApiError;
use super::settings::ListLimits;
use promkairos_storage::{NoPermit, Permit, Permits};
use promkairos_telemetry::LimitMetrics;

/// The setting that limits concurrent requests.
const AT_ONCE: &str = "label-max-concurrency";
/// The setting that limits the wait.
const WAIT: &str = "label-max-wait";

/// The permits, and the limits of an answer.
pub(super) struct ListPermits {
    pub(super) limits: ListLimits,
    permits: Permits,
}

/// A permit, held until all its clones are dropped.
pub(super) type ListPermit = Arc<Permit>;

impl ListPermits {
    pub(super) fn new(limits: ListLimits) -> Self {
        Self { limits, permits: Permits::new(WAIT, limits.at_once) }
    }

    /// Waits for a permit.
    pub(super) async fn take(&self, metrics: &LimitMetrics) -> Result<ListPermit, ApiError> {
        let ListLimits { at_once, wait, .. } = self.limits;
        let permit = self.permits.take(1, Instant::now() + wait).await;
        let permit = permit.map_err(|NoPermit { setting }| {
            let what = format!(
                "no permit within {wait:?}, which is the setting {setting}: too many requests for labels, series and \
                 the like, of which {at_once} run at a time, which is the setting {AT_ONCE}"
            );
            ApiError::busy(metrics, setting, what)
        })?;
        Ok(Arc::new(permit))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::body::{Body, to_bytes};
    use axum::extract::Request;
    use axum::http::header;
    use tower::Service;

    use super::super::{AppState, LimitsConfig, router};
    use super::*;
    use promkairos_storage::memory::MemoryStore;
    use promkairos_telemetry::Metrics;

    fn limits(wait: Duration) -> LimitsConfig {
        let lists = ListLimits { at_once: 1, wait, ..ListLimits::default() };
        LimitsConfig { lists, ..LimitsConfig::default() }
    }

    /// Status, `Retry-After` and text of an answer.
    async fn ask(state: &Arc<AppState>, path: &str) -> (u16, Option<String>, String) {
        let request = Request::get(path).body(Body::empty()).expect("a request");
        let answer = router(state.clone()).call(request).await.expect("infallible");
        let after = answer.headers().get(header::RETRY_AFTER);
        let after = after.map(|value| value.to_str().expect("ascii").to_owned());
        let status = answer.status().as_u16();
        let text = to_bytes(answer.into_body(), 1 << 20).await.expect("whole");
        (status, after, String::from_utf8(text.into()).expect("UTF-8"))
    }

    #[tokio::test]
    async fn who_finds_no_turn_in_time_is_told_the_settings_and_counted() {
        let metrics = Arc::new(Metrics::new());
        let state = Arc::new(AppState::new(metrics.clone()));
        state.open(Arc::new(MemoryStore::new()));
        state.set_limits(&limits(Duration::from_millis(1)));
        let before = state.turns();
        let held = before.take(&metrics.http.limits).await.expect("the first");
        let counted = |times: u64| {
            let line =
                format!("promkairos_limits_reached_total{{limit=\"label-max-wait\"}} {times}\n");
            assert!(metrics.encode().contains(&line), "{line}");
        };
        for (times, path) in (1..).zip(["/api/v1/labels", "/api/v1/metadata"]) {
            let (status, after, text) = ask(&state, path).await;
            assert_eq!((status, after.as_deref()), (503, Some("5")), "{text}");
            let why = "no permit within 1ms, which is the setting label-max-wait: too many requests for \
                       labels, series and the like, of which 1 run at a time, which is the setting \
                       label-max-concurrency";
            assert!(text.contains(why), "{text}");
            counted(times);
        }
        // The same settings create no new permits.
        state.set_limits(&limits(Duration::from_millis(1)));
        assert_eq!(ask(&state, "/api/v1/labels").await.0, 503);
        counted(3);
        // New permits are in force, and the request before still holds an old one.
        state.set_limits(&limits(Duration::from_secs(3_600)));
        assert_eq!(ask(&state, "/api/v1/labels").await.0, 200);
        drop(held);
        assert_eq!(before.limits.wait, Duration::from_millis(1));
        assert_eq!(before.permits.free(), 1);
    }
}
