//! Remote write 2.0: `io.prometheus.write.v2.Request`.
//!
//! Labels are references into a symbol table. They are resolved into the arena in the encoding of version 1, so that
//! stores see one form. Symbols may come after the series that use them, so the message is read twice. See
//! [`Symbols`].
//!
//! Metadata comes with each series and is merged by metric family: the last entry wins. It is accepted if its own
//! references are valid, even if the series is refused. Its target number is the number of the series.
//!
//! Optionally, the type and unit in the metadata of a series become labels of it. They depend only on the message,
//! not on whether the metadata was accepted, so a replay gives the same labels.

use std::collections::{HashMap, HashSet};

use promkairos_model::limits::{self, LABEL_LIMITS};
use promkairos_model::{
    LabelError, METRIC_NAME, METRIC_TYPE, METRIC_UNIT, MetadataEntry, MetricType, Protocol,
    RawLabels, RejectReason, Sample, Target, WriteBatch,
};

use super::collect::{Collector, Draft, LabelBytes, text};
use super::encode::LONG;
use super::proto::{BYTES, Broken, FIXED64, Reader, VARINT, key};
use super::symbols::Symbols;
use super::{Policy, WireError};

const SYMBOLS: u32 = key(4, BYTES);
const TIMESERIES: u32 = key(5, BYTES);
const REQUEST_FIELDS: &[u32] = &[4, 5];

/// Decodes a decompressed message of any protocol but version 1. `arena` is cleared first. In
/// [`Protocol::V2Typed`], the type and unit of a series become labels and replace its own labels of these names.
pub(super) fn decode<'a>(
    protocol: Protocol,
    message: &'a [u8],
    arena: &'a mut Vec<u8>,
    policy: Policy<'_>,
) -> Result<WriteBatch<'a>, WireError> {
    let collector = Collector::new(message.len(), arena, policy);
    let symbols = symbols(message, &collector)?;
    let (families, refs) = (Families::default(), Vec::new());
    let mut decoder = Decoder { symbols, collector, protocol, families, refs, series: 0 };
    let mut reader = Reader::new(message);
    while let Some(key) = reader.key()? {
        match key {
            TIMESERIES => decoder.series(reader.bytes()?)?,
            SYMBOLS => reader.bytes().map(drop)?,
            _ => reader.skip(key, REQUEST_FIELDS)?,
        }
    }
    Ok(decoder.collector.finish())
}

fn symbols<'a>(message: &'a [u8], collector: &Collector<'_>) -> Result<Symbols<'a>, WireError> {
    let mut symbols = Symbols::default();
    let mut reader = Reader::new(message);
    while let Some(key) = reader.key()? {
        match key {
            SYMBOLS => {
                symbols.push(reader.bytes()?);
                let limit = limits::MAX_SYMBOLS_PER_REQUEST;
                collector.check_limit(symbols.len(), limit, "symbols")?;
            }
            TIMESERIES => reader.bytes().map(drop)?,
            _ => reader.skip(key, REQUEST_FIELDS)?,
        }
    }
    Ok(symbols)
}

struct Decoder<'a> {
    symbols: Symbols<'a>,
    collector: Collector<'a>,
    protocol: Protocol,
    families: Families<'a>,
    /// A buffer for the label references of a series.
    refs: Vec<u32>,
    /// Series read so far.
    series: u32,
}

/// The families whose metadata is in the batch.
#[derive(Default)]
struct Families<'a> {
    /// Positions in the batch, by name.
    positions: HashMap<&'a [u8], usize>,
    /// The same by the reference of a metric name and its type, which is faster to look up.
    known: HashMap<(u32, u64), usize>,
    /// Names of the families that a replay leaves out.
    omitted: HashSet<&'a [u8]>,
    /// The metadata that was added last, and the reference of its metric name: the next series mostly has the same.
    last: Option<(u32, MetadataRefs)>,
}

/// The `Metadata` message.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct MetadataRefs {
    kind: u64,
    help: u32,
    unit: u32,
}

/// The labels that the metadata of a series adds; an empty value adds none.
#[derive(Clone, Copy, Default)]
struct Added<'a> {
    kind: &'static str,
    unit: &'a [u8],
}

