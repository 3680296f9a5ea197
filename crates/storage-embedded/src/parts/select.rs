//! Selects series over all parts, and reads their points.
//!
//! A selection holds label sets and, for each series, where its frames are. Points are read for a
//! run of series at a time, neighbouring frames in one read. A selection holds the state it was
//! made from, so later changes of the store do not affect it.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

use promkairos_chunk::Chunk;
use promkairos_model::{Labels, Matcher, TimeRange, sorted_places};
use promkairos_storage::index::evaluate;
use promkairos_storage::{
    Forecast, SelectHints, Selection, SelectionSize, SeriesReader, StoreError, codec, frame, merge,
};

use super::blocking::blocking;
use super::cutting;
use super::forecast;
use super::frame_locations::{FrameLocation, FramesBySeries};
use super::part::Part;
use super::state::State;

/// The series that match and may have points in the range.
pub(super) fn select(
    state: Arc<State>,
    matchers: &[Matcher],
    range: TimeRange,
    hints: &SelectHints,
) -> Result<Selection, StoreError> {
    let mut found = Found::within(hints);
    for (at, part) in state.parts_in(range) {
        found.search(part, at as u32, matchers, range)?;
    }
    let (series, places) = found.arrange(hints.sorted);
    let reader = FramesReader { state, range, labels: series.clone(), places };
    Ok(Selection { series, reader: Box::new(Reader(Arc::new(reader))) })
}

/// Label sets found so far, each once, with their frames.
struct Found<'h> {
    labels: Vec<Labels>,
    /// Numbers of label sets by hash. The hashes are stored, so that growing reads no set.
    by_labels: HashTable<(u64, u32)>,
    size: SelectionSize<'h>,
    places: Vec<(u32, FrameLocation)>,
}

impl<'h> Found<'h> {
    /// Bytes of a place while it is found, and of a label set beside its text.
    const PLACE: usize = size_of::<(u32, FrameLocation)>();
    const LABELS: usize = size_of::<Labels>() + size_of::<(u64, u32)>();

    fn within(hints: &'h SelectHints) -> Self {
        let size = SelectionSize::within(hints);
        Self { labels: Vec::new(), by_labels: HashTable::new(), size, places: Vec::new() }
    }

