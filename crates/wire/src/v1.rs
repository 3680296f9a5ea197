//! Remote write 1.0: `prometheus.WriteRequest`.
//!
//! The labels of a series are one slice of the body. They are copied to the arena only if the
//! sender put other fields between them.

use std::ops::Range;

use promkairos_model::{MetadataEntry, MetricType, RejectReason, Sample, Target, WriteBatch};

use super::collect::{Collector, Draft, LabelBytes, text};
use super::proto::{BYTES, Broken, FIXED64, Reader, VARINT, key};
use super::{Policy, WireError};

/// Decodes a decompressed message. `arena` is cleared first.
pub(super) fn decode<'a>(
    message: &'a [u8],
    arena: &'a mut Vec<u8>,
    policy: Policy<'_>,
) -> Result<WriteBatch<'a>, WireError> {
    const TIMESERIES: u32 = key(1, BYTES);
    const METADATA: u32 = key(3, BYTES);
    let mut collector = Collector::new(message.len(), arena, policy);
    let mut metadata = 0;
    let mut reader = Reader::new(message);
    while let Some(key) = reader.key()? {
        match key {
            TIMESERIES => series(reader.bytes()?, &mut collector)?,
            METADATA => {
                let entry = metadata_entry(reader.bytes()?)?;
                collector.add_metadata(metadata, Target::Metadata(metadata), entry)?;
                metadata += 1;
            }
            _ => reader.skip(key, &[1, 3])?,
        }
    }
    Ok(collector.finish())
}

fn series<'a>(message: &'a [u8], collector: &mut Collector<'a>) -> Result<(), WireError> {
    const LABELS: u32 = key(1, BYTES);
    const SAMPLES: u32 = key(2, BYTES);
    const EXEMPLARS: u32 = key(3, BYTES);
    const HISTOGRAMS: u32 = key(4, BYTES);
    let draft = collector.begin_series()?;
    let mut labels = LabelFields::new(message);
    let mut reader = Reader::new(message);
    loop {
        let start = reader.position();
        let Some(key) = reader.key()? else { break };
        match key {
            LABELS => {
                reader.bytes()?;
                reader.skip_run(LABELS as u8)?;
                labels.add(start..reader.position());
            }
            SAMPLES => collector.add_sample(&draft, sample(reader.bytes()?)?, None)?,
            EXEMPLARS => exemplar(reader.bytes()?, &draft, collector)?,
            HISTOGRAMS => collector.add_histogram(&draft, reader.bytes()?)?,
            _ => reader.skip(key, &[1, 2, 3, 4])?,
        }
    }
    let labels = labels.finish(collector);
    collector.finish_series(draft, labels);
    Ok(())
}

fn sample(message: &[u8]) -> Result<Sample, Broken> {
    const VALUE: u32 = key(1, FIXED64);
    const TIMESTAMP: u32 = key(2, VARINT);
    let mut sample = Sample { timestamp: 0, start_timestamp: 0, value: 0.0 };
    let mut reader = Reader::new(message);
    while let Some(key) = reader.key()? {
        match key {
            VALUE => sample.value = reader.double()?,
            TIMESTAMP => sample.timestamp = reader.int64()?,
            _ => reader.skip(key, &[1, 2])?,
        }
    }
    Ok(sample)
}

fn exemplar<'a>(
    message: &'a [u8],
    draft: &Draft,
    collector: &mut Collector<'a>,
) -> Result<(), WireError> {
    const LABELS: u32 = key(1, BYTES);
    const VALUE: u32 = key(2, FIXED64);
    const TIMESTAMP: u32 = key(3, VARINT);
    let target = collector.next_exemplar()?;
    let mut labels = LabelFields::new(message);
    let (mut value, mut timestamp) = (0.0, 0);
    let mut reader = Reader::new(message);
    loop {
        let start = reader.position();
        let Some(key) = reader.key()? else { break };
        match key {
            LABELS => {
                reader.bytes()?;
                labels.add(start..reader.position());
            }
            VALUE => value = reader.double()?,
            TIMESTAMP => timestamp = reader.int64()?,
            _ => reader.skip(key, &[1, 2, 3])?,
        }
    }
    if collector.wants_exemplar(draft, target) {
        let labels = labels.finish(collector);
        collector.add_exemplar(target, labels, value, timestamp);
    }
    Ok(())
}

/// The label fields of a message: normally one slice of it.
struct LabelFields<'a> {
    message: &'a [u8],
    slice: Range<usize>,
    /// Copies of all label fields, once other fields are between them.
    gathered: Vec<u8>,
}

impl<'a> LabelFields<'a> {
    fn new(message: &'a [u8]) -> Self {
        Self { message, slice: 0..0, gathered: Vec::new() }
    }

    fn add(&mut self, field: Range<usize>) {
        if !self.gathered.is_empty() {
            self.gathered.extend_from_slice(&self.message[field]);
        } else if self.slice.is_empty() {
            self.slice = field;
        } else if self.slice.end == field.start {
            self.slice.end = field.end;
        } else {
            self.gathered.extend_from_slice(&self.message[self.slice.clone()]);
            self.gathered.extend_from_slice(&self.message[field]);
        }
    }

    fn finish(self, collector: &mut Collector<'a>) -> LabelBytes<'a> {
        if self.gathered.is_empty() {
            return LabelBytes::Body(&self.message[self.slice]);
        }
        let arena = collector.arena();
        let start = arena.len();
        arena.extend_from_slice(&self.gathered);
        LabelBytes::Arena(start..arena.len())
    }
}

/// The `MetricMetadata` message; an inner error if a text is not UTF-8.
fn metadata_entry(message: &[u8]) -> Result<Result<MetadataEntry<'_>, RejectReason>, WireError> {
    const TYPE: u32 = key(1, VARINT);
    const FAMILY: u32 = key(2, BYTES);
    const HELP: u32 = key(4, BYTES);
    const UNIT: u32 = key(5, BYTES);
    let mut kind = MetricType::Unknown;
    let [mut family, mut help, mut unit]: [&[u8]; 3] = [&[]; 3];
    let mut reader = Reader::new(message);
    while let Some(key) = reader.key()? {
        match key {
            TYPE => kind = MetricType::from_number(reader.varint()?),
            FAMILY => family = reader.bytes()?,
            HELP => help = reader.bytes()?,
            UNIT => unit = reader.bytes()?,
            _ => reader.skip(key, &[1, 2, 4, 5])?,
        }
    }
    Ok(text(family).and_then(|family| {
        Ok(MetadataEntry { family, kind, help: text(help)?, unit: text(unit)? })
    }))
}