impl<'a> Decoder<'a> {
    fn series(&mut self, message: &'a [u8]) -> Result<(), WireError> {
        const LABELS_REF: u32 = key(1, VARINT);
        const LABELS_REFS: u32 = key(1, BYTES);
        const SAMPLES: u32 = key(2, BYTES);
        const HISTOGRAMS: u32 = key(3, BYTES);
        const EXEMPLARS: u32 = key(4, BYTES);
        const METADATA: u32 = key(5, BYTES);
        const CREATED_TIMESTAMP: u32 = key(6, VARINT);
        let draft = self.collector.begin_series()?;
        let before = self.collector.points();
        let number = self.series;
        self.series += 1;
        let keeps_all = !self.collector.is_strict() && !draft.is_omitted();
        let mut refs = Refs::new(std::mem::take(&mut self.refs), keeps_all);
        let mut metadata = MetadataRefs::default();
        let mut created = 0;
        let (mut has_histograms, mut has_others) = (false, false);
        let mut reader = Reader::new(message);
        while let Some(key) = reader.key()? {
            match key {
                LABELS_REF => refs.push(reader.uint32()?),
                LABELS_REFS => refs.read(reader.bytes()?)?,
                SAMPLES => {
                    has_others = true;
                    let (sample, long) = sample(reader.bytes()?)?;
                    let long = long.filter(|_| self.protocol == Protocol::V2Longs);
                    self.collector.add_sample(&draft, sample, long)?;
                }
                HISTOGRAMS => {
                    has_histograms = true;
                    self.collector.add_histogram(&draft, reader.bytes()?)?;
                }
                EXEMPLARS => {
                    has_others = true;
                    self.exemplar(reader.bytes()?, &draft)?;
                }
                METADATA => metadata.merge(reader.bytes()?)?,
                CREATED_TIMESTAMP => created = reader.int64()?,
                _ => reader.skip(key, &[1, 2, 3, 4, 5])?,
            }
        }
        // A native histogram has the name of its family, and so has a series without points, which the encoder writes
        // for metadata.
        let is_part = has_others && !has_histograms;
        if created != 0 {
            self.collector.set_missing_starts(&draft, created);
        }
        let checked = self.metadata(number, &refs.kept, is_part, metadata)?;
        self.finish_series(draft, &refs.kept, checked)?;
        if self.says_nothing(metadata) {
            self.collector.lack_metadata(before);
        }
        self.refs = refs.kept;
        Ok(())
    }

    /// Resolves the labels of a series and ends it; `checked` are the labels that its metadata adds.
    fn finish_series(
        &mut self,
        draft: Draft,
        refs: &[u32],
        checked: Result<Added<'a>, RejectReason>,
    ) -> Result<(), WireError> {
        if draft.is_omitted() {
            return Ok(());
        }
        let added = checked.as_ref().copied().unwrap_or_default();
        let resolved = self.resolve(refs, added)?;
        let is_empty = self.collector.is_empty(&draft);
        match (resolved, checked) {
            (Err(reason), _) => self.collector.refuse_series(draft, reason, None),
            (Ok(labels), Err(reason)) => {
                self.collector.refuse_series(draft, reason, Some(labels));
            }
            // Exemplars alone are accepted: Prometheus sends each in a series of its own.
            (Ok(labels), Ok(_)) if self.collector.is_strict() && is_empty => {
                self.collector.refuse_series(draft, RejectReason::NoPoints, Some(labels));
            }
            (Ok(labels), Ok(_)) => self.collector.finish_series(draft, labels),
        }
        Ok(())
    }

