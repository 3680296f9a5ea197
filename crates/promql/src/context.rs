//! What all operators of one query share: settings, limits, whether it goes on, what is told to the
//! user beside the answer, and counts.

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
    /// How long a point counts as the newest one, in milliseconds.
    pub lookback: i64,
    /// When the metric's name goes.
    pub name_removal: NameRemoval,
    /// Whether start timestamps tell resets.
    pub start_timestamps: StartTimestamps,
    /// By what a metric is taken for a counter.
    pub counter_sign: CounterSign,
    /// What may be held in memory.
    pub budget: Arc<Budget>,
    /// Compiles what `label_replace` has.
    pub regex_compiler: Arc<RegexCompiler>,
    max_queue: usize,
    began: Instant,
    /// Samples that the query looked at, as Prometheus counts them.
    pub counts: SampleCounts,
    annotations: Mutex<Annotations>,
    deadline: Instant,
    limits: Limits,
    canceled: AtomicBool,
    /// Why no operator goes on, where it was found where nothing can fail: the text, and the setting.
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
            budget: Budget::new(settings),
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

    /// Fails when nobody waits any more, the time is over, or the query has taken more samples than it may.
    pub(crate) fn check(&self) -> Result<(), QueryError> {
        self.check_with(0)
    }

    /// The same of a query that has also taken these samples, which are not counted yet.
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

    /// Until when its regular expressions have to be compiled.
    pub(crate) fn compile_deadline(&self) -> CompileDeadline {
        let Limit { most: limit, of } = self.limits.duration;
        CompileDeadline { began: self.began, limit, of, max_queue: self.max_queue }
    }

    /// Counts the series of a selector; fails when they are too many.
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

    /// Tells the user something beside the answer.
    pub(crate) fn annotate(&self, annotation: Annotation) {
        self.annotations.lock().add(annotation);
    }

    /// Tells the user all of this.
    pub(crate) fn annotate_all(&self, annotations: Annotations) {
        self.annotations.lock().merge(annotations);
    }

    /// Takes out what is told.
    pub(crate) fn take_annotations(&self) -> Annotations {
        std::mem::take(&mut self.annotations.lock())
    }

    /// Whether the metric's name goes only at the end.
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
