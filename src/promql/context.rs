//! What all operators of one query share: settings, limits, whether it goes on, what is told to the
//! user beside the answer, and counts.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::annotations::{Annotation, Annotations};
use super::budget::Budget;
use super::counts::SampleCounts;
use super::error::{EVALUATION, QueryError, TimeLimit};
use super::patterns::{Patience, Patterns};
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
    pub patterns: Arc<Patterns>,
    max_queue: usize,
    began: Instant,
    /// Samples that the query looked at, as Prometheus counts them.
    pub counts: SampleCounts,
    annotations: Mutex<Annotations>,
    deadline: Instant,
    timeout: Duration,
    /// Who says how long that is.
    time_limit: TimeLimit,
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
        timeout: Duration,
        begin: Instant,
    ) -> Self {
        Self {
            lookback,
            name_removal: settings.name_removal,
            start_timestamps: settings.start_timestamps,
            counter_sign: settings.counter_sign,
            budget: Budget::new(settings),
            patterns: Arc::clone(&settings.patterns),
            max_queue: settings.max_queue,
            began: begin,
            counts,
            annotations: Mutex::default(),
            deadline: begin + timeout,
            timeout,
            time_limit: match timeout < settings.timeout {
                true => TimeLimit::Request,
                false => TimeLimit::Setting,
            },
            canceled: AtomicBool::new(false),
            refused: OnceLock::new(),
        }
    }

    /// Fails when nobody waits any more or the time is over.
    pub(crate) fn check(&self) -> Result<(), QueryError> {
        if self.canceled.load(Relaxed) {
            return Err(match self.refused.get() {
                Some((what, setting)) => QueryError::Limit { what: what.clone(), setting },
                None => QueryError::Canceled,
            });
        }
        if Instant::now() > self.deadline {
            return Err(self.late(EVALUATION));
        }
        Ok(())
    }

    /// How long it may wait for what is compiled.
    pub(crate) fn patience(&self) -> Patience {
        let (began, limit, of) = (self.began, self.timeout, self.time_limit);
        Patience { began, limit, of, max_queue: self.max_queue }
    }

    /// The error of a query whose time is over in `place`.
    pub(super) fn late(&self, place: &'static str) -> QueryError {
        QueryError::TimedOut { place, limit: self.timeout, of: self.time_limit }
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
