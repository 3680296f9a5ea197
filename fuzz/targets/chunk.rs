//! Chunks of every kind: any bytes decode or are refused; what decodes is encoded and read again.
use bytes::Bytes;
use promkairos::chunk::{self, Chunk, ChunkKind, Floats, SideKind, StampedPoint};
use promkairos::model::{Point, TimeRange, Value};

pub(crate) fn check(data: &[u8]) {
    let [kind, count_high, count_low, columns, rest @ ..] = data else { return };
    let kind = match kind % 4 {
        0 => ChunkKind::Xor,
        1 => ChunkKind::Histogram,
        2 => ChunkKind::FloatHistogram,
        _ => ChunkKind::Packed,
    };
    let split = usize::from(*columns).min(rest.len());
    check_points(&Chunk {
        kind,
        count: u16::from_be_bytes([*count_high, *count_low]).max(1),
        min_time: 0,
        max_time: 0,
        data: Bytes::copy_from_slice(&rest[split..]),
        side: Bytes::copy_from_slice(&rest[..split]).into(),
        side_kind: if count_low % 2 == 0 { SideKind::Starts } else { SideKind::Longs },
        stamps: Bytes::copy_from_slice(&rest[..split]).into(),
    });
}

fn check_points(chunk: &Chunk) {
    let all: Vec<Result<Point, _>> = chunk.points().collect();
    let is_broken = all.last().is_some_and(Result::is_err);
    let points: Vec<Point> = all.into_iter().map_while(Result::ok).collect();
    assert!(points.len() <= usize::from(chunk.count), "{} points", points.len());
    let rise = points.is_sorted_by(|a, b| a.timestamp < b.timestamp);
    let of_chunk = points.first().zip(points.last());
    if chunk.validate().is_ok() {
        let times = of_chunk.map(|(first, last)| (first.timestamp, last.timestamp));
        assert!(!is_broken && rise && times == Some((chunk.min_time, chunk.max_time)));
    }
    let stamped: Vec<StampedPoint> = chunk.stamped_points().map_while(Result::ok).collect();
    let times = stamped.iter().map(|entry| entry.point.timestamp);
    assert!(points.iter().map(|point| point.timestamp).take(stamped.len()).eq(times));
    let longs = |all: &[StampedPoint]| all.iter().map(|entry| entry.long).collect::<Vec<_>>();
    let again = chunk::encode_stamped(&stamped);
    let again = again.iter().flat_map(|chunk| chunk.stamped_points().collect::<Vec<_>>());
    let again: Vec<StampedPoint> = again.map(|entry| entry.expect("our own chunk")).collect();
    assert_eq!(longs(&again), longs(&stamped));
    if is_broken {
        return;
    }
    assert!(rise, "times that do not rise are refused");
    if chunk.kind.is_floats() {
        check_floats(chunk, &points);
    }
    let again: Vec<Point> = chunk::encode_points(&points)
        .iter()
        .flat_map(|chunk| chunk.points().map(|p| p.expect("our own chunk")).collect::<Vec<_>>())
        .collect();
    assert!(again.iter().map(|p| p.timestamp).eq(points.iter().map(|p| p.timestamp)));
    assert!(again.iter().map(|p| p.start_timestamp).eq(points.iter().map(|p| p.start_timestamp)));
    assert!(again.iter().map(bits).eq(points.iter().map(bits)));
}

/// The fast decoder of floats returns the same points, also of the packed chunk.
fn check_floats(chunk: &Chunk, points: &[Point]) {
    let want = || points.iter().map(|point| (point.timestamp, bits(point)));
    let mut floats = Vec::new();
    chunk.floats(&mut floats).expect("what gives points gives floats");
    assert!(floats.iter().map(|(time, value)| (*time, Some(value.to_bits()))).eq(want()));
    let middle = points.get(points.len() / 2).map_or(0, |point| point.timestamp);
    let (range, mut inside) = (TimeRange::new(middle, i64::MAX), Vec::new());
    let visit =
        |time, value: f64| inside.extend((time >= middle).then(|| (time, Some(value.to_bits()))));
    chunk.visit_floats_in(range, visit).expect("the same");
    assert!(inside.into_iter().eq(want().filter(|(time, _)| *time >= middle)));
    let floats = Floats::of(std::slice::from_ref(chunk)).expect("the same");
    let Some(packed) = chunk::pack(&floats, 0..floats.times.len()) else { return };
    packed.validate().expect("our own chunk");
    let again: Vec<Point> = packed.points().map(|point| point.expect("our own chunk")).collect();
    assert!(again.iter().map(|point| (point.timestamp, bits(point))).eq(want()));
    assert!(again.iter().map(|p| p.start_timestamp).eq(points.iter().map(|p| p.start_timestamp)));
}

/// The bits of a float.
fn bits(point: &Point) -> Option<u64> {
    match &point.value {
        Value::Float(value) => Some(value.to_bits()),
        Value::Histogram(_) => None,
    }
}
