//! Times of repeated work.

use std::time::Duration;

/// The quantile `share` of the times in milliseconds; NaN if there are none.
pub fn quantile_ms(times: &[Duration], share: f64) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let at = (sorted.len().saturating_sub(1) as f64 * share) as usize;
    sorted.get(at).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
}
