//! Points of the source outside of the years 1 to 9999: counted, never copied. A KairosDB takes them, for instance
//! where a sender has microseconds for milliseconds; no promkairos does.
//!
//! Only looked for where the job has no first or no last time: what lies beyond one that a user named is not asked for.

use serde::{Deserialize, Serialize};

use super::left_out::{LeftOut, TIME};
use super::progress::Position;
use super::side::Side;
use super::{CopyError, Job};
use crate::model::{MAX_TIMESTAMP, MIN_TIMESTAMP, ShownTime, TimeRange};

/// How far the look has come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Outside {
    /// 0 = before the year 1, 1 = behind the year 9999, 2 = done.
    part: u8,
    position: Position,
}

impl Outside {
    /// Looks at a selector in one part, and adds what is there to `left_out`. Answers whether nothing was left to look
    /// at.
    pub(super) async fn step(
        &mut self,
        from: &Side,
        job: &Job,
        left_out: &mut LeftOut,
    ) -> Result<bool, CopyError> {
        let range = match self.part {
            0 if job.range.start == MIN_TIMESTAMP => TimeRange::new(FIRST, MIN_TIMESTAMP - 1),
            1 if job.range.end == MAX_TIMESTAMP => TimeRange::new(MAX_TIMESTAMP + 1, LAST),
            0 | 1 => {
                self.part += 1;
                return Ok(false);
            }
            _ => return Ok(true),
        };
        let at = self.position.selector;
        let Some(selector) = job.selectors.get(at) else {
            (self.part, self.position) = (self.part + 1, Position::default());
            return Ok(false);
        };
        let mut runs = from.runs(selector, range, self.position.after()?).await?;
        while let Some(run) = runs.next().await? {
            for (labels, chunks) in run {
                if !job.is_first(at, &labels) {
                    continue;
                }
                let (mut points, mut first) = (0, None);
                for point in chunks.iter().flat_map(|chunk| chunk.points()) {
                    let point = point.map_err(|source| CopyError::Chunk {
                        side: from.name().to_owned(),
                        series: labels.clone(),
                        source,
                    })?;
                    if range.contains(point.timestamp) {
                        points += 1;
                        first.get_or_insert(point.timestamp);
                    }
                }
                let first = || format!("{labels} at {}", ShownTime(first.unwrap_or_default()));
                left_out.add(TIME, points, first);
                self.position.done(&labels);
            }
        }
        self.position.next_selector();
        Ok(false)
    }
}

/// The first and the last time that is asked for: what adds a day or a window to them must not pass what 64 bits hold.
const FIRST: i64 = i64::MIN / 2;
const LAST: i64 = i64::MAX / 2;
