//! The remote-write bodies of a share of a fleet, scrape by scrape.
//!
//! A share is sent over one connection, which keeps the scrapes of a series in order, as a shard of
//! Prometheus does. Every body has new times and values. With churn, new series replace old ones at
//! a steady rate; the old ones get no stale marker.

use std::ops::Range;

use clap::{Args, ValueEnum};
use promkairos::model::{RawLabels, Sample, SeriesEntry, WriteBatch};
use promkairos::wire::{encode_v1, encode_v2};

use crate::shape::{Pairs, SCRAPE_INTERVAL, Shape, Values};

/// Scrapes in an hour.
const SCRAPES_AN_HOUR: f64 = 3_600_000.0 / SCRAPE_INTERVAL as f64;

/// The form of the bodies.
#[derive(Debug, Clone, Args)]
pub struct Form {
    /// Version of remote write.
    #[arg(long, value_enum, default_value_t = Protocol::V1)]
    pub protocol: Protocol,
    /// Samples in a request.
    #[arg(long, default_value_t = 2000)]
    pub samples: usize,
    /// Percent of the series that are replaced by new ones in an hour of scrapes.
    #[arg(long, default_value_t = 0.0)]
    pub churn: f64,
}

/// A version of remote write.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Protocol {
    #[value(name = "1.0")]
    V1,
    #[value(name = "2.0")]
    V2,
}

impl Protocol {
    /// The headers of its requests.
    pub fn headers(self) -> &'static str {
        match self {
            Self::V1 => {
                "Content-Type: application/x-protobuf\r\nContent-Encoding: snappy\r\n\
                 X-Prometheus-Remote-Write-Version: 0.1.0\r\n"
            }
            Self::V2 => {
                "Content-Type: application/x-protobuf;proto=io.prometheus.write.v2.Request\r\n\
                 Content-Encoding: snappy\r\nX-Prometheus-Remote-Write-Version: 2.0.0\r\n"
            }
        }
    }
}

/// Some series of a fleet and their current values.
pub struct Share {
    shape: Shape,
    form: Form,
    series: Range<usize>,
    /// Encoded labels of each series.
    labels: Vec<Vec<u8>>,
    values: Values,
    /// Scrapes made so far.
    scrapes: usize,
}

impl Share {
    /// The share with the series of these numbers.
    pub fn new(shape: &Shape, form: &Form, series: Range<usize>) -> Self {
        let labels = series.clone().map(|number| raw_labels(&shape.labels(number))).collect();
        let values = Values::new(series.len());
        Self { shape: shape.clone(), form: form.clone(), series, labels, values, scrapes: 0 }
    }

    /// Requests that one scrape takes.
    pub fn requests_a_scrape(&self) -> usize {
        self.series.len().div_ceil(self.form.samples)
    }

    /// Replaces series as during this number of scrapes, without making the scrapes.
    pub fn skip(&mut self, scrapes: usize) {
        for _ in 0..scrapes {
            self.replace_series();
            self.scrapes += 1;
        }
    }

    /// The Snappy bodies of the next scrape, at `timestamp` in milliseconds.
    pub fn scrape(&mut self, timestamp: i64) -> Vec<Vec<u8>> {
        self.replace_series();
        self.scrapes += 1;
        let mut encoder = snap::raw::Encoder::new();
        let mut bodies = Vec::with_capacity(self.requests_a_scrape());
        for first in (0..self.series.len()).step_by(self.form.samples) {
            let last = (first + self.form.samples).min(self.series.len());
            let batch = batch(&self.labels[first..last], |i| Sample {
                timestamp,
                start_timestamp: 0,
                value: self.values.next(first + i),
            });
            let message = match self.form.protocol {
                Protocol::V1 => encode_v1(&batch),
                Protocol::V2 => encode_v2(&batch),
            };
            bodies.push(encoder.compress_vec(&message).expect("a body below 4 GiB"));
        }
        bodies
    }

