//! Remote-write bodies: published vectors both ways, policy and replay, hostile bytes.

use std::time::Duration;

use promkairos::api::proto;
use promkairos::limits;
use promkairos::model::{
    Body, Counts, ExemplarEntry, Histogram, HistogramError, HistogramSample, LabelError,
    MAX_TIMESTAMP, MIN_TIMESTAMP, MetadataEntry, MetricType, Protocol, RawLabels, RejectReason,
    ResetHint, Sample, SampleTimes, SeriesEntry, Span, Target, TimeLimits, WriteBatch,
};
use promkairos::wire::{self, Policy, Scratch, WireError, snappy};
use proptest::prelude::*;
use prost::Message;

const T: i64 = 1_700_000_000_000;
const V1_UP: &str = "0a2c0a0e0a085f5f6e616d655f5f120275700a080a036a6f6212016112\
                     1009000000000000f03f1080d095ffbc31";
const V2_UP: &str = "220022085f5f6e616d655f5f2202757022036a6f622201612a230a04010203041217\
                     09000000000000f03f1080d095ffbc3118f08195ffbc312a020802";
const HISTOGRAM_INT: &str = "080c196666666666663240200629fca9f1d24d62503f300242021002420408021002\
     4a04020201005a04080910025a04080210026204020201007880d095ffbc31";
const HISTOGRAM_FLOAT: &str = "110000000000002840196666666666663240200629fca9f1d24d62503f39000000\
     0000000040420210024204080210025220000000000000f03f0000000000000040000000000000f03f00000000\
     0000f03f5a04080910025a04080210026a20000000000000f03f0000000000000040000000000000f03f000000\
     000000f03f7880d095ffbc31";

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| {
            let pair = std::str::from_utf8(pair).expect("digits are ASCII");
            u8::from_str_radix(pair, 16).expect("hexadecimal")
        })
        .collect()
}

