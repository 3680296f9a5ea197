//! Counts points of the source outside of the years 1 to 9999, which are never copied. KairosDB accepts them, for
//! instance from a sender with microseconds instead of milliseconds; promkairos does not.
//!
//! Only done where the job has no first or no last time: a user who names a time does not ask for what is beyond it.

use serde::{Deserialize, Serialize};

use super::endpoint::Endpoint;
use super::error::CopyError;
use super::job::Job;
use super::left_out::{LeftOut, TIME};
use super::position::Position;
use crate::model::{MAX_TIMESTAMP, MIN_TIMESTAMP, ShownTime, TimeRange};

/// The position of the count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Outside {
    part: Part,
    position: Position,
}

/// The range of times that is read. The file of a copy stores these numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
enum Part {
    /// Before the year 1.
    #[default]
    Before = 0,
    /// After the year 9999.
    After = 1,
    /// Both ranges are done.
    Done = 2,
}

impl Part {
    fn next(self) -> Self {
        match self {
            Self::Before => Self::After,
            Self::After | Self::Done => Self::Done,
        }
    }
}

impl From<Part> for u8 {
    fn from(part: Part) -> Self {
        part as Self
    }
}

impl TryFrom<u8> for Part {
    type Error = String;

    fn try_from(number: u8) -> Result<Self, String> {
        match number {
            0 => Ok(Self::Before),
            1 => Ok(Self::After),
            2 => Ok(Self::Done),
            _ => Err(format!("{number} is no part of the times outside of the years 1 to 9999")),
        }
    }
}

impl Outside {
    /// Reads one selector in one range, and adds the points to `left_out`. Returns whether nothing was left to do.
    pub(super) async fn step(
        &mut self,
        from: &Endpoint,
        job: &Job,
        left_out: &mut LeftOut,
    ) -> Result<bool, CopyError> {
        let range = match self.part {
            Part::Before if job.range.start == MIN_TIMESTAMP => {
                TimeRange::new(FIRST, MIN_TIMESTAMP - 1)
            }
            Part::After if job.range.end == MAX_TIMESTAMP => {
                TimeRange::new(MAX_TIMESTAMP + 1, LAST)
            }
            Part::Before | Part::After => {
                self.part = self.part.next();
                return Ok(false);
            }
            Part::Done => return Ok(true),
        };
        let at = self.position.selector;
        let Some(selector) = job.selectors.get(at) else {
            (self.part, self.position) = (self.part.next(), Position::default());
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
                    let point = point.map_err(|why| CopyError::chunk(from.name(), &labels, why))?;
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

/// First and last time of a read: adding a day or a window to them does not overflow 64 bits.
const FIRST: i64 = i64::MIN / 2;
const LAST: i64 = i64::MAX / 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_numbers_in_the_file() {
        for (part, text) in [(Part::Before, "0"), (Part::After, "1"), (Part::Done, "2")] {
            assert_eq!(serde_json::to_string(&part).expect("written"), text);
            assert_eq!(serde_json::from_str::<Part>(text).expect("read"), part);
        }
        serde_json::from_str::<Part>("3").expect_err("no part");
    }
}
