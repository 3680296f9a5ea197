//! Packs neighbouring float chunks of one series into few long blocks, before a part is written.
//!
//! Chunks that follow each other in time are joined, up to [`BLOCK`] points, and written in the
//! smaller form. The order of precedence stays. A block that is long already is copied. Floats that
//! are not decimal numbers keep their form; only short chunks of them are joined. Histograms are
//! copied: their counter resets are known for a chunk as a whole.

use promkairos_chunk::{Chunk, ChunkBuilder, ChunkError, ChunkKind, Floats, pack};
use promkairos_model::limits::MAX_CHUNK_POINTS;

/// Most points of a block: about four hours at a scrape interval of 15 s. Longer blocks save
/// little, and a query for one point reads the whole block.
const BLOCK: usize = 1024;

/// Packs the chunks of one series, in order of precedence.
pub(super) fn packed(chunks: Vec<Chunk>) -> Result<Vec<Chunk>, ChunkError> {
    let mut packed = Vec::new();
    let mut run: Vec<Chunk> = Vec::new();
    // The kind of the side columns of the run, once one is not empty.
    let mut side_kind = None;
    for chunk in chunks {
        let joins = chunk.kind.is_floats() && !is_full(&chunk);
        let follows = run.last().is_none_or(|last| last.max_time < chunk.min_time);
        let own = (!chunk.side.is_empty()).then_some(chunk.side_kind);
        let differs = own.zip(side_kind).is_some_and(|(own, kind)| own != kind);
        if !joins || !follows || differs {
            end(&mut packed, &mut run)?;
            side_kind = None;
        }
        if joins {
            side_kind = side_kind.or(own);
            run.push(chunk);
        } else {
            packed.push(chunk);
        }
    }
    end(&mut packed, &mut run)?;
    Ok(packed)
}

fn is_full(chunk: &Chunk) -> bool {
    chunk.kind == ChunkKind::Packed && usize::from(chunk.count) >= BLOCK / 2
}

/// Appends the run in its smallest form; `run` is empty afterwards.
fn end(packed: &mut Vec<Chunk>, run: &mut Vec<Chunk>) -> Result<(), ChunkError> {
    let run = std::mem::take(run);
    if let [] | [Chunk { kind: ChunkKind::Packed, .. }] = run.as_slice() {
        packed.extend(run);
        return Ok(());
    }
    let floats = Floats::of(&run)?;
    let points = floats.times.len();
    // Blocks of about the same length.
    let len = points.div_ceil(points.div_ceil(BLOCK));
    let starts = (0..points).step_by(len);
    let blocks: Option<Vec<Chunk>> =
        starts.map(|start| pack(&floats, start..points.min(start + len))).collect();
    match blocks {
        Some(blocks) if bytes(&blocks) < bytes(&run) => packed.extend(blocks),
        _ if points.div_ceil(MAX_CHUNK_POINTS) < run.len()
            && run.iter().all(|chunk| chunk.kind == ChunkKind::Xor) =>
        {
            let mut builder = ChunkBuilder::default();
            for entry in run.iter().flat_map(Chunk::stamped_points) {
                builder.push_stamped(&entry?);
            }
            packed.extend(builder.finish());
        }
        _ => packed.extend(run),
    }
    Ok(())
}

fn bytes(chunks: &[Chunk]) -> usize {
    // A chunk head has at least six bytes.
    chunks.iter().map(|chunk| chunk.data.len() + chunk.side.len() + 6).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use promkairos_chunk::encode_points;
    use promkairos_model::{Point, Value};

    fn points(count: i64, value: impl Fn(i64) -> f64) -> Vec<Point> {
        let point = |at| {
            let value = Value::Float(value(at));
            Point { timestamp: at * 15_000, start_timestamp: at / 300, value }
        };
        (0..count).map(point).collect()
    }

    fn read(chunks: &[Chunk]) -> Vec<Point> {
        chunks.iter().flat_map(Chunk::points).collect::<Result<_, _>>().expect("own bytes")
    }

    #[test]
    fn a_day_becomes_even_blocks_which_stay() {
        let day = points(5_760, |at| (at * at % 50) as f64);
        let chunks = encode_points(&day);
        let blocks = packed(chunks.clone()).expect("own bytes");
        assert!(blocks.iter().all(|block| block.kind == ChunkKind::Packed && block.count == 960));
        assert!(bytes(&blocks) * 2 < bytes(&chunks), "{} of {}", bytes(&blocks), bytes(&chunks));
        assert_eq!(read(&blocks), day);
        assert_eq!(packed(blocks.clone()).as_ref(), Ok(&blocks));
        // Later chunks are packed by themselves, and joined with still later ones.
        let more: Vec<Chunk> = [0..240, 240..480, 480..500]
            .map(|range| encode_points(&day[range]))
            .into_iter()
            .flat_map(|chunks| packed(chunks).expect("own bytes"))
            .collect();
        assert_eq!(more.len(), 3);
        let joined = packed(more).expect("own bytes");
        assert_eq!((joined.len(), read(&joined)), (1, day[..500].to_vec()));
    }

    #[test]
    fn what_is_no_decimal_number_is_joined_as_it_is() {
        let odd = points(300, |at| (at as f64).sqrt());
        let pieces: Vec<Chunk> = odd.chunks(30).flat_map(encode_points).collect();
        let joined = packed(pieces).expect("own bytes");
        assert!(joined.iter().all(|chunk| chunk.kind == ChunkKind::Xor));
        assert_eq!((joined.len(), read(&joined)), (3, odd));
    }

    proptest! {
        /// Chunks may overlap: at equal times the later chunk wins, as before packing.
        #[test]
        fn precedence_stays(
            runs in prop::collection::vec(
                (0i64..3_000, prop_oneof![1i64..40, 500i64..1_500], 0i64..3, any::<bool>()),
                1..12,
            ),
        ) {
            let (mut chunks, mut unpacked) = (Vec::new(), Vec::new());
            for (at, (start, len, kind, packs)) in (0i64..).zip(runs) {
                let value = |time: i64| match kind {
                    0 => at as f64,
                    1 => time as f64 / 8.0,
                    _ => (time as f64).sqrt() + at as f64,
                };
                let points: Vec<Point> = (start..start + len)
                    .map(|time| Point { timestamp: time, start_timestamp: 0, value: Value::Float(value(time)) })
                    .collect();
                unpacked.extend(encode_points(&points));
                chunks.extend(encode_points(&points));
                if packs {
                    chunks = packed(chunks).expect("own bytes");
                }
            }
            let merged = |chunks| read(&promkairos_storage::merge::merge(chunks).expect("own bytes"));
            let after = packed(chunks).expect("own bytes");
            prop_assert_eq!(merged(after), merged(unpacked));
        }
    }
}
