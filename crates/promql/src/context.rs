//! What all operators of one query share: settings, limits, cancellation, annotations and counts.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;

use super::annotations::{Annotation, Annotations};
use super::budget::Budget;
use super::cost::{Limit, Limits};
use super::counts::SampleCounts;
use super::error::{Costly, EVALUATION, QueryError};
use super::regex_compiler::{CompileDeadline, RegexCompiler};
use super::settings::{CounterSign, NameRemoval, Settings, StartTimestamps};

/// What the operators of one query share.
#[derive(Debug)]
pub(crate) struct Context {
    /// The lookback delta in milliseconds.
    pub lookback: i64,
    /// When the metric name is removed.
    pub name_removal: NameRemoval,
    /// Whether start timestamps show counter resets.
    pub start_timestamps: StartTimestamps,
    /// How a metric is recognized as a counter.
    pub counter_sign: CounterSign,
    /// The memory budget.
    pub budget: Arc<Budget>,
    /// Compiles the regular expressions of `label_replace`.
    pub regex_compiler: Arc<RegexCompiler>,
    max_queue: usize,
    began: Instant,
    /// Samples that the query looked at, as Prometheus counts them.
    pub counts: SampleCounts,
    annotations: Mutex<Annotations>,
    deadline: Instant,
    limits: Limits,
    canceled: AtomicBool,
    /// A limit that was exceeded in code that cannot return an error: the text and the setting.
    refused: OnceLock<(String, &'static str)>,
}

impl Context {
    /// For a query that began at `begin`.
    pub(crate) fn new(
        settings: &Settings,
        lookback: i64,
        counts: SampleCounts,
        limits: Limits,
        begin: Instant,
    ) -> Self {
        Self {
            lookback,
            name_removal: settings.name_removal,
            start_timestamps: settings.start_timestamps,
            counter_sign: settings.counter_sign,
            budget: settings.budget(),
            regex_compiler: Arc::clone(&settings.regex_compiler),
            max_queue: settings.max_queue,
            began: begin,
            counts,
            annotations: Mutex::default(),
            deadline: begin + limits.duration.most,
            limits,
            canceled: AtomicBool::new(false),
            refused: OnceLock::new(),
        }
    }

    /// Fails if the query is canceled, its time is over, or it has taken more samples than it may.
    pub(crate) fn check(&self) -> Result<(), QueryError> {
        self.check_with(0)
    }

    /// Like `check`, for a query that has also taken `samples` that are not counted yet.
    pub(crate) fn check_with(&self, samples: u64) -> Result<(), QueryError> {
        if self.canceled.load(Relaxed) {
            return Err(match self.refused.get() {
                Some((what, setting)) => QueryError::Limit { what: what.clone(), setting },
                None => QueryError::Canceled,
            });
        }
        let taken = self.counts.taken().saturating_add(samples);
        within(taken, self.limits.samples, Costly::Samples)?;
        if Instant::now() > self.deadline {
            return Err(self.late(EVALUATION));
        }
        Ok(())
    }

    /// The deadline for compiling its regular expressions.
    pub(crate) fn compile_deadline(&self) -> CompileDeadline {
        let Limit { most: limit, of } = self.limits.duration;
        CompileDeadline { began: self.began, limit, of, max_queue: self.max_queue }
    }

    /// Counts the series of a selector. Fails if they are too many.
    pub(crate) fn add_series(&self, series: usize) -> Result<(), QueryError> {
        self.counts.add_series(series as u64);
        within(self.counts.series(), self.limits.series, Costly::Series)
    }

    /// The error of a query whose time is over in `place`.
    pub(crate) fn late(&self, place: &'static str) -> QueryError {
        let Limit { most, of } = self.limits.duration;
        QueryError::TimedOut { place, limit: most, of }
    }

    /// Makes every later check fail.
    pub(crate) fn cancel(&self) {
        self.canceled.store(true, Relaxed);
    }

    /// Makes every later check fail with this limit.
    pub(crate) fn refuse(&self, error: &QueryError) {
        if let Some(setting) = error.setting() {
            let _ = self.refused.set((error.to_string(), setting));
        }
        self.cancel();
    }

    /// When the time is over.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Adds an annotation to the answer.
    pub(crate) fn annotate(&self, annotation: Annotation) {
        self.annotations.lock().add(annotation);
    }

    /// Adds annotations to the answer.
    pub(crate) fn annotate_all(&self, annotations: Annotations) {
        self.annotations.lock().merge(annotations);
    }

    /// Takes out the annotations.
    pub(crate) fn take_annotations(&self) -> Annotations {
        std::mem::take(&mut self.annotations.lock())
    }

    /// Whether the metric name is removed only at the end.
    pub(crate) fn delays_names(&self) -> bool {
        self.name_removal == NameRemoval::Delayed
    }
}

fn within(cost: u64, limit: Option<Limit<u64>>, what: Costly) -> Result<(), QueryError> {
    match limit {
        Some(Limit { most, of }) if cost > most => {
            Err(QueryError::TooCostly { what, limit: most, of })
        }
        _ => Ok(()),
    }
}
