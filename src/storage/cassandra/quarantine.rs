//! The quarantine file: points of a flush that Cassandra refuses for good, one JSON object a line.
//!
//! A line is on disk before the flush that brought it is acknowledged, and stands there once
//! however often the flush comes again: all of a line but its reason says what it is. After a failed
//! write or sync the file is written anew. The layout is in `docs/FORMAT.md`. Nothing here is ever read back into a
//! store.

use std::collections::HashSet;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::kairos::DataType;
use crate::model::{Labels, METRIC_NAME};
use crate::storage::StoreError;
use crate::storage::disk::replace;
use crate::storage::log_files::{LogFile, LogFiles, write_all};

/// What comes between what a line is and its reason. Inside a text its quotes would be escaped.
const REASON: &str = r#","reason":"#;
/// Bytes copied or read at once.
const BLOCK: usize = 64 << 10;

/// The file, made when it is needed. Clones are the same one.
#[derive(Clone)]
pub struct Quarantine {
    /// One at a time reads and appends.
    file: Arc<Mutex<Lines>>,
}

/// The file and what is known of it.
struct Lines {
    disk: Arc<dyn LogFiles>,
    path: PathBuf,
    /// So many bytes of it are acknowledged, or were there before this process; none = it has not been looked at.
    known: Option<u64>,
    /// This process has made them durable, and no write or sync has failed since: after one, what can be read may
    /// be in memory alone, and another sync would not say so.
    is_durable: bool,
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
    /// The file at `path`, which need not be there, on this disk.
    pub fn new(path: PathBuf, disk: Arc<dyn LogFiles>) -> Self {
        let lines = Lines { disk, path, known: None, is_durable: false };
        Self { file: Arc::new(Mutex::new(lines)) }
    }

    /// Puts lines on disk that are not there yet; each ends with `\n`. Answers how many those were.
    pub async fn keep(&self, lines: Vec<String>) -> Result<u64, StoreError> {
        let file = Arc::clone(&self.file);
        let kept = tokio::task::spawn_blocking(move || {
            let mut file = file.lock();
            let kept = file.keep(&lines);
            kept.map_err(|source| StoreError::Io { path: file.path.clone(), source })
        });
        kept.await.map_err(|error| StoreError::Backend {
            what: "the quarantine file".into(),
            source: Box::new(error),
        })?
    }
}

impl Lines {
    /// Appends to what this process knows to be durable. Anything else is written anew, to another file that takes
    /// the place of this one: a sync that comes after a failed one answers for nothing, and what an earlier process
    /// left may never have been synced.
    fn keep(&mut self, lines: &[String]) -> io::Result<u64> {
        let file = match self.disk.open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            file => Some(file?),
        };
        let size = file.as_ref().map_or(Ok(0), |file| file.size())?;
        // What is behind a failure was never acknowledged, whether it can be read or not.
        let known = self.known.filter(|_| !self.is_durable).unwrap_or(size).min(size);
        let (kept, new) = match &file {
            Some(file) => {
                let reading = Reading { file: &**file, at: 0, end: known };
                missing(BufReader::with_capacity(BLOCK, reading), lines)?
            }
            None => missing(io::empty(), lines)?,
        };
        let (count, new) = (new.len() as u64, new.concat());
        // Somebody else may have cut it or taken it away.
        let is_durable = self.is_durable && self.known == Some(size) && kept == size;
        let end = kept + new.len() as u64;
        (self.known, self.is_durable) = (Some(kept), false);
        match file {
            Some(_) if is_durable && new.is_empty() => {}
            Some(file) if is_durable => {
                write_all(&*file, new.as_bytes(), kept).map_err(|(_, error)| error)?;
                file.sync_data()?;
            }
            file => {
                let mut unfinished = self.path.clone().into_os_string();
                unfinished.push(".new");
                replace(&*self.disk, &self.path, unfinished.as_ref(), |path| {
                    let anew = self.disk.create(path, end)?;
                    if let Some(old) = &file {
                        copy(&**old, &*anew, kept)?;
                    }
                    write_all(&*anew, new.as_bytes(), kept).map_err(|(_, error)| error)?;
                    anew.sync_data()
                })?;
            }
        }
        (self.known, self.is_durable) = (Some(end), true);
        Ok(count)
    }
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

/// Copies the first `bytes` of a file.
fn copy(from: &dyn LogFile, to: &dyn LogFile, bytes: u64) -> io::Result<()> {
    let mut reading = Reading { file: from, at: 0, end: bytes };
    let (mut block, mut at) = (vec![0; BLOCK], 0);
    while at < bytes {
        let length = match reading.read(&mut block) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => read?,
        };
        write_all(to, &block[..length], at).map_err(|(_, error)| error)?;
        at += length as u64;
    }
    Ok(())
}

/// A file read from one place to another.
struct Reading<'a> {
    file: &'a dyn LogFile,
    at: u64,
    end: u64,
}

impl Read for Reading<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.file.read_at(&mut buffer[..left], self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// A line without its reason.
fn point_of(line: &str) -> &str {
    line.rfind(REASON).map_or(line, |end| &line[..end])
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::storage::disk::Disk;

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
        let append = |lines: Vec<String>| {
            Quarantine::new(path.clone(), Arc::new(Disk)).file.lock().keep(&lines)
        };
        let (a, b) = (line("x\",\"reason\":\"y", 1, 1.0, "no"), line("b", 1, 1.0, "no"));
        assert_eq!(append(vec![a.clone(), b.clone(), a.clone()]).expect("appended"), 2);
        let again = line("b", 1, 1.0, "another reason");
        let c = line("b", 2, 1.0, "no");
        let mut file = std::fs::File::options().append(true).open(&path).expect("there");
        file.write_all(&c.as_bytes()[..20]).expect("written");
        assert_eq!(append(vec![a.clone(), again, c.clone()]).expect("appended"), 1);
        assert_eq!(std::fs::read_to_string(&path).expect("text"), a.clone() + &b + &c);
        // Who removes it does so for good; what comes again is new.
        let quarantine = Quarantine::new(path.clone(), Arc::new(Disk));
        let keep = |line: &String| quarantine.file.lock().keep(std::slice::from_ref(line));
        assert_eq!([keep(&a), keep(&c)].map(|kept| kept.expect("kept")), [0, 0]);
        std::fs::remove_file(&path).expect("removed");
        assert_eq!([keep(&b), keep(&b), keep(&a)].map(|kept| kept.expect("kept")), [1, 0, 1]);
        assert_eq!(std::fs::read_to_string(&path).expect("text"), b + &a);
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let folder = tempfile::tempdir().expect("a folder");
        let [path, unfinished, target] = ["quarantine.jsonl", "quarantine.jsonl.new", "target"]
            .map(|name| folder.path().join(name));
        let keep = || {
            let quarantine = Quarantine::new(path.clone(), Arc::new(Disk));
            quarantine.file.lock().keep(&[line("a", 1, 1.0, "no")])
        };
        std::fs::write(&target, "of somebody else").expect("written");
        std::os::unix::fs::symlink(&target, &unfinished).expect("made");
        assert_eq!(keep().expect("kept"), 1);
        assert!(path.symlink_metadata().expect("there").is_file());
        std::fs::remove_file(&path).expect("removed");
        std::os::unix::fs::symlink(&target, &path).expect("made");
        let error = keep().expect_err("a link").to_string();
        assert!(error.starts_with("a symbolic link, which is not followed"), "{error}");
        assert_eq!(std::fs::read_to_string(&target).expect("there"), "of somebody else");
    }
}
