//! The store under test: a head and the part files behind it, on one simulated disk.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use promkairos::chunk::{Chunk, StampedPoint};
use promkairos::model::{Counts, Labels, TimeRange, Value};
use promkairos::storage::embedded::{self, Parts};
use promkairos::storage::head::{Head, Options};
use promkairos::storage::{Clock, SelectHints, Store, StoreError};
use promkairos::telemetry::{HeadMetrics, StoreMetrics};

use crate::disk::PowerDisk;
use crate::model::{Content, Found};

/// No day of the points ended this long before the usual time.
const RETENTION: Duration = Duration::from_secs(30 * 86_400);
/// How long a dropped head may hold the lock of its log.
const PATIENCE: Duration = Duration::from_secs(120);

/// Limits of a store on memory and on its log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) flush_memory: u64,
    pub(crate) wal_limit: u64,
    /// Bytes of a segment of the log: small, so that a history has several segments.
    pub(crate) segment: u64,
}

/// An open store.
pub(crate) struct Opened {
    pub(crate) parts: Arc<Parts>,
    pub(crate) head: Head,
}

/// Opens the store. Only the lock of its log is a real file, in `dir`.
pub(crate) async fn open(
    disk: &PowerDisk,
    dir: &Path,
    clock: &Arc<AtomicI64>,
    bounds: Bounds,
) -> Result<Opened, StoreError> {
    let shown = clock.clone();
    let options = embedded::Options {
        maintenance: None,
        retention: RETENTION,
        clock: Clock::new(move || shown.load(Ordering::SeqCst)),
        ..embedded::Options::default()
    };
    let (files, metrics) = (Arc::new(disk.clone()), StoreMetrics::default());
    let parts = Arc::new(Parts::open_with(files, &dir.join("parts"), options, metrics)?);
    let mut options = Options::new(dir);
    options.segment_bytes = bounds.segment;
    options.flush_interval = Duration::from_secs(1 << 20);
    options.flush_memory = bounds.flush_memory;
    options.wal_limit = bounds.wal_limit;
    options.disk = Arc::new(disk.clone());
    let begin = std::time::Instant::now();
    loop {
        let opened = Head::open(options.clone(), parts.clone(), HeadMetrics::default()).await;
        match opened {
            // A flush of the previous head may continue for a moment.
            Err(StoreError::Unavailable { what, .. })
                if what.contains("uses this log") && begin.elapsed() < PATIENCE =>
            {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Err(error) => {
                gone(parts).await;
                return Err(error);
            }
            Ok(head) => return Ok(Opened { parts, head }),
        }
    }
}

/// Waits until no other thread uses these part files. The threads of a real process end with it;
/// here they continue for a moment, and must not change what the next store opens.
async fn gone(parts: Arc<Parts>) {
    let begin = std::time::Instant::now();
    while Arc::strong_count(&parts) > 1 && begin.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

impl Opened {
    /// Ends like a killed process: the disk sees no more of it.
    pub(crate) async fn end(self) {
        let Self { parts, head } = self;
        drop(head);
        gone(parts).await;
    }

    /// The whole content of the store.
    pub(crate) async fn found(&self) -> Result<Found, StoreError> {
        let mut found = Found::default();
        let selection = self.head.select(&[], TimeRange::ALL, &SelectHints::default()).await?;
        let lists = selection.reader.read(0..selection.series.len()).await?;
        for (labels, chunks) in selection.series.iter().zip(lists) {
            // In order of acceptance: the later chunk wins.
            for entry in chunks.iter().flat_map(Chunk::stamped_points) {
                let entry =
                    entry.map_err(|error| StoreError::Invalid(format!("a chunk: {error}")))?;
                let key = (series(labels), entry.point.timestamp);
                found.points.insert(key, content(&entry));
            }
        }
        for (labels, exemplars) in self.head.exemplars(&[], TimeRange::ALL, usize::MAX).await? {
            for exemplar in exemplars {
                let trace = exemplar.labels.get("trace_id").to_owned();
                let key = (series(&labels), exemplar.timestamp, trace);
                found.exemplars.insert(key, exemplar.value.to_bits());
            }
        }
        for (family, metadata) in self.head.metadata(None, usize::MAX).await? {
            found.metadata.insert(family, metadata.help);
        }
        Ok(found)
    }
}

fn series(labels: &Labels) -> String {
    labels.get("host").to_owned()
}

fn content(entry: &StampedPoint) -> Content {
    match (entry.long, &entry.point.value) {
        (Some(long), _) => Content::Long(long),
        (None, Value::Float(value)) => Content::Float(value.to_bits()),
        (None, Value::Histogram(histogram)) => match &histogram.counts {
            Counts::Integer { count, .. } => Content::Histogram(*count),
            Counts::Float { count, .. } => Content::Float(count.to_bits()),
        },
    }
}
