//! The parser of telnet lines for the pipeline: each line is a series with one point.

use parking_lot::Mutex;

use super::super::points::Points;
use promkairos_ingest::{ParseError, Parser, Scratch, Within};
use promkairos_kairos_write::{Command, LineError, Metric, Visitor as _, parse_line};
use promkairos_model::WriteBatch;

/// Memory of a batch per byte of its lines. A short line is a series with a label and a point.
const EXPANSION: usize = 64;

/// A batch of lines.
#[derive(Debug, Default)]
pub(super) struct TelnetLines(Mutex<Found>);

/// What a batch has beside points.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Lines that ask for the version.
    pub(super) versions: usize,
    /// Refused lines.
    pub(super) refused: u64,
    /// Why the first of them is refused.
    pub(super) first: Option<String>,
    /// The lines are a request over HTTP; the batch ends there.
    pub(super) is_http: bool,
}

impl TelnetLines {
    /// What the last parsed batch has beside points.
    pub(super) fn take_found(&self) -> Found {
        std::mem::take(&mut self.0.lock())
    }
}

impl Parser for TelnetLines {
    const REQUESTS: &'static str = "telnet lines";

    fn parse<'a>(
        &self,
        body: &'a [u8],
        scratch: &'a mut Scratch,
        within: Within,
    ) -> Result<WriteBatch<'a>, ParseError> {
        let mut points = Points::new(scratch, within);
        let (mut metric, mut found) = (Metric::default(), Found::default());
        for line in body.split_inclusive(|byte| *byte == b'\n') {
            match parse_line(line, &mut metric) {
                Ok(Command::Version) => found.versions += 1,
                Ok(Command::Put { time, value }) => {
                    let kept = points.metric(&metric).is_continue();
                    if !kept || points.point(time, value).is_break() {
                        break;
                    }
                }
                Err(LineError::Empty) => {}
                Err(LineError::Command(word)) if is_http(word, line) => {
                    found.is_http = true;
                    break;
                }
                Err(error) => found.refuse(|| error.to_string()),
            }
        }
        let batch = points.into_batch()?;
        *self.0.lock() = found;
        Ok(batch)
    }

    fn expansion(&self) -> usize {
        EXPANSION
    }
}

/// Whether a line is of the head of a request over HTTP. A web page can send such a request to any address, with lines
/// of its choice in the body.
fn is_http(word: &str, line: &[u8]) -> bool {
    word.ends_with(':')
        || line.trim_ascii_end().ends_with(b" HTTP/1.1")
        || line.trim_ascii_end().ends_with(b" HTTP/1.0")
}

impl Found {
    fn refuse(&mut self, why: impl FnOnce() -> String) {
        self.refused += 1;
        self.first.get_or_insert_with(why);
    }
}
