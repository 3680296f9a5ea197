//! What the hot paths are given: bodies of remote writes, chunks, and a log whose disk syncs nothing.
//!
//! Values are those of a fleet of counters and gauges; everything is the same in each run.

use std::io;
use std::path::Path;

use promkairos::chunk::{Chunk, encode_points};
use promkairos::model::{Point, RawLabels, Sample, SeriesEntry, Value, WriteBatch};
use promkairos::storage::disk::{Disk, Folders};
use promkairos::storage::head::wal::files::{LogFile, LogFiles};
use promkairos::wire::{encode_v1, snappy};

/// Series of a body.
pub const SERIES: u32 = 2_000;
/// Milliseconds between two samples of a series.
pub const SCRAPE: i64 = 15_000;
/// When the first scrape is.
pub const BEGIN: i64 = 1_700_000_000_000;

fn labels(number: u32) -> Vec<u8> {
    let (instance, pod) = (format!("10.0.{}.{}:9100", number / 250, number % 250), number % 40);
    let mut raw = Vec::new();
    let pairs = [
        ("__name__", "http_server_requests_total".to_owned()),
        ("cluster", format!("cluster-{}", number % 5)),
        ("instance", instance),
        ("job", "node".to_owned()),
        ("namespace", "production".to_owned()),
        ("pod", format!("application-server-{pod:05}")),
    ];
    for (name, value) in &pairs {
        RawLabels::push(&mut raw, name.as_bytes(), value.as_bytes());
    }
    raw
}

/// A counter every other series, else a gauge that goes up and down.
fn value(number: u32, scrape: i64) -> f64 {
    let step = (scrape * 7_919 + i64::from(number) * 104_729) % 23;
    match number % 2 {
        0 => (scrape * 40 + step) as f64,
        _ => (step - 11) as f64 / 4.0,
    }
}

/// The body of a remote write with one sample of each series.
pub fn body(scrape: i64) -> Vec<u8> {
    let all: Vec<Vec<u8>> = (0..SERIES).map(labels).collect();
    let entry = |(index, raw)| SeriesEntry {
        labels: RawLabels(raw),
        index,
        samples: index..index + 1,
        histograms: 0..0,
        exemplars: 0..0,
    };
    let timestamp = BEGIN + scrape * SCRAPE;
    let sample = |number| Sample { timestamp, start_timestamp: 0, value: value(number, scrape) };
    let batch = WriteBatch {
        series: (0..).zip(all.iter().map(Vec::as_slice)).map(entry).collect(),
        samples: (0..SERIES).map(sample).collect(),
        ..WriteBatch::default()
    };
    snappy::compress(&encode_v1(&batch)).expect("small")
}

/// The chunks of one series.
pub fn chunks(number: u32, scrapes: i64) -> Vec<Chunk> {
    let point = |scrape| Point {
        timestamp: BEGIN + scrape * SCRAPE,
        start_timestamp: 0,
        value: Value::Float(value(number, scrape)),
    };
    encode_points(&(0..scrapes).map(point).collect::<Vec<_>>())
}

/// The file system without waiting for it: what is timed is what the processor does.
pub struct Unsynced;

struct UnsyncedFile(Box<dyn LogFile>);

impl Folders for Unsynced {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        Disk.create_dir(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        Disk.list(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        Disk.remove(path)
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }
}

impl LogFiles for Unsynced {
    fn create(&self, path: &Path, bytes: u64) -> io::Result<Box<dyn LogFile>> {
        Ok(Box::new(UnsyncedFile(Disk.create(path, bytes)?)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        Disk.open(path)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        Disk.link(from, to)
    }
}

impl LogFile for UnsyncedFile {
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn release(&self, offset: u64) -> io::Result<()> {
        self.0.release(offset)
    }
}