    /// Writes the labels of `refs`, and the added labels, to the arena.
    fn resolve(
        &mut self,
        refs: &[u32],
        added: Added<'a>,
    ) -> Result<Result<LabelBytes<'a>, RejectReason>, WireError> {
        if let Err(reason) = self.check_refs(refs, added.unit.len()) {
            return Ok(Err(reason));
        }
        let arena = self.collector.arena();
        let start = arena.len();
        let (pairs, _) = refs.as_chunks::<2>();
        if added.is_nothing() {
            self.symbols.append(pairs, arena);
        } else {
            added.push_among(pairs.iter().map(|pair| self.symbols.label(*pair)), arena);
        }
        let end = arena.len();
        self.collector.check_limit(end, limits::MAX_LABEL_BYTES_PER_REQUEST, "bytes of labels")?;
        Ok(Ok(LabelBytes::Arena(start..end)))
    }

    /// Checks that the references in `refs` are valid, and that their labels with `more` bytes are within the limits.
    fn check_refs(&self, refs: &[u32], more: usize) -> Result<(), RejectReason> {
        let strict = self.collector.is_strict();
        let (count, limit) = (refs.len() / 2, LABEL_LIMITS.labels);
        if strict && count > limit {
            return Err(LabelError::TooMany { count, limit }.into());
        }
        if !refs.len().is_multiple_of(2) {
            return Err(RejectReason::OddLabelRefs(refs.len()));
        }
        let mut bytes = more;
        for reference in refs {
            bytes += self.symbols.get(*reference)?.len();
        }
        let limit = LABEL_LIMITS.total_bytes;
        if strict && bytes > limit {
            return Err(LabelError::TooLong { bytes, limit }.into());
        }
        Ok(())
    }

    fn exemplar(&mut self, message: &'a [u8], draft: &Draft) -> Result<(), WireError> {
        const LABELS_REF: u32 = key(1, VARINT);
        const LABELS_REFS: u32 = key(1, BYTES);
        const VALUE: u32 = key(2, FIXED64);
        const TIMESTAMP: u32 = key(3, VARINT);
        let target = self.collector.next_exemplar()?;
        let mut refs = Refs::new(Vec::new(), !self.collector.is_strict());
        let (mut value, mut timestamp) = (0.0, 0);
        let mut reader = Reader::new(message);
        while let Some(key) = reader.key()? {
            match key {
                LABELS_REF => refs.push(reader.uint32()?),
                LABELS_REFS => refs.read(reader.bytes()?)?,
                VALUE => value = reader.double()?,
                TIMESTAMP => timestamp = reader.int64()?,
                _ => reader.skip(key, &[1, 2, 3])?,
            }
        }
        if self.collector.wants_exemplar(draft, target) {
            match self.resolve(&refs.kept, Added::default())? {
                Ok(labels) => self.collector.add_exemplar(target, labels, value, timestamp),
                Err(reason) => self.collector.reject(target, reason),
            }
        }
        Ok(())
    }

    /// Merges the metadata of the series numbered `number` into its family, and returns the labels that it adds.
    /// `is_part` = the series may be one of several of its family, as those of a classic histogram are. The inner error
    /// refuses the series: a reference is invalid.
    fn metadata(
        &mut self,
        number: u32,
        refs: &[u32],
        is_part: bool,
        metadata: MetadataRefs,
    ) -> Result<Result<Added<'a>, RejectReason>, WireError> {
        let texts = (self.optional_symbol(metadata.help), self.optional_symbol(metadata.unit));
        let (help, unit) = match texts {
            (Ok(help), Ok(unit)) => (help, unit),
            (Err(reason), _) | (_, Err(reason)) => return Ok(Err(reason)),
        };
        let kind = MetricType::from_number(metadata.kind);
        if kind == MetricType::Unknown && help.is_empty() && unit.is_empty() {
            return Ok(Ok(Added::default()));
        }
        let added = if self.protocol == Protocol::V2Typed {
            Added::new(kind, unit)
        } else {
            Added::default()
        };
        let Some((reference, metric)) = self.metric(refs) else { return Ok(Ok(added)) };
        let is_known = self.families.last == Some((reference, metadata));
        if is_known || self.collector.omits(Target::Metadata(number)) {
            return Ok(Ok(added));
        }
        let key = (reference, metadata.kind);
        let family = family(metric, kind, is_part);
        if self.collector.omits(Target::Family(number)) {
            self.families.omitted.insert(family);
        }
        if self.families.omitted.contains(family) {
            return Ok(Ok(added));
        }
        let entry = text(family).and_then(|family| {
            Ok(MetadataEntry { family, kind, help: text(help)?, unit: text(unit)? })
        });
        let position = match self.families.known.get(&key) {
            // A native histogram and a series with floats may share a metric name, but not a family.
            Some(at) if self.collector.is_family(*at, family) => Some(at),
            _ => self.families.positions.get(family),
        };
        if let (Ok(entry), Some(at)) = (&entry, position)
            && self.collector.replace_metadata(*at, *entry)
        {
            self.families.last = Some((reference, metadata));
        } else if let Some(at) =
            self.collector.add_metadata(number, Target::Family(number), entry)?
        {
            self.families.positions.insert(family, at);
            self.families.known.insert(key, at);
            self.families.last = Some((reference, metadata));
        }
        Ok(Ok(added))
    }

    /// Whether the metadata is empty.
    fn says_nothing(&self, metadata: MetadataRefs) -> bool {
        let none = |reference| self.optional_symbol(reference).is_ok_and(<[u8]>::is_empty);
        MetricType::from_number(metadata.kind) == MetricType::Unknown
            && none(metadata.help)
            && none(metadata.unit)
    }

    /// Reference 0 is "none", whatever the table holds.
    fn optional_symbol(&self, reference: u32) -> Result<&'a [u8], RejectReason> {
        if reference == 0 { Ok(&[]) } else { self.symbols.get(reference) }
    }

    /// The metric name among the labels, and its reference.
    fn metric(&self, refs: &[u32]) -> Option<(u32, &'a [u8])> {
        refs.as_chunks::<2>().0.iter().find_map(|[name, value]| {
            let is_name = self.symbols.get(*name).is_ok_and(|name| name == METRIC_NAME.as_bytes());
            let metric = self.symbols.get(*value).ok().filter(|metric| !metric.is_empty())?;
            is_name.then_some((*value, metric))
        })
    }
}

