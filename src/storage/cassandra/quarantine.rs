//! The quarantine file: points of a flush that Cassandra refuses for good, one JSON object a line.
//!
//! A line is on disk before the flush that brought it is acknowledged, and stands there once
//! however often the flush comes again: all of a line but its reason says what it is. The
//! layout is in `docs/FORMAT.md`. Nothing here is ever read back into a store.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::kairos::DataType;
use crate::model::{Labels, METRIC_NAME};
use crate::storage::StoreError;

/// What comes between what a line is and its reason. Inside a text its quotes would be escaped.
const REASON: &str = r#","reason":"#;

/// The file, made when it is needed.
#[derive(Debug, Clone)]
pub(super) struct Quarantine {
    /// One at a time reads and appends.
    path: Arc<Mutex<PathBuf>>,
}

/// A point that is refused.
#[derive(serde::Serialize)]
pub(super) struct RefusedPoint<'a> {
    metric: &'a str,
    tags: Tags<'a>,
    timestamp: i64,
    data_type: &'a str,
    value: CellText<'a>,
    /// None for exemplars: theirs is that of the flush.
    #[serde(skip_serializing_if = "Option::is_none")]
    stamp: Option<i64>,
    reason: &'a str,
}

impl<'a> RefusedPoint<'a> {
    pub(super) fn new(
        labels: &'a Labels,
        timestamp: i64,
        (data_type, value): (&'a DataType, CellText<'a>),
        stamp: i64,
        reason: &'a str,
    ) -> Self {
        let stamp = (*data_type != DataType::PromExemplar).then_some(stamp);
        Self {
            metric: labels.get(METRIC_NAME),
            tags: Tags(labels),
            timestamp,
            data_type: data_type.as_str(),
            value,
            stamp,
            reason,
        }
    }

    /// As a line, with its end.
    pub(super) fn line(&self) -> String {
        let json = serde_json::to_string(self);
        json.expect("texts and numbers are always JSON") + "\n"
    }
}

/// All labels but the name.
struct Tags<'a>(&'a Labels);

impl Serialize for Tags<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let tags = self.0.iter().filter(|(name, _)| *name != METRIC_NAME);
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in tags {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// A finite double as a number, any other cell in hex, and what has no cell as a text.
pub(super) enum CellText<'a> {
    Number(f64),
    Hex(&'a [u8]),
    Text(&'a str),
}

impl<'a> CellText<'a> {
    /// A value as it stands, or would stand, in its cell.
    pub(super) fn of(data_type: &DataType, value: &'a [u8]) -> Self {
        match (data_type, value.try_into()) {
            (DataType::Double, Ok(bytes)) => Self::Number(f64::from_be_bytes(bytes)),
            _ => Self::Hex(value),
        }
    }
}

impl Serialize for CellText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_f64(*number),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Hex(bytes) => {
                let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                serializer.serialize_str(&hex)
            }
        }
    }
}

impl Quarantine {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path: Arc::new(Mutex::new(path)) }
    }

    /// Puts lines on disk that are not there yet. Answers how many those were.
    pub(super) async fn keep(&self, lines: Vec<String>) -> Result<u64, StoreError> {
        let path = Arc::clone(&self.path);
        let kept = tokio::task::spawn_blocking(move || {
            let path = path.lock();
            append(&path, lines).map_err(|source| StoreError::Io { path: path.clone(), source })
        });
        kept.await.map_err(|error| StoreError::Backend {
            what: "the quarantine file".into(),
            source: Box::new(error),
        })?
    }
}

fn append(path: &Path, lines: Vec<String>) -> io::Result<u64> {
    let is_new = !path.try_exists()?;
    let mut file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
    if is_new && let Some(folder) = path.parent() {
        File::open(folder)?.sync_all()?;
    }
    let (whole, new) = missing(BufReader::new(&file), &lines)?;
    if whole < file.metadata()?.len() {
        // A last line that is not whole was never acknowledged.
        file.set_len(whole)?;
        file.seek(SeekFrom::End(0))?;
    }
    file.write_all(new.concat().as_bytes())?;
    // Also where nothing is new: what is there may not have been synced by who wrote it.
    file.sync_all()?;
    Ok(new.len() as u64)
}

/// Where the last whole line of `file` ends, in bytes, and which of `lines` do not stand before that, each once.
pub fn missing(mut file: impl BufRead, lines: &[String]) -> io::Result<(u64, Vec<&str>)> {
    let mut wanted: HashSet<&str> = lines.iter().map(|line| point_of(line)).collect();
    let (mut line, mut whole) = (Vec::new(), 0);
    loop {
        line.clear();
        let length = file.read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') {
            break;
        }
        whole += length as u64;
        if let Ok(line) = std::str::from_utf8(&line) {
            wanted.remove(point_of(line));
        }
    }
    let new = lines.iter().map(String::as_str).filter(|line| wanted.remove(point_of(line)));
    Ok((whole, new.collect()))
}

/// A line without its reason.
fn point_of(line: &str) -> &str {
    line.rfind(REASON).map_or(line, |end| &line[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(tag: &str, timestamp: i64, value: f64, reason: &str) -> String {
        let labels = Labels::from_pairs([(METRIC_NAME, "up"), ("tag", tag)]).expect("labels");
        let cell = value.to_be_bytes();
        let cell = CellText::of(&DataType::Double, &cell);
        RefusedPoint::new(&labels, timestamp, (&DataType::Double, cell), 7, reason).line()
    }

    #[test]
    fn a_line_is_json_and_says_what_was_refused() {
        let tricky = "a\0\",\"reason\":\"\n";
        let text = line(tricky, -5, -0.0, "no\nroom");
        assert_eq!(text.lines().count(), 1, "{text}");
        let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let want = serde_json::json!({
            "metric": "up", "tags": {"tag": tricky}, "timestamp": -5, "data_type": "kairos_double",
            "value": -0.0, "stamp": 7, "reason": "no\nroom",
        });
        assert_eq!(json, want);
        let labels = Labels::from_pairs([(METRIC_NAME, "up")]).expect("labels");
        let nan = [0x7f, 0xf0, 0, 0, 0, 0, 0, 2];
        let cell = (&DataType::PromDouble, CellText::of(&DataType::PromDouble, &nan));
        let text = RefusedPoint::new(&labels, 1, cell, 7, "no").line();
        assert!(text.contains(r#""value":"7ff0000000000002""#), "{text}");
    }

    #[test]
    fn a_line_stands_once_and_a_torn_one_not_at_all() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("quarantine.jsonl");
        let (a, b) = (line("x\",\"reason\":\"y", 1, 1.0, "no"), line("b", 1, 1.0, "no"));
        assert_eq!(append(&path, vec![a.clone(), b.clone(), a.clone()]).expect("appended"), 2);
        let again = line("b", 1, 1.0, "another reason");
        let c = line("b", 2, 1.0, "no");
        let mut file = OpenOptions::new().append(true).open(&path).expect("there");
        file.write_all(&c.as_bytes()[..20]).expect("written");
        assert_eq!(append(&path, vec![a.clone(), again, c.clone()]).expect("appended"), 1);
        assert_eq!(std::fs::read_to_string(&path).expect("text"), a + &b + &c);
    }
}
