//! Input of the hot paths: bodies of remote writes, chunks, and a log whose disk does not sync. The
//! values are constants, counters and gauges, as in a fleet, and are the same in each run.

#[cfg(test)]
mod allocations;
#[cfg(test)]
mod query_memory;

use std::collections::HashMap;
use std::io;
use std::path::Path;

use promkairos::chunk::{Chunk, encode_points};
use promkairos::model::{
    Labels, MetricType, Point, Protocol, RawLabels, Sample, SeriesEntry, Value, WriteBatch, varint,
};
use promkairos::storage::disk::{Disk, Folders};
use promkairos::storage::log_files::{LogFile, LogFiles};
use promkairos::wire::{encode_v1, snappy};

/// Series of a body.
pub const SERIES: u32 = 2_000;
/// Milliseconds between two samples of a series.
pub const SCRAPE: i64 = 15_000;
/// Time of the first scrape.
pub const BEGIN: i64 = 1_700_000_000_000;

/// Ten series have one metric.
fn labels(number: u32) -> [(&'static str, String); 6] {
    let (instance, pod) = (format!("10.0.{}.{}:9100", number / 250, number % 250), number % 40);
    [
        ("__name__", format!("http_server_{}_requests_total", number / 10)),
        ("cluster", format!("cluster-{}", number % 5)),
        ("instance", instance),
        ("job", "node".to_owned()),
        ("namespace", "production".to_owned()),
        ("pod", format!("application-server-{pod:05}")),
    ]
}

/// The labels of one of a million series: 400 of a metric, and 200,000 instances.
pub fn labels_of_many(number: usize) -> Labels {
    let (metric, host) = (number / 400, number % 200_000);
    Labels::from_pairs([
        ("__name__", format!("metric_{metric:05}_total")),
        ("cluster", format!("cluster-{}", number % 400 % 7)),
        ("environment", "production".to_owned()),
        ("instance", format!("10.{}.{}.{}:9100", host / 40_000, host / 200 % 200, host % 200)),
        ("job", "node".to_owned()),
        ("namespace", format!("team-{}", metric % 40)),
    ])
    .expect("a label set")
}

/// A counter, a gauge that goes up and down, and two constants.
pub fn value(number: u32, scrape: i64) -> f64 {
    let step = (scrape * 7_919 + i64::from(number) * 104_729) % 23;
    match number % 4 {
        0 => (scrape * 40 + step) as f64,
        1 => (step - 11) as f64 / 4.0,
        _ => f64::from(number),
    }
}

/// Whether the series always has the same value.
pub fn is_constant(number: u32) -> bool {
    number % 4 >= 2
}

/// The body of a remote write with one sample of each of these series, in this order.
pub fn body(protocol: Protocol, series: &[u32], scrape: i64) -> Vec<u8> {
    let message = match protocol {
        Protocol::V1 => message_v1(series, scrape),
        Protocol::V2 | Protocol::V2Typed | Protocol::V2Longs => message_v2(series, scrape),
    };
    snappy::compress(&message).expect("small")
}

fn message_v1(series: &[u32], scrape: i64) -> Vec<u8> {
    let raw = |number: &u32| {
        let mut raw = Vec::new();
        for (name, value) in &labels(*number) {
            RawLabels::push(&mut raw, name.as_bytes(), value.as_bytes());
        }
        raw
    };
    let all: Vec<Vec<u8>> = series.iter().map(raw).collect();
    let entry = |(index, raw)| SeriesEntry {
        labels: RawLabels(raw),
        index,
        samples: index..index + 1,
        histograms: 0..0,
        exemplars: 0..0,
    };
    let timestamp = BEGIN + scrape * SCRAPE;
    let sample =
        |number: &u32| Sample { timestamp, start_timestamp: 0, value: value(*number, scrape) };
    let batch = WriteBatch {
        series: (0..).zip(all.iter().map(Vec::as_slice)).map(entry).collect(),
        samples: series.iter().map(sample).collect(),
        ..WriteBatch::default()
    };
    encode_v1(&batch)
}

/// Each series carries the metadata of its metric, as Prometheus sends it.
fn message_v2(series: &[u32], scrape: i64) -> Vec<u8> {
    let mut symbols = Symbols::default();
    symbols.reference("");
    let mut all_series = Vec::new();
    for number in series {
        let (mut refs, mut sample, mut metadata) = (Vec::new(), Vec::new(), Vec::new());
        for (name, value) in labels(*number) {
            varint::push(&mut refs, symbols.reference(name));
            varint::push(&mut refs, symbols.reference(&value));
        }
        sample.push(1 << 3 | 1);
        sample.extend_from_slice(&value(*number, scrape).to_le_bytes());
        number_field(&mut sample, 2, (BEGIN + scrape * SCRAPE) as u64);
        number_field(&mut metadata, 1, MetricType::Counter as u64);
        let help = format!("Requests of kind {} that the server has answered.", number / 10);
        number_field(&mut metadata, 3, symbols.reference(&help));
        let mut message = Vec::new();
        for (field, bytes) in [(1, &refs), (2, &sample), (5, &metadata)] {
            bytes_field(&mut message, field, bytes);
        }
        bytes_field(&mut all_series, 5, &message);
    }
    let mut message = Vec::new();
    for symbol in &symbols.table {
        bytes_field(&mut message, 4, symbol.as_bytes());
    }
    message.append(&mut all_series);
    message
}

#[derive(Default)]
struct Symbols {
    table: Vec<String>,
    references: HashMap<String, u64>,
}

impl Symbols {
    fn reference(&mut self, symbol: &str) -> u64 {
        let next = self.table.len() as u64;
        let reference = *self.references.entry(symbol.to_owned()).or_insert(next);
        if reference == next {
            self.table.push(symbol.to_owned());
        }
        reference
    }
}

fn number_field(out: &mut Vec<u8>, field: u64, number: u64) {
    varint::push(out, field << 3);
    varint::push(out, number);
}

fn bytes_field(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    varint::push(out, field << 3 | 2);
    varint::push(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
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

/// A file system that does not sync: only processor time is measured.
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

    fn is_at(&self, path: &Path) -> bool {
        self.0.is_at(path)
    }
}
