//! Times of repeated work as JSON.

use std::time::Duration;

/// Least and median in milliseconds; null when there is none.
pub fn summary(times: &[Duration]) -> serde_json::Value {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let at = |share: f64| sorted[((sorted.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    match sorted.is_empty() {
        true => serde_json::Value::Null,
        false => serde_json::json!({ "least": at(0.0), "median": at(0.5), "most": at(1.0) }),
    }
}
