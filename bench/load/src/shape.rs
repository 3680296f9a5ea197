//! A synthetic fleet: ten labels for each series, four kinds of values.
//!
//! 45 % constants, 25 % counters, 20 % integer gauges, 10 % decimal walks, as in a typical fleet.
//! The same seed gives the same values.

use clap::Args;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// Milliseconds between two scrapes.
pub const SCRAPE_INTERVAL: i64 = 15_000;

/// The series of a fleet.
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

    /// The labels of a series by its number, before it is replaced for the first time.
    pub fn labels(&self, series: usize) -> Pairs {
        self.labels_after(series, 0)
    }

    /// The labels of a series by its number and the number of its replacements: each is a new pod.
    pub fn labels_after(&self, series: usize, replaced: usize) -> Pairs {
        let (metric, host) = (series / self.per_metric, series % self.per_metric);
        let replica_set = metric.wrapping_mul(2_654_435_761) + (replaced << 48);
        [
            ("__name__", self.metric(metric)),
            ("availability_zone", format!("eu-central-1{}", ["a", "b", "c"][host % 3])),
            ("cluster", format!("production-cluster-{}", host % 7)),
            ("container", "application-server".to_owned()),
            ("environment", "production".to_owned()),
            ("instance", format!("10.{}.{}.{}:9100", host % 7, host / 250, host % 250)),
            ("job", "kubernetes-service-endpoints".to_owned()),
            ("namespace", format!("team-{}", metric % 40)),
            ("pod", format!("application-server-{replica_set:08x}-{host:05}")),
            ("service", format!("service-of-the-application-{}", metric % 100)),
        ]
    }
}

/// The values of a fleet, scrape by scrape.
pub struct Values {
    values: Vec<f64>,
    rng: SmallRng,
}

impl Values {
    /// First values of `series` series.
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