fn decode(
    protocol: Protocol,
    message: &[u8],
    check: impl FnOnce(Result<WriteBatch<'_>, WireError>),
) {
    decode_with(protocol, message, Policy::Accept, check);
}

fn decode_with(
    protocol: Protocol,
    message: &[u8],
    policy: Policy<'_>,
    check: impl FnOnce(Result<WriteBatch<'_>, WireError>),
) {
    let mut arena = Vec::new();
    check(wire::decode_message(protocol, message, &mut arena, policy));
}

fn labels(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut raw = Vec::new();
    for (name, value) in pairs {
        RawLabels::push(&mut raw, name.as_bytes(), value.as_bytes());
    }
    raw
}

#[test]
fn vector_of_version_1() {
    let message = hex(V1_UP);
    let mut arena = Vec::new();
    let batch = wire::decode_message(Protocol::V1, &message, &mut arena, Policy::Accept);
    let batch = batch.expect("valid");
    assert_eq!(batch.series.len(), 1);
    assert_eq!(batch.series[0].labels.0, labels(&[("__name__", "up"), ("job", "a")]));
    assert_eq!(batch.samples, [Sample { timestamp: T, start_timestamp: 0, value: 1.0 }]);
    assert_eq!(wire::encode_v1(&batch), message);
    let block = hex(&format!("2eb4{V1_UP}"));
    let mut scratch = Scratch::default();
    let body = Body { protocol: Protocol::V1, compressed: &block };
    let batch = wire::decode(body, &mut scratch, Policy::Accept).expect("valid");
    assert_eq!((batch.series.len(), batch.samples.len()), (1, 1));
    assert_eq!(batch.body.expect("a body").compressed, block);
}

#[test]
fn vector_of_version_2() {
    let message = hex(V2_UP);
    let mut arena = Vec::new();
    let batch = wire::decode_message(Protocol::V2, &message, &mut arena, Policy::Accept);
    let batch = batch.expect("valid");
    assert_eq!(batch.series.len(), 1);
    assert_eq!(batch.series[0].labels.0, labels(&[("__name__", "up"), ("job", "a")]));
    let start_timestamp = 1_699_999_990_000;
    assert_eq!(batch.samples, [Sample { timestamp: T, start_timestamp, value: 1.0 }]);
    let [entry] = batch.metadata[..] else { panic!("one family") };
    assert_eq!((entry.family, entry.kind), ("up", MetricType::Gauge));
    // When written again, the metadata is in a series of its own; the rest is equal.
    let mut without = batch.clone();
    without.metadata.clear();
    let plain = V2_UP.replace("2a230a04", "2a1f0a04").replace("2a020802", "");
    assert_eq!(wire::encode_v2(&without), hex(&plain));
}

fn example_histogram() -> Histogram {
    let span = |offset, length| Span { offset, length };
    Histogram {
        schema: 3,
        zero_threshold: 0.001,
        sum: 18.4,
        reset_hint: ResetHint::Unknown,
        positive_spans: vec![span(-5, 2), span(1, 2)],
        negative_spans: vec![span(0, 2), span(1, 2)],
        custom_values: Vec::new(),
        counts: Counts::Integer {
            count: 12,
            zero_count: 2,
            positive: vec![1, 1, -1, 0],
            negative: vec![1, 1, -1, 0],
        },
    }
}

fn example_float_histogram() -> Histogram {
    let counts = Counts::Float {
        count: 12.0,
        zero_count: 2.0,
        positive: vec![1.0, 2.0, 1.0, 1.0],
        negative: vec![1.0, 2.0, 1.0, 1.0],
    };
    Histogram { counts, ..example_histogram() }
}

#[test]
fn vectors_of_histograms() {
    let name = labels(&[("__name__", "h")]);
    for (vector, histogram) in
        [(HISTOGRAM_INT, example_histogram()), (HISTOGRAM_FLOAT, example_float_histogram())]
    {
        let mut series = name.clone();
        put(&mut series, 4, &hex(vector));
        let mut message = Vec::new();
        put(&mut message, 1, &series);
        decode(Protocol::V1, &message, |batch| {
            let batch = batch.expect("valid");
            let want = HistogramSample { timestamp: T, start_timestamp: 0, histogram };
            assert_eq!(batch.histograms, [want]);
            assert_eq!(wire::encode_v1(&batch), message);
        });
    }
}

// Messages by hand.

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_number(out: &mut Vec<u8>, field: u64, value: u64) {
    varint(out, field << 3);
    varint(out, value);
}

fn put_double(out: &mut Vec<u8>, field: u64, value: f64) {
    varint(out, field << 3 | 1);
    out.extend_from_slice(&value.to_le_bytes());
}

fn point(timestamp: i64, value: f64) -> Vec<u8> {
    let mut out = Vec::new();
    put_double(&mut out, 1, value);
    put_number(&mut out, 2, timestamp as u64);
    out
}

/// A version 2 request of these symbols and series.
fn request(symbols: &[&[u8]], series: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    symbols.iter().for_each(|symbol| put(&mut out, 4, symbol));
    series.iter().for_each(|series| put(&mut out, 5, series));
    out
}

fn refs(numbers: &[u64]) -> Vec<u8> {
    let mut packed = Vec::new();
    numbers.iter().for_each(|number| varint(&mut packed, *number));
    let mut out = Vec::new();
    put(&mut out, 1, &packed);
    out
}

/// A version 2 series with these label references and one float.
fn series_of(numbers: &[u64]) -> Vec<u8> {
    let mut out = refs(numbers);
    put(&mut out, 2, &point(T, 1.0));
    out
}

const SYMBOLS: &[&[u8]] = &[b"", b"__name__", b"up", b"job", b"a"];

fn reasons(batch: &WriteBatch<'_>) -> Vec<RejectReason> {
    batch.rejections.kept().iter().map(|reject| reject.reason.clone()).collect()
}

#[test]
fn labels_between_other_fields_are_gathered() {
    let all = labels(&[("__name__", "up"), ("job", "a"), ("zone", "z")]);
    let first = labels(&[("__name__", "up")]);
    let mut series = first.clone();
    put(&mut series, 2, &point(T, 1.0));
    series.extend_from_slice(&labels(&[("job", "a")]));
    let mut exemplar = labels(&[("id", "1")]);
    put_double(&mut exemplar, 2, 7.0);
    exemplar.extend_from_slice(&labels(&[("span", "2")]));
    put(&mut series, 3, &exemplar);
    series.extend_from_slice(&labels(&[("zone", "z")]));
    let mut message = Vec::new();
    put(&mut message, 1, &series);
    put(&mut message, 1, &series);
    decode(Protocol::V1, &message, |batch| {
        let batch = batch.expect("valid");
        assert_eq!(batch.series.len(), 2);
        for entry in &batch.series {
            assert_eq!(entry.labels.0, all);
        }
        assert_eq!(batch.exemplars.len(), 2);
        for entry in &batch.exemplars {
            assert_eq!(entry.labels.0, labels(&[("id", "1"), ("span", "2")]));
        }
    });
}

#[test]
fn a_body_of_the_other_version_is_refused_and_replayed_as_it_was() {
    let decode = |protocol, message: &[u8], policy: Policy<'_>| {
        let compressed = snappy::compress(message).expect("small");
        let (mut scratch, body) = (Scratch::default(), Body { protocol, compressed: &compressed });
        wire::decode(body, &mut scratch, policy).map(|batch| batch.series.len())
    };
    let (first, second) = (hex(V1_UP), hex(V2_UP));
    for (protocol, message, of) in [
        (Protocol::V1, &second, "2.0"),
        (Protocol::V2, &first, "1.0"),
        (Protocol::V2Typed, &first, "1.0"),
    ] {
        assert_eq!(decode(protocol, message, Policy::Accept), Err(WireError::Version(of)));
        assert_eq!(decode(protocol, message, Policy::Replay(&[])), Ok(0));
    }
    assert_eq!(decode(Protocol::V1, &first, Policy::Accept), Ok(1));
    assert_eq!(decode(Protocol::V2, &second, Policy::Accept), Ok(1));
    // An empty body is valid in both versions.
    assert_eq!(decode(Protocol::V1, b"", Policy::Accept), Ok(0));
    let mut unknown = Vec::new();
    put_number(&mut unknown, 2, 3);
    assert_eq!(decode(Protocol::V2, &unknown, Policy::Accept), Ok(0));
}

#[test]
fn unknown_fields_are_skipped_and_wrong_types_are_not() {
    let mut extra = hex(V1_UP);
    put_number(&mut extra, 2, 3);
    put(&mut extra, 99, b"abc");
    put_double(&mut extra, 98, 1.0);
    extra.extend_from_slice(b"\xad\x06abcd"); // field 101, four bytes
    decode(Protocol::V1, &extra, |batch| assert_eq!(batch.expect("valid").samples.len(), 1));
    for wrong in [&b"\x08\x05"[..], b"\x09abcdefgh", b"\x0b", b"\x0c", b"\x0e", b"\x00"] {
        let message = [&hex(V1_UP), wrong].concat();
        decode(Protocol::V1, &message, |batch| {
            assert!(matches!(batch, Err(WireError::Malformed(_))), "{wrong:?}: {batch:?}");
        });
    }
}

#[test]
fn numbers_come_packed_or_not() {
    let mut histogram = Vec::new();
    put_number(&mut histogram, 1, 4);
    let mut span = Vec::new();
    put_number(&mut span, 2, 3);
    put(&mut histogram, 11, &span);
    put_number(&mut histogram, 12, 2); // +1
    put(&mut histogram, 12, &[2, 3]); // +1 -2
    put_double(&mut histogram, 3, f64::NAN);
    put_number(&mut histogram, 15, 5);
    let mut series = Vec::new();
    put_number(&mut series, 1, 1);
    put(&mut series, 1, &[2]);
    put_number(&mut series, 1, 3);
    put_number(&mut series, 1, 4);
    put(&mut series, 3, &histogram);
    decode(Protocol::V2, &request(SYMBOLS, &[series]), |batch| {
        let batch = batch.expect("valid");
        assert_eq!(batch.series[0].labels.0, labels(&[("__name__", "up"), ("job", "a")]));
        let Counts::Integer { positive, .. } = &batch.histograms[0].histogram.counts else {
            panic!("integer")
        };
        assert_eq!(positive, &[1, 1, -2]);
    });
}

#[test]
fn the_last_arm_of_a_count_decides_the_kind() {
    let mut histogram = Vec::new();
    put_number(&mut histogram, 1, 4);
    put_double(&mut histogram, 2, 0.0);
    put_number(&mut histogram, 6, 9);
    let mut series = refs(&[1, 2]);
    put(&mut series, 3, &histogram);
    decode(Protocol::V2, &request(SYMBOLS, &[series]), |batch| {
        let batch = batch.expect("valid");
        let Counts::Float { count, zero_count, .. } = batch.histograms[0].histogram.counts else {
            panic!("float")
        };
        assert_eq!((count, zero_count), (0.0, 0.0));
    });
}

#[test]
fn symbols_may_follow_the_series() {
    let mut message = request(&[], &[series_of(&[1, 2])]);
    message.extend_from_slice(&request(SYMBOLS, &[]));
    decode(Protocol::V2, &message, |batch| {
        assert_eq!(batch.expect("valid").series[0].labels.0, labels(&[("__name__", "up")]));
    });
}

#[test]
fn bad_references_refuse_the_series_alone() {
    let beyond = |reference| RejectReason::SymbolOutOfRange { reference, symbols: 5 };
    let many = vec![4; 2 * limits::LABEL_LIMITS.labels + 2];
    let endless = vec![4; 100_000];
    let limit = limits::LABEL_LIMITS.labels;
    let too_many = || RejectReason::Labels(LabelError::TooMany { count: limit + 1, limit });
    for (numbers, want) in [
        (&[1, 5][..], beyond(5)),
        (&[u64::from(u32::MAX), 1], beyond(u64::from(u32::MAX))),
        (&[1, 2, 3], RejectReason::OddLabelRefs(3)),
        (&many, too_many()),
        (&endless, too_many()),
    ] {
        let message = request(SYMBOLS, &[series_of(numbers), series_of(&[1, 2])]);
        decode(Protocol::V2, &message, |batch| {
            let batch = batch.expect("the other series is good");
            assert_eq!(reasons(&batch), [want]);
            assert_eq!(batch.rejections.targets(), [Target::Series(0)]);
            assert_eq!((batch.series.len(), batch.samples.len()), (1, 1));
            assert_eq!(batch.series[0].index, 1);
        });
    }
}

#[test]
fn bad_metadata_references_refuse_the_series_and_bad_exemplars_do_not() {
    for field in [3, 4] {
        let mut series = series_of(&[1, 2]);
        let mut metadata = Vec::new();
        put_number(&mut metadata, field, 77);
        put(&mut series, 5, &metadata);
        decode(Protocol::V2, &request(SYMBOLS, &[series]), |batch| {
            let batch = batch.expect("readable");
            assert_eq!(batch.rejections.targets(), [Target::Series(0)]);
            assert_eq!((batch.series.len(), batch.samples.len()), (0, 0));
        });
    }
    let long = "ü".repeat(limits::MAX_EXEMPLAR_CHARS);
    let symbols = [SYMBOLS, &[long.as_bytes(), b"\xff"]].concat();
    for (numbers, want) in [
        (&[1, 50][..], "symbols"),
        (&[1], "symbols"),
        (&[3, 5], "exemplar"),
        (&[3, 6], "labels"),
        (&[3, 4, 3, 2], "labels"),
    ] {
        let mut series = series_of(&[1, 2]);
        put(&mut series, 4, &refs(&[]));
        put(&mut series, 4, &refs(numbers));
        decode(Protocol::V2, &request(&symbols, &[series]), |batch| {
            let batch = batch.expect("readable");
            assert_eq!(reasons(&batch)[0].as_str(), want);
            assert_eq!(batch.rejections.targets(), [Target::Exemplar(1)]);
            assert_eq!((batch.samples.len(), batch.exemplars.len()), (1, 1));
            let text = batch.rejections.kept()[0].to_string();
            assert!(text.ends_with(r#" for series {__name__="up"}"#), "{text}");
        });
    }
}

#[test]
fn a_series_with_nothing_is_refused_in_version_2_only() {
    let mut with_exemplar = refs(&[1, 2]);
    put(&mut with_exemplar, 4, &refs(&[]));
    decode(Protocol::V2, &request(SYMBOLS, &[refs(&[1, 2]), with_exemplar]), |batch| {
        let batch = batch.expect("readable");
        assert_eq!(reasons(&batch), [RejectReason::NoPoints]);
        assert_eq!((batch.series.len(), batch.exemplars.len()), (1, 1));
    });
    let mut message = Vec::new();
    put(&mut message, 1, &labels(&[("__name__", "up")]));
    decode(Protocol::V1, &message, |batch| {
        let batch = batch.expect("valid");
        assert!(batch.series.is_empty() && batch.rejections.is_empty());
    });
}

#[test]
fn points_outside_the_years_are_refused_alone() {
    let mut series = labels(&[("__name__", "up")]);
    for time in [MIN_TIMESTAMP - 1, MIN_TIMESTAMP, -1, MAX_TIMESTAMP, MAX_TIMESTAMP + 1, i64::MAX] {
        put(&mut series, 2, &point(time, 1.0));
    }
    let mut message = Vec::new();
    put(&mut message, 1, &series);
    decode(Protocol::V1, &message, |batch| {
        let batch = batch.expect("readable");
        let times: Vec<i64> = batch.samples.iter().map(|sample| sample.timestamp).collect();
        assert_eq!(times, [MIN_TIMESTAMP, -1, MAX_TIMESTAMP]);
        let want = [Target::Sample(0), Target::Sample(4), Target::Sample(5)];
        assert_eq!(batch.rejections.targets(), want);
        assert_eq!(reasons(&batch)[0], RejectReason::TimestampOutOfRange(MIN_TIMESTAMP - 1));
    });
}

#[test]
fn the_start_of_a_series_serves_points_that_have_none() {
    let mut series = Vec::new();
    put_number(&mut series, 6, 1_000);
    series.extend_from_slice(&series_of(&[1, 2]));
    let mut own = point(T + 1, 2.0);
    put_number(&mut own, 3, 500);
    put(&mut series, 2, &own);
    let mut nonsense = point(T + 2, 2.0);
    put_number(&mut nonsense, 3, i64::MAX as u64);
    put(&mut series, 2, &nonsense);
    decode(Protocol::V2, &request(SYMBOLS, &[series]), |batch| {
        let batch = batch.expect("valid");
        let starts: Vec<i64> = batch.samples.iter().map(|s| s.start_timestamp).collect();
        assert_eq!(starts, [1_000, 500, 1_000]);
    });
}

#[test]
fn type_and_unit_are_labels_on_demand() {
    let mut symbols = SYMBOLS.to_vec();
    symbols.extend([&b"s"[..], b"__type__", b"__unit__", b"own", b"_a", b"\xff"]);
    let (up, by_job, own, own_unit) = ([1, 2], [3, 4], [6, 8], [7, 8]);
    // Labels; references of type, help and unit; the resulting labels.
    type Case<'c> = (&'c [[u64; 2]], [u64; 3], &'c [(&'c str, &'c str)]);
    let (name, job) = (("__name__", "up"), ("job", "a"));
    let kind = |kind| ("__type__", kind);
    let seconds = ("__unit__", "s");
    let cases: &[Case<'_>] = &[
        (&[up, by_job], [1, 0, 5], &[name, kind("counter"), seconds, job]),
        (&[up, by_job], [4, 0, 0], &[name, kind("gaugehistogram"), job]),
        (&[up], [0, 0, 5], &[name, seconds]),
        (&[up, by_job], [0, 4, 0], &[name, job]),
        (&[up], [99, 0, 0], &[name]),
        // The series' own labels stay if the metadata does not set them.
        (&[up, own, by_job], [0, 0, 0], &[name, kind("own"), job]),
        (&[up, own, own_unit, by_job], [2, 0, 0], &[name, kind("gauge"), job]),
        (&[up, own, by_job], [0, 0, 5], &[name, seconds, job]),
        // Unsorted labels keep their order.
        (&[[9, 4], up], [3, 0, 0], &[kind("histogram"), ("_a", "a"), name]),
        // Metadata whose help is refused still gives a type.
        (&[up], [5, 10, 0], &[name, kind("summary")]),
    ];
    for (pairs, [kind, help, unit], want) in cases {
        let mut series = series_of(&pairs.concat());
        let mut metadata = Vec::new();
        for (field, number) in [(1, *kind), (3, *help), (4, *unit)] {
            put_number(&mut metadata, field, number);
        }
        put(&mut series, 5, &metadata);
        let message = request(&symbols, &[series]);
        let mut targets = Vec::new();
        decode(Protocol::V2Typed, &message, |batch| {
            let batch = batch.expect("valid");
            assert_eq!(batch.series[0].labels.0, labels(want));
            targets = batch.rejections.targets().to_vec();
            assert_eq!(targets.is_empty(), *help != 10);
        });
        decode_with(Protocol::V2Typed, &message, Policy::Replay(&targets), |again| {
            assert_eq!(again.expect("what was accepted").series[0].labels.0, labels(want));
        });
        decode(Protocol::V2, &message, |batch| {
            let mut plain = Vec::new();
            for [name, value] in pairs.iter() {
                RawLabels::push(&mut plain, symbols[*name as usize], symbols[*value as usize]);
            }
            assert_eq!(batch.expect("valid").series[0].labels.0, plain);
        });
    }
}

#[test]
fn a_unit_counts_among_the_bytes_of_labels() {
    let limit = limits::LABEL_LIMITS.total_bytes;
    let unit = vec![b's'; limit];
    let symbols = [SYMBOLS, &[&unit]].concat();
    let mut series = series_of(&[1, 2]);
    let mut metadata = Vec::new();
    put_number(&mut metadata, 4, 5);
    put(&mut series, 5, &metadata);
    decode(Protocol::V2Typed, &request(&symbols, &[series]), |batch| {
        let batch = batch.expect("readable");
        let bytes = limit + "__name__up".len();
        let too_long = RejectReason::Labels(LabelError::TooLong { bytes, limit });
        assert!(reasons(&batch).contains(&too_long), "{:?}", reasons(&batch));
        assert!(batch.series.is_empty());
    });
}

#[test]
fn metadata_is_folded_by_name_and_stands_on_its_own() {
    let with = |mut series: Vec<u8>, kind, help| {
        let mut metadata = Vec::new();
        put_number(&mut metadata, 1, kind);
        put(&mut series, 5, &metadata);
        let mut metadata = Vec::new();
        put_number(&mut metadata, 3, help);
        put(&mut series, 5, &metadata);
        series
    };
    let series = [
        with(series_of(&[1, 2]), 1, 4),
        with(series_of(&[3, 4, 1, 2]), 2, 3),
        with(series_of(&[1, 2]), 0, 0),
        with(refs(&[1, 3]), 5, 0),
    ];
    decode(Protocol::V2, &request(SYMBOLS, &series), |batch| {
        let batch = batch.expect("readable");
        assert_eq!(reasons(&batch), [RejectReason::NoPoints]);
        assert_eq!(batch.without_metadata, 1, "the point of the third");
        let [up, job] = batch.metadata[..] else { panic!("{:?}", batch.metadata) };
        assert_eq!((up.family, up.kind, up.help), ("up", MetricType::Gauge, "job"));
        assert_eq!((job.family, job.kind, job.help), ("job", MetricType::Summary, ""));
    });
    let mut message = Vec::new();
    for (family, help) in [(&b"f"[..], &b"\xff"[..]), (b"", b"x"), (b"f", b"good")] {
        let mut entry = Vec::new();
        put(&mut entry, 2, family);
        put(&mut entry, 4, help);
        put(&mut message, 3, &entry);
    }
    decode(Protocol::V1, &message, |batch| {
        let batch = batch.expect("readable");
        assert_eq!(batch.rejections.targets(), [Target::Metadata(0), Target::Metadata(1)]);
        assert_eq!(batch.metadata.len(), 1);
    });
}

#[test]
fn what_makes_a_histogram_invalid() {
    let check = |edit: &dyn Fn(&mut Histogram), want: Result<(), &str>| {
        for mut histogram in [example_histogram(), example_float_histogram()] {
            edit(&mut histogram);
            let got = histogram.validate().map_err(|error| error.to_string());
            match want {
                Ok(()) => assert_eq!(got, Ok(())),
                Err(text) => assert!(got.clone().is_err_and(|got| got.contains(text)), "{got:?}"),
            }
        }
    };
    check(&|_| {}, Ok(()));
    check(&|h| h.schema = 77, Err("schema 77"));
    check(&|h| h.schema = -5, Err("schema -5"));
    check(&|h| h.schema = 52, Ok(()));
    check(&|h| h.zero_threshold = f64::NAN, Err("zero threshold"));
    check(&|h| h.zero_threshold = -1.0, Err("zero threshold"));
    check(&|h| h.custom_values = vec![1.0], Err("custom bounds"));
    check(&|h| h.positive_spans[1].offset = -1, Err("negative offset"));
    check(&|h| h.positive_spans[0].offset = i32::MIN, Err("smallest or largest"));
    check(&|h| h.positive_spans[1].offset = i32::MAX, Ok(()));
    check(&|h| h.negative_spans[1].offset = i32::MAX, Err("smallest or largest"));
    check(&|h| h.negative_spans[1].length = 1, Err("name 3 buckets, but there are 4"));
    check(&|h| h.positive_spans[1].length = u32::MAX, Err("positive side"));
    check(&|h| h.schema = -53, Err("custom buckets"));

    let integer = |count, zero_count, positive: &[i64]| {
        let positive_spans = vec![Span { offset: 0, length: positive.len() as u32 }];
        let counts = Counts::Integer {
            count,
            zero_count,
            positive: positive.to_vec(),
            negative: Vec::new(),
        };
        let negative_spans = Vec::new();
        Histogram { positive_spans, negative_spans, counts, ..example_histogram() }
    };
    let mismatch = |buckets, count| Err(HistogramError::CountMismatch { buckets, count });
    assert_eq!(integer(3, 0, &[1, 1]).validate(), Ok(()));
    assert_eq!(integer(2, 0, &[1, 1]).validate(), mismatch(3, 2));
    assert_eq!(integer(4, 0, &[1, 1]).validate(), mismatch(3, 4));
    let mut nan = integer(4, 0, &[1, 1]);
    nan.sum = f64::NAN;
    assert_eq!(nan.validate(), Ok(()));
    nan = integer(2, 0, &[1, 1]);
    nan.sum = f64::NAN;
    assert_eq!(nan.validate(), mismatch(3, 2));
    let (side, number, count) = ("positive", 2, -1.0);
    let negative = HistogramError::NegativeBucket { side, number, count };
    assert_eq!(integer(0, 0, &[1, -2]).validate(), Err(negative));
    let overflow = Err(HistogramError::CountOverflow);
    assert_eq!(integer(0, 0, &[i64::MAX, i64::MAX]).validate(), overflow);
    assert_eq!(integer(0, 2, &[i64::MAX, 0]).validate(), overflow);

    let float = |count, zero_count, bucket| {
        let counts =
            Counts::Float { count, zero_count, positive: vec![bucket], negative: Vec::new() };
        Histogram { counts, ..integer(0, 0, &[0]) }
    };
    assert_eq!(float(1.0, 0.0, 7.0).validate(), Ok(()), "float counts need not add up");
    for (histogram, want) in [
        (float(-1.0, 0.0, 0.0), HistogramError::NegativeCount("count")),
        (float(1.0, -2.0, 0.0), HistogramError::NegativeCount("zero count")),
        (float(1.0, 0.0, -3.0), HistogramError::NegativeBucket { side, number: 1, count: -3.0 }),
    ] {
        assert_eq!(histogram.validate(), Err(want));
    }
}

#[test]
fn what_makes_custom_buckets_invalid() {
    let custom = || Histogram {
        schema: -53,
        zero_threshold: 0.0,
        positive_spans: vec![Span { offset: 1, length: 2 }],
        negative_spans: Vec::new(),
        custom_values: vec![-1.0, 2.5],
        counts: Counts::Integer {
            count: 3,
            zero_count: 0,
            positive: vec![1, 1],
            negative: Vec::new(),
        },
        ..example_histogram()
    };
    assert_eq!(custom().validate(), Ok(()));
    let check = |edit: &dyn Fn(&mut Histogram), want: HistogramError| {
        let mut histogram = custom();
        edit(&mut histogram);
        assert_eq!(histogram.validate(), Err(want));
    };
    let bound = |number, bound| HistogramError::CustomBound { number, bound };
    check(&|h| h.custom_values = vec![2.0, 2.0], bound(2, 2.0));
    check(&|h| h.custom_values = vec![f64::NEG_INFINITY, 2.0], bound(1, f64::NEG_INFINITY));
    check(&|h| h.custom_values = vec![1.0, f64::INFINITY], bound(2, f64::INFINITY));
    let few = |bounds, extent| HistogramError::CustomTooFew { bounds, extent };
    check(&|h| h.custom_values = vec![1.0], few(1, 3));
    check(&|h| h.custom_values = Vec::new(), few(0, 3));
    check(&|h| h.zero_threshold = 0.1, HistogramError::CustomZero("threshold"));
    let (side, number, offset) = ("positive", 1, -1);
    check(
        &|h| h.positive_spans[0].offset = -1,
        HistogramError::NegativeOffset { side, number, offset },
    );
    let negative = vec![Span { offset: 0, length: 0 }];
    check(&|h| h.negative_spans = negative.clone(), HistogramError::CustomNegative("spans"));
    let mut nan = custom();
    nan.custom_values[1] = f64::NAN;
    assert!(matches!(nan.validate(), Err(HistogramError::CustomBound { number: 2, .. })));
}

#[test]
fn high_resolutions_are_reduced_on_the_way_in_and_on_replay() {
    let name = labels(&[("__name__", "h")]);
    let mut fine = example_histogram();
    fine.schema = 9;
    let message = {
        let mut batch = WriteBatch::default();
        batch.histograms.push(HistogramSample {
            timestamp: T,
            start_timestamp: 0,
            histogram: fine,
        });
        batch.series.push(entry(&name, 0, 0..0, 0..1, 0..0));
        wire::encode_v1(&batch)
    };
    for policy in [Policy::Accept, Policy::Replay(&[])] {
        decode_with(Protocol::V1, &message, policy, |batch| {
            let histogram = &batch.expect("valid").histograms[0].histogram;
            assert_eq!(histogram.schema, 8);
            assert_eq!(histogram.validate(), Ok(()));
        });
    }
}

fn entry(
    labels: &[u8],
    index: u32,
    samples: std::ops::Range<u32>,
    histograms: std::ops::Range<u32>,
    exemplars: std::ops::Range<u32>,
) -> SeriesEntry<'_> {
    SeriesEntry { labels: RawLabels(labels), index, samples, histograms, exemplars }
}

// Bombs: small bodies that expand to much.

#[test]
fn bombs_are_refused_in_little_memory() {
    let limit_of = |protocol, message: &[u8]| {
        let mut found = None;
        decode(protocol, message, |batch| match batch {
            Err(WireError::Limit { what, .. }) => found = Some(what),
            other => panic!("{:?}", other.map(|batch| batch.series.len())),
        });
        found.expect("a limit")
    };
    let repeated = |field: &[u8], count: usize| {
        let mut message = Vec::new();
        put(&mut message, 1, &field.repeat(count));
        message
    };
    let v1 = Protocol::V1;
    assert_eq!(limit_of(v1, &b"\x0a\x00".repeat(limits::MAX_SERIES_PER_REQUEST + 1)), "series");
    let samples = limits::MAX_SAMPLES_PER_REQUEST + 1;
    assert_eq!(limit_of(v1, &repeated(b"\x12\x00", samples)), "samples");
    let histograms = limits::MAX_HISTOGRAMS_PER_REQUEST + 1;
    assert_eq!(limit_of(v1, &repeated(b"\x22\x00", histograms)), "histograms");
    let exemplars = limits::MAX_EXEMPLARS_PER_REQUEST + 1;
    assert_eq!(limit_of(v1, &repeated(b"\x1a\x00", exemplars)), "exemplars");
    let entries = limits::MAX_METADATA_PER_REQUEST + 1;
    assert_eq!(limit_of(v1, &b"\x1a\x03\x12\x01f".repeat(entries)), "metadata entries");
    let v2 = Protocol::V2;
    assert_eq!(limit_of(v2, &b"\x22\x00".repeat(limits::MAX_SYMBOLS_PER_REQUEST + 1)), "symbols");

    let mut buckets = Vec::new();
    put(&mut buckets, 12, &vec![0; limits::MAX_HISTOGRAM_BUCKETS]);
    let mut one = Vec::new();
    put(&mut one, 4, &buckets);
    let enough = limits::MAX_BUCKETS_PER_REQUEST / limits::MAX_HISTOGRAM_BUCKETS + 1;
    assert_eq!(limit_of(v1, &repeated(&one, enough)), "buckets");

    // Each series is within the limits, but all of them together are not.
    let value = vec![b'x'; limits::LABEL_LIMITS.value_bytes];
    let symbols = [&b""[..], b"__name__", b"up", b"a", &value];
    let count = limits::MAX_LABEL_BYTES_PER_REQUEST / value.len() + 1;
    let series = vec![series_of(&[1, 2, 3, 4]); count];
    assert_eq!(limit_of(v2, &request(&symbols, &series)), "bytes of labels");
}

#[test]
fn a_series_or_histogram_that_is_a_bomb_is_refused_alone() {
    let value = vec![b'x'; 1 << 20];
    let symbols = [&b""[..], b"__name__", b"up", &value];
    let message = request(&symbols, &[series_of(&[1, 2, 3, 3]), series_of(&[1, 2])]);
    decode(Protocol::V2, &message, |batch| {
        let batch = batch.expect("readable");
        assert!(matches!(reasons(&batch)[..], [RejectReason::Labels(LabelError::TooLong { .. })]));
        assert_eq!(batch.series.len(), 1);
    });
    let limit = limits::MAX_HISTOGRAM_BUCKETS;
    for (field, value) in [(9, &[0][..]), (12, &[0]), (10, &[0; 8]), (13, &[0; 8]), (16, &[0; 8])] {
        let mut histogram = Vec::new();
        put(&mut histogram, field, &value.repeat(limit + 1));
        let mut series = refs(&[1, 2]);
        put(&mut series, 3, &histogram);
        put(&mut series, 2, &point(T, 1.0));
        decode(Protocol::V2, &request(SYMBOLS, &[series]), |batch| {
            let batch = batch.expect("readable");
            let want = RejectReason::Histogram(HistogramError::TooManyBuckets(limit));
            assert_eq!(reasons(&batch), [want]);
            assert_eq!((batch.samples.len(), batch.histograms.len()), (1, 0));
        });
    }
}

#[test]
fn every_truncation_is_an_error_or_less() {
    let mut series = series_of(&[1, 2, 3, 4]);
    put(&mut series, 3, &hex(HISTOGRAM_INT));
    put(&mut series, 4, &refs(&[3, 4]));
    put(&mut series, 5, b"\x08\x02\x18\x04");
    let message = request(SYMBOLS, &[series.clone(), series]);
    let mut whole = 0;
    for end in 0..message.len() {
        decode(Protocol::V2, &message[..end], |batch| {
            if let Ok(batch) = batch {
                whole += 1;
                assert!(batch.series.len() < 2);
            }
        });
    }
    assert_eq!(whole, SYMBOLS.len() + 2, "only between the fields of the request");
    let block = snappy::compress(&message).expect("small");
    let mut scratch = Scratch::default();
    for end in 0..block.len() {
        let body = Body { protocol: Protocol::V2, compressed: &block[..end] };
        let refused = wire::decode(body, &mut scratch, Policy::Accept);
        assert!(matches!(refused, Err(WireError::Snappy(_))), "{end}");
    }
}

// Properties.

fn any_float() -> impl Strategy<Value = f64> {
    any::<u64>().prop_map(f64::from_bits)
}

fn any_time() -> impl Strategy<Value = i64> {
    prop_oneof![Just(0), any::<i64>(), MIN_TIMESTAMP..=MAX_TIMESTAMP]
}

fn any_labels() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(("[a-c_]{1,3}|__name__", "\\PC{1,3}"), 0..4).prop_map(|pairs| {
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(n, v)| (&**n, &**v)).collect();
        labels(&pairs)
    })
}

