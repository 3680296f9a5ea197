//! Remote-write bodies: published vectors both ways, policy, hostile bytes.

use promkairos::model::{Body, MetricType, Protocol, RawLabels, Sample};
use promkairos::wire::{self, Policy, Scratch, v1, v2};

const T: i64 = 1_700_000_000_000;
const V1_UP: &str = "0a2c0a0e0a085f5f6e616d655f5f120275700a080a036a6f6212016112\
                     1009000000000000f03f1080d095ffbc31";
const V2_UP: &str = "220022085f5f6e616d655f5f2202757022036a6f622201612a230a04010203041217\
                     09000000000000f03f1080d095ffbc3118f08195ffbc312a020802";
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
    let batch = v1::decode(&message, &mut arena, Policy::Accept).expect("valid");
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
    let batch = v2::decode(&message, &mut arena, Policy::Accept).expect("valid");
    assert_eq!(batch.series.len(), 1);
    assert_eq!(batch.series[0].labels.0, labels(&[("__name__", "up"), ("job", "a")]));
    let start_timestamp = 1_699_999_990_000;
    assert_eq!(batch.samples, [Sample { timestamp: T, start_timestamp, value: 1.0 }]);
    let [entry] = batch.metadata[..] else { panic!("one family") };
    assert_eq!((entry.family, entry.kind), ("up", MetricType::Gauge));
    // Written again, the metadata rides on a series of its own; the rest is the same.
    let mut without = batch.clone();
    without.metadata.clear();
    let plain = V2_UP.replace("2a230a04", "2a1f0a04").replace("2a020802", "");
    assert_eq!(wire::encode_v2(&without), hex(&plain));
}
