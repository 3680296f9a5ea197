//! Chunks of every kind: any bytes decode or are refused; what decodes is encoded and read again.
use bytes::Bytes;
use promkairos::chunk::{self, Chunk, ChunkKind};
use promkairos::model::Point;

pub(crate) fn check(data: &[u8]) {
    let [kind, count_high, count_low, columns, data @ ..] = data else { return };
    let kind = match kind % 3 {
        0 => ChunkKind::Xor,
        1 => ChunkKind::Histogram,
        _ => ChunkKind::FloatHistogram,
    };
    let split = usize::from(*columns).min(data.len());
    let chunk = Chunk {
        kind,
        count: u16::from_be_bytes([*count_high, *count_low]),
        min_time: 0,
        max_time: 0,
        data: Bytes::copy_from_slice(&data[split..]),
        starts: Bytes::copy_from_slice(&data[..split]).into(),
        stamps: Bytes::copy_from_slice(&data[..split]).into(),
    };
    let _ = chunk.validate();
    let _ = chunk.stamped_points().take(1000).count();
    let points: Result<Vec<Point>, _> = chunk.points().collect();
    if let Ok(points) = points
        && points.is_sorted_by(|a, b| a.timestamp < b.timestamp)
    {
        let again: Vec<i64> = chunk::encode_points(&points)
            .iter()
            .flat_map(|chunk| chunk.points().map(|p| p.expect("our own chunk").timestamp))
            .collect();
        assert_eq!(again, points.iter().map(|p| p.timestamp).collect::<Vec<_>>());
    }
    let mut framed = Vec::new();
    chunk::encode_chunk(&chunk, &mut framed);
    let _ = chunk::decode_chunk(&Bytes::copy_from_slice(data));
}