fn any_spans() -> impl Strategy<Value = Vec<Span>> {
    let span = (-3..5i32, 0..3u32).prop_map(|(offset, length)| Span { offset, length });
    prop::collection::vec(span, 0..3)
}

fn any_histogram() -> impl Strategy<Value = Histogram> {
    let integer = (any::<u64>(), any::<u64>(), any::<Vec<i64>>(), any::<Vec<i64>>()).prop_map(
        |(count, zero_count, positive, negative)| Counts::Integer {
            count,
            zero_count,
            positive,
            negative,
        },
    );
    let floats = || prop::collection::vec(any_float(), 0..4);
    let float = (any_float(), any_float(), floats(), floats()).prop_map(
        |(count, zero_count, positive, negative)| Counts::Float {
            count,
            zero_count,
            positive,
            negative,
        },
    );
    let counts = prop_oneof![integer, float];
    let hint = (0..4u64).prop_map(ResetHint::from_number);
    let schema = prop_oneof![-4..9, Just(-53), any::<i32>().prop_map(|s| s.min(8))];
    (schema, any_float(), any_float(), hint, any_spans(), any_spans(), floats(), counts).prop_map(
        |(schema, zero_threshold, sum, reset_hint, positive, negative, custom_values, counts)| {
            let (positive_spans, negative_spans) = (positive, negative);
            Histogram {
                schema,
                zero_threshold,
                sum,
                reset_hint,
                positive_spans,
                negative_spans,
                custom_values,
                counts,
            }
        },
    )
}

