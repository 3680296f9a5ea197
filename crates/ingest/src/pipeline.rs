//! The way of every write, from a body in memory to the outcome of the store.
//!
//! Parts of a request that can never be accepted are left out and reported in the outcome; the rest is stored. A
//! request that is refused as a whole stores nothing. Both are counted and logged here, whatever the protocol is.
//! How a body arrives and how an outcome is answered is not decided here.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use promkairos_model::{SampleTimes, WriteBatch, WriteOutcome};
use promkairos_storage::{Clock, Pressure, SharedStore, Store};
use promkairos_telemetry::{IngestMetrics, Metrics};
use tracing::{Instrument, info_span};

use super::ingest_limits::IngestLimits;
use super::intake::{Intake, ReceivedBody, Room, run_long};
use super::limiter_warmup::Warmup;
use super::parser::{ParseError, Parser, Within};
use super::refusal::{BODY_SIZE, Refusal, SAMPLES_PER_REQUEST, SERIES_PER_REQUEST};
use super::settings::WriteLimits;

/// Approximate least memory of a new series. Without room for it the store refuses new series.
const NEW_SERIES_BYTES: u64 = 1 << 10;

/// What every write passes. A protocol calls [`admit`](Self::admit), receives the body within
/// [`intake`](Self::intake), calls [`write`](Self::write), and renders the result. It passes refusals of its own to
/// [`note`](Self::note).
pub struct Pipeline {
    intake: Intake,
    limits: Arc<IngestLimits>,
    pressure: Arc<Pressure>,
    /// Whether the store refuses new series if memory is short.
    store_limits_series: bool,
    clock: Clock,
    metrics: Arc<Metrics>,
}

