//! What a query says beside its metrics: its times, its zone, and how long its answer may be kept.

use super::bean::{Bean, Length};
use crate::error::QueryError;
use crate::json::Json;
use crate::time::{self, Sampling, Zone};

/// What a query says beside its metrics.
#[derive(Debug, Default)]
pub(super) struct Head {
    pub(super) start: Times,
    pub(super) end: Times,
    pub(super) cache_time: i32,
    pub(super) zone: Option<Zone>,
}

/// A start or an end.
#[derive(Debug, Default)]
pub(super) struct Times {
    absolute: Option<i64>,
    relative: Option<Length>,
}

impl Times {
    /// The absolute time goes before the relative one.
    pub(super) fn resolve(&self, now: i64) -> Option<i64> {
        let relative = self.relative.as_ref().and_then(|length| length.sampling());
        self.absolute.or_else(|| relative.map(|length: Sampling| time::before(length, now)))
    }
}

impl Head {
    pub(super) fn read(members: &[(String, Json)]) -> Result<Self, QueryError> {
        let mut head = Self::default();
        for (name, value) in members {
            let bean = Bean { context: "query", property: name, value };
            match name.as_str() {
                "start_absolute" => head.start.absolute = bean.long()?,
                "end_absolute" => head.end.absolute = bean.long()?,
                "start_relative" => head.start.relative = bean.length()?,
                "end_relative" => head.end.relative = bean.length()?,
                "cache_time" => head.cache_time = bean.int()?.unwrap_or(0),
                "time_zone" => head.zone = bean.zone()?,
                _ => {}
            }
        }
        Ok(head)
    }

    pub(super) fn check(&self) -> Result<(), QueryError> {
        let mut messages = Vec::new();
        if self.cache_time < 0 {
            messages.push("cache_time must be greater than or equal to 0".to_owned());
        }
        for (name, times) in [("start_relative", &self.start), ("end_relative", &self.end)] {
            let violations = times.relative.iter().flat_map(Length::violations);
            messages.extend(violations.map(|violation| format!("{name}.{violation}")));
        }
        if messages.is_empty() { Ok(()) } else { Err(QueryError::Invalid(messages)) }
    }
}