/// The owned content of a batch.
#[derive(Debug, Clone)]
struct Content {
    series: Vec<SeriesContent>,
    metadata: Vec<(String, u64, String, String)>,
}

#[derive(Debug, Clone)]
struct SeriesContent {
    labels: Vec<u8>,
    samples: Vec<Sample>,
    histograms: Vec<HistogramSample>,
    exemplars: Vec<(Vec<u8>, f64, i64)>,
}

fn any_content() -> impl Strategy<Value = Content> {
    let sample = (any_time(), any_float()).prop_map(|(timestamp, value)| Sample {
        timestamp,
        start_timestamp: 0,
        value,
    });
    let histogram = (any_time(), any_histogram()).prop_map(|(timestamp, histogram)| {
        HistogramSample { timestamp, start_timestamp: 0, histogram }
    });
    let series = (
        any_labels(),
        prop::collection::vec(sample, 0..3),
        prop::collection::vec(histogram, 0..2),
        prop::collection::vec((any_labels(), any_float(), any_time()), 0..2),
    )
        .prop_map(|(labels, samples, histograms, exemplars)| SeriesContent {
            labels,
            samples,
            histograms,
            exemplars,
        });
    let entry = ("[a-z]{0,2}", 0..8u64, "\\PC{0,3}", "[a-z]{0,3}");
    (prop::collection::vec(series, 0..5), prop::collection::vec(entry, 0..3))
        .prop_map(|(series, metadata)| Content { series, metadata })
}

