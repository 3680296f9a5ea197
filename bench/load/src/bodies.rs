//! A synthetic fleet, ten labels a series, four kinds of values, and its remote-write 1.0 bodies.
//!
//! 45 % constants, 25 % counters, 20 % integer gauges, 10 % decimal walks, as in a usual fleet.
//! The same seed gives the same bodies.

use clap::Args;
use promkairos::model::RawLabels;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// Milliseconds between two scrapes.
pub const SCRAPE_INTERVAL: i64 = 15_000;

/// Which series a fleet has.
#[derive(Debug, Clone, Args)]
pub struct Shape {
    /// Series.
    #[arg(long, default_value_t = 200_000)]
    pub series: usize,
    /// Series that share a metric name.
    #[arg(long, default_value_t = 400)]
    pub per_metric: usize,
    /// First part of the metric names.
    #[arg(long, default_value = "bench_subsystem")]
    pub prefix: String,
}

/// Names and values of the labels of one series, the metric's name first.
pub type Pairs = [(&'static str, String); 10];

impl Shape {
    /// The name of a metric by its number.
    pub fn metric(&self, metric: usize) -> String {
        format!("{}_{metric:05}_operations_total", self.prefix)
    }

    /// The labels of a series by its number.
    pub fn labels(&self, series: usize) -> Pairs {
        let (metric, host) = (series / self.per_metric, series % self.per_metric);
        [
            ("__name__", self.metric(metric)),
            ("availability_zone", format!("eu-central-1{}", ["a", "b", "c"][host % 3])),
            ("cluster", format!("production-cluster-{}", host % 7)),
            ("container", "application-server".to_owned()),
            ("environment", "production".to_owned()),
            ("instance", format!("10.{}.{}.{}:9100", host % 7, host / 250, host % 250)),
            ("job", "kubernetes-service-endpoints".to_owned()),
            ("namespace", format!("team-{}", metric % 40)),
            (
                "pod",
                format!("application-server-{:08x}-{host:05}", metric.wrapping_mul(2_654_435_761)),
            ),
            ("service", format!("service-of-the-application-{}", metric % 100)),
        ]
    }
}

/// Series of a fleet and their present values.
pub struct Fleet {
    labels: Vec<Vec<u8>>,
    values: Values,
}

impl Fleet {
    /// The series of this shape.
    pub fn new(shape: &Shape) -> Self {
        let labels = (0..shape.series).map(|series| raw_labels(&shape.labels(series))).collect();
        Self { labels, values: Values::new(shape.series) }
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
                let value = self.values.next(series);
                push_series(&mut message, &self.labels[series], value, timestamp);
            }
            bodies.push(encoder.compress_vec(&message).expect("a body below 4 GiB"));
        }
        bodies
    }
}

/// The values of a fleet, scrape by scrape.
pub struct Values {
    values: Vec<f64>,
    rng: SmallRng,
}

impl Values {
    /// First values of so many series.
    pub fn new(series: usize) -> Self {
        let mut rng = SmallRng::seed_from_u64(42);
        let values = (0..series).map(|_| f64::from(rng.random_range(0..1000))).collect();
        Self { values, rng }
    }

    /// The next value of a series.
    pub fn next(&mut self, series: usize) -> f64 {
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

fn raw_labels(pairs: &Pairs) -> Vec<u8> {
    let mut raw = Vec::new();
    for (name, value) in pairs {
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
