//! Owned batches for tests: built series by series, borrowed as a `WriteBatch`.

use promkairos::model::{
    ExemplarEntry, Histogram, HistogramSample, Labels, MetadataEntry, MetricType, RawLabels,
    Sample, SeriesEntry, WriteBatch,
};

/// A batch under construction. Points belong to the series begun last.
#[derive(Debug, Clone, Default)]
pub(crate) struct Batch {
    series: Vec<Series>,
    metadata: Vec<(String, MetricType, String, String)>,
}

#[derive(Debug, Clone)]
struct Series {
    raw: Vec<u8>,
    samples: Vec<(Sample, Option<i64>)>,
    histograms: Vec<HistogramSample>,
    exemplars: Vec<(Vec<u8>, f64, i64)>,
}

impl Batch {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Begins a series with these labels, in this order.
    pub(crate) fn series(mut self, labels: &[(&str, &str)]) -> Self {
        let mut raw = Vec::new();
        for (name, value) in labels {
            RawLabels::push(&mut raw, name.as_bytes(), value.as_bytes());
        }
        self.begin(raw);
        self
    }

    /// Begins a series.
    pub(crate) fn labels(mut self, labels: &Labels) -> Self {
        self.begin(labels.as_bytes().to_vec());
        self
    }

    fn begin(&mut self, raw: Vec<u8>) {
        let (samples, histograms, exemplars) = Default::default();
        self.series.push(Series { raw, samples, histograms, exemplars });
    }

    fn last(&mut self) -> &mut Series {
        self.series.last_mut().expect("a series was begun")
    }

    pub(crate) fn sample(mut self, timestamp: i64, value: f64) -> Self {
        self.last().samples.push((Sample { timestamp, start_timestamp: 0, value }, None));
        self
    }

    pub(crate) fn long(mut self, timestamp: i64, long: i64) -> Self {
        let sample = Sample { timestamp, start_timestamp: 0, value: long as f64 };
        self.last().samples.push((sample, Some(long)));
        self
    }

    pub(crate) fn histogram(mut self, timestamp: i64, histogram: Histogram) -> Self {
        let start_timestamp = 0;
        self.last().histograms.push(HistogramSample { timestamp, start_timestamp, histogram });
        self
    }

    pub(crate) fn exemplar(mut self, timestamp: i64, value: f64, labels: &[(&str, &str)]) -> Self {
        let own = Labels::from_pairs(labels.iter().copied()).expect("valid exemplar labels");
        self.last().exemplars.push((own.as_bytes().to_vec(), value, timestamp));
        self
    }

    pub(crate) fn metadata(
        mut self,
        family: &str,
        kind: MetricType,
        help: &str,
        unit: &str,
    ) -> Self {
        self.metadata.push((family.into(), kind, help.into(), unit.into()));
        self
    }

    /// The batch as a store takes it.
    pub(crate) fn build(&self) -> WriteBatch<'_> {
        let mut batch = WriteBatch::default();
        for (index, series) in self.series.iter().enumerate() {
            let at = |len: usize| u32::try_from(len).expect("a small batch");
            let (s, h, e) =
                (at(batch.samples.len()), at(batch.histograms.len()), at(batch.exemplars.len()));
            for (sample, long) in &series.samples {
                batch.longs.extend(long.map(|long| (at(batch.samples.len()), long)));
                batch.samples.push(*sample);
            }
            batch.histograms.extend(series.histograms.iter().cloned());
            batch.exemplars.extend(series.exemplars.iter().map(|(raw, value, timestamp)| {
                ExemplarEntry { labels: RawLabels(raw), value: *value, timestamp: *timestamp }
            }));
            batch.series.push(SeriesEntry {
                labels: RawLabels(&series.raw),
                index: at(index),
                samples: s..at(batch.samples.len()),
                histograms: h..at(batch.histograms.len()),
                exemplars: e..at(batch.exemplars.len()),
            });
        }
        batch.metadata.extend(
            self.metadata.iter().map(|(family, kind, help, unit)| MetadataEntry {
                family,
                kind: *kind,
                help,
                unit,
            }),
        );
        batch
    }
}
