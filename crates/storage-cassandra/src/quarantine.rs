//! The quarantine file: points of a flush that Cassandra refuses for good, one JSON object per line.
//!
//! A line is on disk before its flush is acknowledged, and is stored once, however often the flush is repeated: the
//! whole line except its reason identifies the point. After a failed write or sync the file is rewritten. The
//! layout is in `docs/FORMAT.md`. Nothing here is ever read back into a store.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;

use crate::cut::hex;
use promkairos_kairos::DataType;
use promkairos_model::{Labels, METRIC_NAME};
use promkairos_storage::disk::replace;
use promkairos_storage::log_files::{LogFile, LogFiles, write_all};
use promkairos_storage::{Result, StoreError};

/// Separates the point in a line from the reason. Inside a text its quotes would be escaped.
const REASON: &str = r#","reason":"#;
/// Bytes copied or read at once.
const BLOCK: usize = 64 << 10;

/// The file, created when it is needed. Clones share it.
#[derive(Clone)]
pub struct Quarantine {
    /// Locked by the task that reads and appends.
    file: Arc<Mutex<Lines>>,
}

/// The file and what is known of it.
struct Lines {
    disk: Arc<dyn LogFiles>,
    path: PathBuf,
    /// The bytes that are acknowledged, or existed before this process; none = not looked at yet.
    known: Option<u64>,
    /// This process made them durable, and no write or sync has failed since. After a failure, readable bytes may
    /// be in memory only, and another sync would not report that.
    is_durable: bool,
}

/// A point that is refused.
#[derive(Serialize)]
pub(crate) struct RefusedPoint<'a> {
    metric: &'a str,
    tags: BTreeMap<&'a str, &'a str>,
    timestamp: i64,
    data_type: &'a str,
    value: CellText<'a>,
    /// None for exemplars, which get the stamp of the flush.
    #[serde(skip_serializing_if = "Option::is_none")]
    stamp: Option<i64>,
    reason: &'a str,
}

impl<'a> RefusedPoint<'a> {
    pub(crate) fn new(
        labels: &'a Labels,
        timestamp: i64,
        (data_type, value): (&'a DataType, CellText<'a>),
        stamp: i64,
        reason: &'a str,
    ) -> Self {
        let stamp = (*data_type != DataType::PromExemplar).then_some(stamp);
        Self {
            metric: labels.get(METRIC_NAME),
            tags: labels.iter().filter(|(name, _)| *name != METRIC_NAME).collect(),
            timestamp,
            data_type: data_type.as_str(),
            value,
            stamp,
            reason,
        }
    }

    /// The point as a line, with its line break.
    pub(crate) fn line(&self) -> String {
        let json = serde_json::to_string(self);
        json.expect("texts and numbers are always JSON") + "\n"
    }
}

/// A finite double as a number, any other cell in hex, and a point without a cell as text.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum CellText<'a> {
    Number(f64),
    Hex(String),
    Text(&'a str),
}

impl CellText<'_> {
    /// The text of a value in the encoding of its cell.
    pub(crate) fn of(data_type: &DataType, value: &[u8]) -> Self {
        match (data_type, value.try_into()) {
            (DataType::Double, Ok(bytes)) => Self::Number(f64::from_be_bytes(bytes)),
            _ => Self::Hex(hex(value)),
        }
    }
}

impl Quarantine {
    /// The file at `path` on this disk; it need not exist.
    pub fn new(path: PathBuf, disk: Arc<dyn LogFiles>) -> Self {
        let lines = Lines { disk, path, known: None, is_durable: false };
        Self { file: Arc::new(Mutex::new(lines)) }
    }

    /// Writes to disk the lines that it lacks; each ends with `\n`. Returns the count of new lines.
    pub async fn keep(&self, lines: Vec<String>) -> Result<u64> {
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
    /// Appends to a file that this process knows to be durable. Otherwise the file is rewritten to another file
    /// that replaces it: a sync after a failed sync guarantees nothing, and the file of an earlier process may
    /// never have been synced.
    fn keep(&mut self, lines: &[String]) -> io::Result<u64> {
        let file = match self.disk.open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            file => Some(file?),
        };
        let size = file.as_ref().map_or(Ok(0), |file| file.size())?;
        // Bytes behind a failure were never acknowledged, readable or not.
        let known = self.known.filter(|_| !self.is_durable).unwrap_or(size).min(size);
        let (kept, new) = match &file {
            Some(file) => {
                let reading = Reading { file: &**file, at: 0, end: known };
                missing(BufReader::with_capacity(BLOCK, reading), lines)?
            }
            None => missing(io::empty(), lines)?,
        };
        let (count, new) = (new.len() as u64, new.concat());
        // Another program may have cut or removed the file.
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

/// Where the last whole line of `file` ends, in bytes, and the `lines` that are not before that, each once.
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

/// A file read from one offset to another.
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
    use promkairos_storage::disk::Disk;

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
        // A removed file stays removed; repeated lines count as new.
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