impl Content {
    fn batch(&self) -> WriteBatch<'_> {
        let mut batch = WriteBatch::default();
        for (index, series) in self.series.iter().enumerate() {
            let SeriesContent { labels, samples, histograms, exemplars } = series;
            let start = [batch.samples.len(), batch.histograms.len(), batch.exemplars.len()];
            batch.samples.extend_from_slice(samples);
            batch.histograms.extend_from_slice(histograms);
            batch.exemplars.extend(exemplars.iter().map(|(labels, value, timestamp)| {
                let (labels, value, timestamp) = (RawLabels(labels), *value, *timestamp);
                ExemplarEntry { labels, value, timestamp }
            }));
            let end = [batch.samples.len(), batch.histograms.len(), batch.exemplars.len()];
            let range = |i: usize| start[i] as u32..end[i] as u32;
            batch.series.push(entry(labels, index as u32, range(0), range(1), range(2)));
        }
        for (family, kind, help, unit) in &self.metadata {
            let kind = MetricType::from_number(*kind);
            batch.metadata.push(MetadataEntry { family, kind, help, unit });
        }
        batch
    }
}

/// A text that is equal for two batches only if all their bits are.
fn text(batch: &WriteBatch<'_>) -> String {
    let bits = |value: f64| value.to_bits();
    let mut out = String::new();
    for series in &batch.series {
        out += &format!("{} {:?}\n", series.index, series.labels);
        for at in series.samples.clone() {
            let sample = batch.samples[at as usize];
            let (time, start) = (sample.timestamp, sample.start_timestamp);
            out += &format!("  {time} {start} {:x}\n", bits(sample.value));
        }
        for at in series.histograms.clone() {
            let sample = &batch.histograms[at as usize];
            let (time, start) = (sample.timestamp, sample.start_timestamp);
            out += &format!("  {time} {start} {}\n", histogram_text(&sample.histogram));
        }
        for at in series.exemplars.clone() {
            let exemplar = &batch.exemplars[at as usize];
            let value = bits(exemplar.value);
            out += &format!("  {:?} {} {value:x}\n", exemplar.labels, exemplar.timestamp);
        }
    }
    out + &format!("{:?}", batch.metadata)
}