    fn search(
        &mut self,
        part: &Part,
        at: u32,
        matchers: &[Matcher],
        range: TimeRange,
    ) -> Result<(), StoreError> {
        let reader = part.reader()?;
        let ids = evaluate(&reader, matchers)?;
        reader.for_series(&ids, &mut |row| {
            if row.range.overlaps(&range) {
                let before = self.labels.len();
                let series = self.series(row.labels).map_err(|d| part.damage(0, d))?;
                let is_new = self.labels.len() > before;
                let labels = if is_new { row.labels.len() + Self::LABELS } else { 0 };
                self.size.add(labels, Self::PLACE)?;
                self.places.push((series, FrameLocation::new(at, &row, part.entry.range)));
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// The number of a label set, new or known.
    fn series(&mut self, bytes: &[u8]) -> Result<u32, codec::Damage> {
        let hash = xxh3_64(bytes);
        let labels = &self.labels;
        let is_same =
            |(own, at): &(u64, u32)| *own == hash && labels[*at as usize].as_bytes() == bytes;
        if let Some((_, at)) = self.by_labels.find(hash, is_same) {
            return Ok(*at);
        }
        let at = self.labels.len() as u32;
        let set = codec::labels(bytes)?;
        self.labels.push(set);
        self.by_labels.insert_unique(hash, (hash, at), |(hash, _)| *hash);
        Ok(at)
    }

    /// The label sets, sorted if wanted, and the frames in the same order.
    fn arrange(self, sorted: bool) -> (Vec<Labels>, FramesBySeries) {
        let Self { labels, mut places, .. } = self;
        // Label sets of one part are in order already.
        let series = if !sorted || labels.is_sorted() {
            labels
        } else {
            let order = sorted_places(labels.iter().map(Labels::as_ref));
            let mut rank = vec![0u32; labels.len()];
            for (position, series) in order.iter().enumerate() {
                rank[*series as usize] = position as u32;
            }
            places.iter_mut().for_each(|(series, _)| *series = rank[*series as usize]);
            order.iter().map(|at| labels[*at as usize].clone()).collect()
        };
        let places = FramesBySeries::new(series.len(), places);
        (series, places)
    }
}

struct Reader(Arc<FramesReader>);

#[async_trait]
impl SeriesReader for Reader {
    async fn read(&self, series: Range<usize>) -> Result<Vec<Vec<Chunk>>, StoreError> {
        let reader = self.0.clone();
        blocking(move || reader.read(series)).await
    }

    async fn forecast(&self, range: TimeRange) -> Result<Forecast, StoreError> {
        let reader = self.0.clone();
        blocking(move || forecast::forecast(&reader.state.parts, &reader.places, range)).await
    }

    fn held_bytes(&self) -> usize {
        self.0.places.bytes() + self.0.labels.len() * size_of::<Labels>()
    }

    fn expected_bytes(&self, series: usize) -> Option<usize> {
        Some(self.0.places.of(series).iter().map(|place| place.len as usize).sum())
    }
}

struct FramesReader {
    state: Arc<State>,
    range: TimeRange,
    labels: Vec<Labels>,
    places: FramesBySeries,
}

impl FramesReader {
    fn read(&self, series: Range<usize>) -> Result<Vec<Vec<Chunk>>, StoreError> {
        if series.start > series.end || series.end > self.labels.len() {
            let what = format!("series {series:?} of {} were asked for", self.labels.len());
            return Err(StoreError::Invalid(what));
        }
        let frames = read_frames(&self.state.parts, self.places.of_run(series.clone()))?;
        let mut rest = frames.as_slice();
        let mut result = Vec::with_capacity(series.len());
        for at in series {
            let places = self.places.of(at);
            let (own, others) = rest.split_at(places.len());
            result.push(self.series(&self.labels[at], places.iter().zip(own))?);
            rest = others;
        }
        Ok(result)
    }

    fn series<'a>(
        &self,
        labels: &Labels,
        frames: impl Iterator<Item = (&'a FrameLocation, &'a Bytes)> + Clone,
    ) -> Result<Vec<Chunk>, StoreError> {
        let mut chunks = Vec::new();
        for (place, bytes) in frames.clone() {
            let part = &self.state.parts[place.part as usize];
            let own = frame::chunks_of(bytes, part.entry.partition)
                .map_err(|damage| part.damage(place.offset, damage))?;
            let own = own.into_iter().filter(|chunk| chunk.range().overlaps(&self.range));
            let cuts = cutting::cuts(&self.state.manifest.tombstones, &part.entry, labels);
            let own = cutting::without(own.collect(), &cuts);
            chunks.extend(own.map_err(|error| part.chunk_damage(place.offset, error))?);
        }
        merge::merge(chunks).map_err(|error| {
            let sources = frames.map(|(place, bytes)| {
                let part = &*self.state.parts[place.part as usize];
                let chunks = frame::chunks_of(bytes, part.entry.partition);
                (part, place.offset, chunks.unwrap_or_default())
            });
            Part::merge_damage(sources, error)
        })
    }
}

/// The bytes of frames, in the order given.
fn read_frames(parts: &[Arc<Part>], places: &[FrameLocation]) -> Result<Vec<Bytes>, StoreError> {
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by_key(|at| (places[*at].part, places[*at].offset));
    let mut frames = vec![Bytes::new(); places.len()];
    for mut here in order.chunk_by(|a, b| places[*a].part == places[*b].part) {
        let part = &parts[places[here[0]].part as usize];
        let file = part.file()?;
        while let Some(first) = here.first() {
            let start = places[*first].offset;
            let spans = here.iter().map(|at| (places[*at].offset, places[*at].len));
            let (count, end) = frame::together(spans);
            let bytes = part.read(&*file, start, end - start)?;
            for at in &here[..count] {
                let from = (places[*at].offset - start) as usize;
                frames[*at] = bytes.slice(from..from + places[*at].len as usize);
            }
            here = &here[count..];
        }
    }
    Ok(frames)
}