/// The family of a metric of this type. The series of a classic histogram and of a summary have suffixes, as in the
/// exposition formats of Prometheus and OpenMetrics.
fn family(metric: &[u8], kind: MetricType, is_part: bool) -> &[u8] {
    if !is_part {
        return metric;
    }
    let family = kind.parts().iter().find_map(|part| metric.strip_suffix(part.as_bytes()));
    family.filter(|family| !family.is_empty()).unwrap_or(metric)
}

impl<'a> Added<'a> {
    fn new(kind: MetricType, unit: &'a [u8]) -> Self {
        match kind {
            MetricType::Unknown => Self { kind: "", unit },
            kind => Self { kind: kind.as_str(), unit },
        }
    }

    fn is_nothing(self) -> bool {
        self.kind.is_empty() && self.unit.is_empty()
    }

    /// Writes `labels` to the arena, without their own type and unit. The added labels are inserted in the order of
    /// names, so sorted labels stay sorted.
    fn push_among(self, labels: impl Iterator<Item = [&'a [u8]; 2]>, arena: &mut Vec<u8>) {
        const TYPE: &[u8] = METRIC_TYPE.as_bytes();
        const UNIT: &[u8] = METRIC_UNIT.as_bytes();
        let added = [(TYPE, self.kind.as_bytes()), (UNIT, self.unit)];
        let mut added = added.into_iter().filter(|(_, value)| !value.is_empty()).peekable();
        for [name, value] in labels.filter(|[name, _]| ![TYPE, UNIT].contains(name)) {
            while let Some((before, value)) = added.next_if(|(added, _)| *added < name) {
                RawLabels::push(arena, before, value);
            }
            RawLabels::push(arena, name, value);
        }
        added.for_each(|(name, value)| RawLabels::push(arena, name, value));
    }
}

impl MetadataRefs {
    fn merge(&mut self, message: &[u8]) -> Result<(), WireError> {
        const TYPE: u32 = key(1, VARINT);
        const HELP_REF: u32 = key(3, VARINT);
        const UNIT_REF: u32 = key(4, VARINT);
        let mut reader = Reader::new(message);
        while let Some(key) = reader.key()? {
            match key {
                TYPE => self.kind = reader.varint()?,
                HELP_REF => self.help = reader.uint32()?,
                UNIT_REF => self.unit = reader.uint32()?,
                _ => reader.skip(key, &[1, 3, 4])?,
            }
        }
        Ok(())
    }
}

/// Label references. Only as many are kept as show that there are too many.
struct Refs {
    kept: Vec<u32>,
    limit: usize,
}

impl Refs {
    fn new(mut buffer: Vec<u32>, keeps_all: bool) -> Self {
        buffer.clear();
        let limit = if keeps_all { usize::MAX } else { 2 * LABEL_LIMITS.labels + 2 };
        Self { kept: buffer, limit }
    }

    fn push(&mut self, reference: u32) {
        if self.kept.len() < self.limit {
            self.kept.push(reference);
        }
    }

    fn read(&mut self, packed: &[u8]) -> Result<(), Broken> {
        let mut reader = Reader::new(packed);
        self.kept.reserve(packed.len().min(self.limit));
        while reader.position() < packed.len() {
            self.push(reader.uint32()?);
        }
        Ok(())
    }
}

/// A sample, and its integer if the field [`LONG`] is there.
fn sample(message: &[u8]) -> Result<(Sample, Option<i64>), Broken> {
    const VALUE: u32 = key(1, FIXED64);
    const TIMESTAMP: u32 = key(2, VARINT);
    const START_TIMESTAMP: u32 = key(3, VARINT);
    const INTEGER: u32 = key(LONG, VARINT);
    let mut long = None;
    let mut sample = Sample { timestamp: 0, start_timestamp: 0, value: 0.0 };
    let mut reader = Reader::new(message);
    while let Some(key) = reader.key()? {
        match key {
            VALUE => sample.value = reader.double()?,
            TIMESTAMP => sample.timestamp = reader.int64()?,
            START_TIMESTAMP => sample.start_timestamp = reader.int64()?,
            INTEGER => long = Some(reader.sint64()?),
            _ => reader.skip(key, &[1, 2, 3])?,
        }
    }
    Ok((sample, long))
}