fn histogram_text(histogram: &Histogram) -> String {
    let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    let counts = match &histogram.counts {
        Counts::Float { count, zero_count, positive, negative } => {
            format!(
                "{:x?} {:x?} {:x?}",
                bits(&[*count, *zero_count]),
                bits(positive),
                bits(negative)
            )
        }
        integer => format!("{integer:?}"),
    };
    let Histogram { schema, reset_hint, positive_spans, negative_spans, .. } = histogram;
    let floats = bits(&[histogram.zero_threshold, histogram.sum]);
    let bounds = bits(&histogram.custom_values);
    let spans = (positive_spans, negative_spans);
    format!("{schema} {reset_hint:?} {spans:?} {floats:x?} {bounds:x?} {counts}")
}

fn text_pairs(labels: &[u8]) -> impl Iterator<Item = [String; 2]> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    RawLabels(labels).pairs().map(move |pair| {
        let (name, value) = pair.expect("labels");
        [text(name), text(value)]
    })
}

/// The same content as the generated message of version 1.
fn generated_v1(content: &Content) -> proto::v1::WriteRequest {
    let labels = |raw: &[u8]| {
        text_pairs(raw).map(|[name, value]| proto::v1::Label { name, value }).collect()
    };
    let series = content.series.iter().map(|series| proto::v1::TimeSeries {
        labels: labels(&series.labels),
        samples: series
            .samples
            .iter()
            .map(|s| proto::v1::Sample { value: s.value, timestamp: s.timestamp })
            .collect(),
        exemplars: series
            .exemplars
            .iter()
            .map(|(own, value, timestamp)| proto::v1::Exemplar {
                labels: labels(own),
                value: *value,
                timestamp: *timestamp,
            })
            .collect(),
        histograms: series.histograms.iter().map(generated_histogram).collect(),
    });
    let metadata = content.metadata.iter().map(|(family, kind, help, unit)| {
        let (metric_family_name, help, unit) = (family.clone(), help.clone(), unit.clone());
        proto::v1::MetricMetadata { r#type: *kind as i32, metric_family_name, help, unit }
    });
    proto::v1::WriteRequest { timeseries: series.collect(), metadata: metadata.collect() }
}

fn generated_histogram(sample: &HistogramSample) -> proto::v1::Histogram {
    use proto::v1::histogram::{Count, ZeroCount};
    let histogram = &sample.histogram;
    let spans = |spans: &[Span]| {
        let span = |s: &Span| proto::v1::BucketSpan { offset: s.offset, length: s.length };
        spans.iter().map(span).collect()
    };
    let mut message = proto::v1::Histogram {
        sum: histogram.sum,
        schema: histogram.schema,
        zero_threshold: histogram.zero_threshold,
        negative_spans: spans(&histogram.negative_spans),
        positive_spans: spans(&histogram.positive_spans),
        reset_hint: histogram.reset_hint as i32,
        timestamp: sample.timestamp,
        custom_values: histogram.custom_values.clone(),
        ..Default::default()
    };
    match histogram.counts.clone() {
        Counts::Integer { count, zero_count, positive, negative } => {
            message.count = Some(Count::CountInt(count));
            message.zero_count = Some(ZeroCount::ZeroCountInt(zero_count));
            message.positive_deltas = positive;
            message.negative_deltas = negative;
        }
        Counts::Float { count, zero_count, positive, negative } => {
            message.count = Some(Count::CountFloat(count));
            message.zero_count = Some(ZeroCount::ZeroCountFloat(zero_count));
            message.positive_counts = positive;
            message.negative_counts = negative;
        }
    }
    message
}

proptest! {
    /// The generated code reads what ours writes, and the reverse.
    #[test]
    fn we_agree_with_the_generated_code(content in any_content()) {
        let batch = content.batch();
        let generated = generated_v1(&content).encode_to_vec();
        assert!(wire::encode_v1(&batch) == generated);
        let ours = wire::encode_v2(&batch);
        let read = proto::v2::Request::decode(&ours[..]).expect("a request");
        assert_eq!(read.timeseries.len(), batch.series.len() + batch.metadata.len());
        let again = read.encode_to_vec();
        decode_with(Protocol::V2, &ours, Policy::Replay(&[]), |want| {
            let want = text(&want.expect("ours"));
            decode_with(Protocol::V2, &again, Policy::Replay(&[]), |again| {
                assert_eq!(text(&again.expect("theirs")), want);
            });
        });
    }

    /// An encoded batch decodes to an equal one, without its empty series.
    #[test]
    fn encoded_and_decoded_is_the_same(content in any_content()) {
        let batch = content.batch();
        let mut want = batch.clone();
        want.series.retain(|series| {
            !(series.samples.is_empty() && series.histograms.is_empty()
                && series.exemplars.is_empty())
        });
        want.metadata.retain(|entry| !entry.family.is_empty());
        let (encoded_v1, encoded_v2) = (wire::encode_v1(&batch), wire::encode_v2(&batch));
        decode_with(Protocol::V1, &encoded_v1, Policy::Replay(&[]), |again| {
            assert_eq!(text(&again.expect("valid")), text(&want));
        });
        // Version 2 leaves out empty metadata, and merges entries by name.
        want.metadata.retain(|e| {
            e.kind != MetricType::Unknown || !e.help.is_empty() || !e.unit.is_empty()
        });
        let mut folded: Vec<MetadataEntry<'_>> = Vec::new();
        for entry in &want.metadata {
            match folded.iter_mut().find(|known| known.family == entry.family) {
                Some(known) => *known = *entry,
                None => folded.push(*entry),
            }
        }
        want.metadata = folded;
        decode_with(Protocol::V2, &encoded_v2, Policy::Replay(&[]), |again| {
            assert_eq!(text(&again.expect("valid")), text(&want));
        });
    }

    /// A replay without the refused targets gives the accepted content, also of bodies that are
    /// damaged but still can be read.
    #[test]
    fn a_replay_repeats_what_was_accepted(
        content in any_content(),
        protocol in prop::sample::select(&[Protocol::V1, Protocol::V2, Protocol::V2Typed][..]),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        omitted in any::<prop::sample::Index>(),
        within in prop::option::of((MIN_TIMESTAMP..=MAX_TIMESTAMP, any::<[Option<u32>; 2]>())),
    ) {
        let policy = match within {
            None => Policy::Accept,
            Some((now, hours)) => {
                let [age, lead] = hours.map(|hours| Some(Duration::from_secs(u64::from(hours?) * 3_600)));
                let times = SampleTimes::at(now, TimeLimits { age, lead, retention: None });
                Policy::AcceptWithin { times, bytes: usize::MAX }
            }
        };
        let batch = content.batch();
        let mut message = match protocol {
            Protocol::V1 => wire::encode_v1(&batch),
            Protocol::V2 | Protocol::V2Typed | Protocol::V2Longs => wire::encode_v2(&batch),
        };
        for (at, byte) in damage {
            if !message.is_empty() {
                let at = at.index(message.len());
                message[at] = byte;
            }
        }
        decode_with(protocol, &message, policy, |accepted| {
            let Ok(accepted) = accepted else { return };
            if let Policy::AcceptWithin { times, .. } = policy {
                let samples = accepted.samples.iter().map(|sample| sample.timestamp);
                let histograms = accepted.histograms.iter().map(|sample| sample.timestamp);
                let exemplars = accepted.exemplars.iter().map(|exemplar| exemplar.timestamp);
                let mut all = samples.chain(histograms).chain(exemplars);
                assert!(all.all(|timestamp| times.check(timestamp).is_ok()));
            }
            let mut targets = accepted.rejections.targets().to_vec();
            decode_with(protocol, &message, Policy::Replay(&targets), |again| {
                let again = again.expect("what was accepted");
                assert_eq!(text(&again), text(&accepted));
                assert!(again.rejections.is_empty());
            });
            // The store refuses one more series: the replay leaves out that series only.
            if accepted.series.is_empty() {
                return;
            }
            let gone = accepted.series[omitted.index(accepted.series.len())].index;
            targets.push(Target::Series(gone));
            let mut rest = accepted.clone();
            rest.series.retain(|series| series.index != gone);
            decode_with(protocol, &message, Policy::Replay(&targets), |again| {
                assert_eq!(text(&again.expect("what was accepted")), text(&rest));
            });
        });
    }

    /// Decoding any bytes returns or fails, but does not panic, whatever the policy.
    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for protocol in [Protocol::V1, Protocol::V2, Protocol::V2Typed] {
            for policy in [Policy::Accept, Policy::Replay(&[])] {
                decode_with(protocol, &bytes, policy, |batch| drop(batch.map(|b| text(&b))));
            }
        }
    }
}