impl Pipeline {
    /// A pipeline of a process without a memory limit, over a store that refuses new series if memory is short.
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            intake: Intake::default(),
            limits: Arc::default(),
            pressure: Arc::default(),
            store_limits_series: true,
            clock: Clock::default(),
            metrics,
        }
    }

    /// Sets the room for bodies and the memory of the process.
    pub fn within(self, intake: Intake, pressure: Arc<Pressure>) -> Self {
        Self { intake, pressure, ..self }
    }

    /// Sets that the store accepts new series even if memory is short.
    pub fn over_store_without_log(self) -> Self {
        Self { store_limits_series: false, ..self }
    }

    /// The room for bodies.
    pub fn intake(&self) -> &Intake {
        &self.intake
    }

    /// The limits in force.
    pub fn limits(&self) -> WriteLimits {
        *self.limits.current.read()
    }

    /// Replaces the limits.
    pub fn set_limits(&self, limits: WriteLimits) {
        *self.limits.current.write() = limits;
    }

    /// Updates the metrics of active series and metadata, forgets inactive series, and logs refusals that are due.
    pub fn publish(&self) {
        self.limits.publish(&self.metrics);
    }

    /// Passes the series of a store that is about to be opened to the series limiter. Returns early, while the
    /// read goes on in the background, if no limit is set or the read takes long.
    pub async fn learn_series(&self, store: &SharedStore) {
        self.warmup(store).learn_series().await;
    }

    /// Passes the metric families of a store that keeps them in memory to the limiter of metadata.
    pub async fn learn_metadata(&self, store: &SharedStore) {
        self.warmup(store).learn_metadata().await;
    }

    fn warmup(&self, store: &SharedStore) -> Warmup {
        Warmup {
            limits: self.limits.clone(),
            store: store.clone(),
            pressure: self.pressure.clone(),
            clock: self.clock.clone(),
            metrics: self.metrics.clone(),
        }
    }

    /// Whether there is memory for another request. Checked before its body is received.
    pub fn admit(&self) -> Result<(), Refusal> {
        Ok(self.pressure.check_write()?)
    }

    /// Writes a body that is in memory.
    pub async fn write_bytes<P: Parser>(
        &self,
        store: &dyn Store,
        body: Bytes,
        parser: &P,
    ) -> Result<WriteOutcome, Refusal> {
        let held = async {
            self.admit()?;
            self.intake.hold(body, self.limits().body_bytes).await
        };
        let body = held.await.inspect_err(|refusal| {
            if let Refusal::BodyTooLarge(_) = refusal {
                self.metrics.http.limits.reached(BODY_SIZE);
            }
            self.note(P::REQUESTS, refusal);
        })?;
        self.write(store, body, parser).await
    }

    /// Writes a body; it is one batch of the store.
    pub async fn write<P: Parser>(
        &self,
        store: &dyn Store,
        body: ReceivedBody,
        parser: &P,
    ) -> Result<WriteOutcome, Refusal> {
        let written = self.parse_and_store(store, &body.bytes, parser).await;
        match &written {
            Ok(outcome) => {
                self.limits.log_short_memory(&outcome.rejections);
                count(outcome, &self.metrics.ingest);
            }
            Err(refusal) => self.note(P::REQUESTS, refusal),
        }
        written
    }

    async fn parse_and_store<P: Parser>(
        &self,
        store: &dyn Store,
        body: &[u8],
        parser: &P,
    ) -> Result<WriteOutcome, Refusal> {
        let limits = self.limits();
        let length = parser.message_bytes(body)?;
        if length > limits.decoded_bytes {
            return Err(Refusal::decoded(length as u64, limits.decoded_bytes));
        }
        let room = self.intake.room_for(length.saturating_mul(parser.expansion()));
        let mut room = room.instrument(info_span!("wait")).await?;
        let times = SampleTimes::at(self.clock.now_ms(), limits.sample_times);
        let within = Within { times, bytes: room.bytes() };
        let batch = match parse(parser, body, length, &mut room, within) {
            Err(ParseError::Expands(_)) => {
                // The room is released before the wait for all of it, so that the wait can end.
                drop(room);
                room = self.intake.all_room().instrument(info_span!("wait")).await?;
                self.pressure.check_large_write()?;
                let within = Within { times, bytes: usize::MAX };
                parse(parser, body, length, &mut room, within)
            }
            batch => batch,
        };
        let mut batch = batch.map_err(|error| unparsed(error, &limits))?;
        let refuses_new =
            self.store_limits_series && !self.pressure.has_room_for_series(NEW_SERIES_BYTES);
        run_long(length, || self.limits.judge(&limits, refuses_new, &mut batch, &self.metrics))?;
        if batch.series.is_empty() && batch.metadata.is_empty() {
            return Ok(WriteOutcome { rejections: batch.rejections, ..WriteOutcome::default() });
        }
        let (series, samples) = (batch.series.len() as i64, batch.samples.len() as i64);
        let without_metadata = batch.without_metadata;
        let outcome = store.write(batch).instrument(info_span!("store", series, samples)).await?;
        // For samples that were refused after decoding it is unknown whether they have metadata.
        let without_metadata = without_metadata.min(outcome.samples + outcome.histograms);
        self.metrics.ingest.without_metadata.inc_by(without_metadata);
        Ok(outcome)
    }

    /// Counts and logs that one of these requests is refused. [`write`](Self::write) does so for its own refusals.
    pub fn note(&self, requests: &'static str, refusal: &Refusal) {
        if let Some(reason) = refusal.reason() {
            self.metrics.ingest.reject(reason, 1);
        }
        // The receiver of a body already counts bodies that are too large.
        if let Some(setting) = refusal.setting()
            && !matches!(refusal, Refusal::BodyTooLarge(_))
        {
            self.metrics.http.limits.reached(setting);
        }
        if let Some(kind) = refusal.kind() {
            self.log(requests, kind, 1, refusal.to_string());
        }
    }

    /// Logs, throttled, that `count` of these requests are refused for their form; `why` is the reason of one.
    pub fn note_form(&self, requests: &'static str, count: u64, why: String) {
        self.log(requests, "form", count, why);
    }

    fn log(&self, requests: &'static str, kind: &'static str, count: u64, why: String) {
        self.limits.log.count(requests, kind, count, why, Instant::now());
    }
}

fn parse<'a, P: Parser>(
    parser: &P,
    body: &'a [u8],
    length: usize,
    room: &'a mut Room<'_>,
    within: Within,
) -> Result<WriteBatch<'a>, ParseError> {
    let scratch = room.scratch();
    info_span!("decode").in_scope(|| run_long(length, || parser.parse(body, scratch, within)))
}

/// The refusal of a body that does not decode. A value beyond the largest value of a setting is beyond the setting too.
fn unparsed(error: ParseError, limits: &WriteLimits) -> Refusal {
    let (setting, most) = match error {
        ParseError::TooManySeries(_) => (SERIES_PER_REQUEST, limits.series_per_request),
        ParseError::TooManySamples(_) => (SAMPLES_PER_REQUEST, limits.samples_per_request),
        error => return error.into(),
    };
    Refusal::Limit { what: error.to_string(), setting, most: most.to_string() }
}

fn count(outcome: &WriteOutcome, metrics: &IngestMetrics) {
    metrics.samples.inc_by(outcome.samples);
    metrics.histograms.inc_by(outcome.histograms);
    metrics.exemplars.inc_by(outcome.exemplars);
    metrics.metadata.inc_by(outcome.metadata);
    for &(reason, count) in outcome.rejections.counts() {
        metrics.reject(reason, count);
    }
    for &(reason, points) in outcome.rejections.points() {
        metrics.refuse(reason, points);
    }
}
