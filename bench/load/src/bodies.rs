//! Remote-write 1.0 bodies of a synthetic fleet: ten labels a series, four kinds of values.
//!
//! 45 % constants, 25 % counters, 20 % integer gauges, 10 % decimal walks, as in a usual fleet.
//! The same seed gives the same bodies.

use promkairos::model::RawLabels;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// Series of the fleet and their present values.
pub struct Fleet {
    labels: Vec<Vec<u8>>,
    values: Vec<f64>,
    rng: SmallRng,
}

impl Fleet {
    /// `count` series; about 400 series share a metric name.
    pub fn new(count: usize) -> Self {
        let labels = (0..count).map(series_labels).collect();
        let mut rng = SmallRng::seed_from_u64(42);
        let values = (0..count).map(|_| f64::from(rng.random_range(0..1000))).collect();
        Self { labels, values, rng }
    }

    /// How many series.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// The snappy bodies of one scrape of all series at `timestamp`, `samples` in each.
    pub fn scrape(&mut self, timestamp: i64, samples: usize) -> Vec<Vec<u8>> {
        let mut encoder = snap::raw::Encoder::new();
        let mut message = Vec::with_capacity(samples * 400);
        let mut bodies = Vec::with_capacity(self.labels.len().div_ceil(samples));
        for first in (0..self.labels.len()).step_by(samples) {
            message.clear();
            for series in first..(first + samples).min(self.labels.len()) {
                let value = self.next_value(series);
                push_series(&mut message, &self.labels[series], value, timestamp);
            }
            bodies.push(encoder.compress_vec(&message).expect("a body below 4 GiB"));
        }
        bodies
    }

    fn next_value(&mut self, series: usize) -> f64 {
        let value = &mut self.values[series];
        match series % 20 {
            0..9 => {}
            9..14 => *value += f64::from(self.rng.random_range(0..50)),
            14..18 => *value = f64::from(self.rng.random_range(0..200)),
            _ => *value = ((*value + self.rng.random_range(-1.0..1.0)) * 1000.0).round() / 1000.0,
        }
        *value
    }
}

fn series_labels(series: usize) -> Vec<u8> {
    let metric = series / 400;
    let host = series % 400;
    let pairs = [
        ("__name__", format!("bench_subsystem_{metric:05}_operations_total")),
        ("availability_zone", format!("eu-central-1{}", ["a", "b", "c"][host % 3])),
        ("cluster", format!("production-cluster-{}", host % 7)),
        ("container", "application-server".to_owned()),
        ("environment", "production".to_owned()),
        ("instance", format!("10.{}.{}.{}:9100", host % 7, host / 250, host % 250)),
        ("job", "kubernetes-service-endpoints".to_owned()),
        ("namespace", format!("team-{}", metric % 40)),
        ("pod", format!("application-server-{:08x}-{host:05}", metric.wrapping_mul(2_654_435_761))),
        ("service", format!("service-of-the-application-{}", metric % 100)),
    ];
    let mut raw = Vec::new();
    for (name, value) in &pairs {
        RawLabels::push(&mut raw, name.as_bytes(), value.as_bytes());
    }
    raw
}

/// `repeated TimeSeries timeseries = 1 { repeated Label labels = 1; repeated Sample samples = 2 }`
fn push_series(out: &mut Vec<u8>, labels: &[u8], value: f64, timestamp: i64) {
    let mut sample = Vec::with_capacity(20);
    sample.push(0x09);
    sample.extend_from_slice(&value.to_le_bytes());
    sample.push(0x10);
    push_varint(&mut sample, timestamp as u64);
    out.push(0x0A);
    push_varint(out, (labels.len() + 2 + sample.len()) as u64);
    out.extend_from_slice(labels);
    out.push(0x12);
    out.push(sample.len() as u8);
    out.extend_from_slice(&sample);
}

/// Appends a protobuf varint.
pub fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