    /// Replaces the series that are due since the previous scrape. The order runs through the whole
    /// fleet; each share replaces its own series.
    fn replace_series(&mut self) {
        let all = self.shape.series;
        let an_hour = all as f64 * self.form.churn / 100.0;
        let by = |scrapes: usize| (scrapes as f64 * an_hour / SCRAPES_AN_HOUR) as usize;
        for turn in by(self.scrapes.saturating_sub(1))..by(self.scrapes) {
            let number = turn % all;
            if self.series.contains(&number) {
                let labels = self.shape.labels_after(number, turn / all + 1);
                self.labels[number - self.series.start] = raw_labels(&labels);
            }
        }
    }
}

/// One sample of each of these series.
fn batch(labels: &[Vec<u8>], sample: impl FnMut(usize) -> Sample) -> WriteBatch<'_> {
    let series = (0..).zip(labels).map(|(index, labels)| SeriesEntry {
        labels: RawLabels(labels),
        index,
        samples: index..index + 1,
        histograms: 0..0,
        exemplars: 0..0,
    });
    let samples = (0..labels.len()).map(sample).collect();
    WriteBatch { series: series.collect(), samples, ..WriteBatch::default() }
}

fn raw_labels(pairs: &Pairs) -> Vec<u8> {
    let mut raw = Vec::new();
    for (name, value) in pairs {
        RawLabels::push(&mut raw, name.as_bytes(), value.as_bytes());
    }
    raw
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use promkairos::model::{Body, Protocol as WireProtocol};
    use promkairos::wire::{Policy, Scratch, decode};

    use super::*;

    const SERIES: usize = 1000;

    fn share(protocol: Protocol, churn: f64, series: Range<usize>) -> Share {
        let shape = Shape { series: SERIES, per_metric: 400, prefix: "bench_subsystem".to_owned() };
        Share::new(&shape, &Form { protocol, samples: 300, churn }, series)
    }

    /// The labels of the series in the bodies; each has one sample, at `timestamp`.
    fn labels(protocol: WireProtocol, bodies: &[Vec<u8>], timestamp: i64) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        for compressed in bodies {
            let mut scratch = Scratch::default();
            let batch = decode(Body { protocol, compressed }, &mut scratch, Policy::Accept);
            let batch = batch.expect("a body");
            assert_eq!(batch.series.len(), batch.samples.len());
            assert!(batch.samples.iter().all(|sample| sample.timestamp == timestamp));
            let canonical =
                |entry: &SeriesEntry<'_>| entry.labels.canonical().expect("labels").into();
            all.extend(batch.series.iter().map(canonical));
        }
        all
    }

    #[test]
    fn both_protocols_and_all_shares_bring_each_series_once() {
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for series in [0..500, 500..SERIES] {
            let bodies = share(Protocol::V1, 0.0, series.clone()).scrape(7);
            assert_eq!(bodies.len(), 2);
            old.extend(labels(WireProtocol::V1, &bodies, 7));
            let bodies = share(Protocol::V2, 0.0, series).scrape(7);
            new.extend(labels(WireProtocol::V2, &bodies, 7));
        }
        assert_eq!(old, new);
        assert_eq!(old.into_iter().collect::<BTreeSet<_>>().len(), SERIES);
    }

    #[test]
    fn a_tenth_of_the_series_gives_way_in_an_hour() {
        let mut all = BTreeSet::new();
        for series in [0..500, 500..SERIES] {
            let mut share = share(Protocol::V1, 10.0, series);
            for scrape in 0..=240 {
                all.extend(labels(WireProtocol::V1, &share.scrape(scrape), scrape));
            }
        }
        assert_eq!(all.len(), SERIES + SERIES / 10);
    }

    #[test]
    fn skipped_scrapes_leave_the_series_that_made_ones_leave() {
        let (mut made, mut skipped) =
            (share(Protocol::V1, 10.0, 0..500), share(Protocol::V1, 10.0, 0..500));
        for scrape in 0..240 {
            made.scrape(scrape);
        }
        skipped.skip(240);
        let next = |share: &mut Share| labels(WireProtocol::V1, &share.scrape(7), 7);
        assert_eq!(next(&mut skipped), next(&mut made));
    }
}