/// A version 1 series with this field repeated, each time empty.
fn series_of_empty(field: u8, count: usize) -> Vec<u8> {
    let mut series = labels(&[("__name__", "m")]);
    series.extend([field << 3 | 2, 0].repeat(count));
    crate::support::proto::Message::default().bytes(1, series).0
}

#[test]
fn a_batch_that_takes_far_more_memory_than_its_message_is_refused_within_a_bound() {
    let check = |message: &[u8], expands: bool| {
        let within = 3 * message.len() + (16 << 10);
        let policy = Policy::AcceptWithin { times: SampleTimes::ANY, bytes: within };
        decode_with(Protocol::V1, message, policy, |batch| match batch {
            Err(WireError::Expands(most)) => assert!(expands && most == within, "{most}"),
            other => assert!(!expands && other.is_ok(), "{other:?}"),
        });
        decode(Protocol::V1, message, |batch| drop(batch.expect("it is valid")));
    };
    // Two bytes for each histogram and exemplar, and for each float of the series.
    for message in [series_of_empty(4, 20_000), series_of_empty(3, 20_000)] {
        check(&message, true);
    }
    check(&series_of_empty(2, 2).repeat(20_000), true);
    // A body as usual senders send it.
    let usual = |n: u32| {
        let mut series = labels(&[("__name__", "up"), ("job", &format!("job-{n}"))]);
        let sample = [&[2 << 3 | 2, 16, 9][..], &[0; 8], &[16], &hex("80d095ffbc31")].concat();
        series.extend(sample);
        crate::support::proto::Message::default().bytes(1, series).0
    };
    check(&(0..20_000).flat_map(usual).collect::<Vec<u8>>(), false);
}
