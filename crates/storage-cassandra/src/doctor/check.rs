//! A connected doctor: runs the stages of a check, looks twice at suspicious rows, and fixes what it is asked to fix.
//! `judge` decides what is wrong, `look` and `scan` read.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, LocalBoxFuture};
use futures::{StreamExt, TryStreamExt, stream};

use crate::cql::connection::Cql;
use crate::cql::prepared::Preparer;
use crate::cql::rate::Rate;
use crate::cql::stamp::now_ms;
use crate::cql::{ring, session};
use crate::doctor::finding::Finding;
use crate::doctor::gathered::Gathered;
use crate::doctor::judge::Moment;
use crate::doctor::leads::Leads;
use crate::doctor::pages::many_tombstones;
use crate::doctor::part::{Look, Part};
use crate::doctor::progress::{Progress, Stage};
use crate::doctor::report::Outcome;
use crate::doctor::settings::Settings;
use crate::doctor::statements::Statements;
use crate::identity::Identity;
use crate::index::pages::IndexCuts;
use crate::lifetime::{Expiry, check, last_expiry};
use crate::options::Options;
use crate::points::epochs::EpochLog;
use crate::schema;
use crate::schema::tables::NameColumn;
use promkairos_kairos::RowSpec;
use promkairos_storage::Result;
use promkairos_telemetry::CassandraMetrics;

/// Slices of one table in progress at once.
const SLICES_AT_ONCE: usize = 4;

/// Rows of one slice looked at at once.
const ROWS_AT_ONCE: usize = 32;

/// A connected doctor.
pub struct Doctor {
    pub(super) cql: Arc<Cql>,
    pub(super) statements: Statements,
    pub(super) epochs: EpochLog,
    pub(super) options: Options,
    pub(super) settings: Settings,
    pub(super) spec: RowSpec,
    pub(super) last: Expiry,
    pub(super) stored_spec: Option<RowSpec>,
    pub(super) missing: Vec<&'static str>,
    pub(super) names: NameColumn,
    pub(super) pace: Rate,
    pub(super) leads: Leads,
    pub(super) index_cuts: IndexCuts,
    /// A page of a scan that passes over at least this many tombstones is reported.
    pub(super) many_tombstones: u64,
    /// Locked by each fix, because a fix must see the writes of others. Counts the deleted rows by partition.
    pub(super) mending: tokio::sync::Mutex<HashMap<Identity, usize>>,
}

/// Called whenever a check can continue from there.
type Checkpoint<'a> = Box<dyn FnMut(&Progress) -> Result<()> + 'a>;

impl Doctor {
    /// Connects and looks at the tables. Returns `StoreError::Invalid` when the keyspace is
    /// missing or not KairosDB's.
    pub fn connect(options: Options, settings: Settings) -> BoxFuture<'static, Result<Self>> {
        Box::pin(Self::prepare(options, settings))
    }

    async fn prepare(options: Options, settings: Settings) -> Result<Self> {
        check(&options)?;
        let session = session::connect(&options).await?;
        let found = schema::inspect(&session, &options.keyspace).await?;
        ring::check_partitioner(&session).await?;
        let cql = Arc::new(Cql::new(session, CassandraMetrics::default(), &options).await?);
        let session = &cql.executor.session;
        let preparer = Preparer { session, options: &options };
        let statements = Statements::prepare(&preparer, (&found.missing, found.names)).await?;
        let epochs = EpochLog::prepare(&cql, &preparer, &found.missing).await?;
        let last = last_expiry(session).await;
        let many_tombstones = many_tombstones(session).await;
        cql.measure_skew().await?;
        cql.skew.check()?;
        Ok(Self {
            cql,
            statements,
            epochs,
            spec: found.spec.unwrap_or(RowSpec::LEGACY),
            last,
            stored_spec: found.spec,
            missing: found.missing,
            names: found.names,
            pace: Rate::new(settings.rate.map(|rate| Duration::from_secs(1) / rate.max(1))),
            leads: Leads::default(),
            index_cuts: IndexCuts::default(),
            many_tombstones,
            mending: tokio::sync::Mutex::default(),
            options,
            settings,
        })
    }

    /// The beginning of a check.
    pub fn start(&self) -> Progress {
        let Settings { fix, depth, slices, .. } = &self.settings;
        Progress::start(self.options.keyspace.as_str(), fix.clone(), *depth, *slices)
    }

    /// How the keyspace cuts time.
    pub fn row_spec(&self) -> RowSpec {
        self.spec
    }

    /// Continues from `progress` to the end. Calls `checkpoint` whenever the check can continue from there.
    pub fn run<'a>(
        &'a self,
        progress: &'a mut Progress,
        checkpoint: impl FnMut(&Progress) -> Result<()> + 'a,
    ) -> LocalBoxFuture<'a, Result<()>> {
        self.run_boxed(progress, Box::new(checkpoint))
    }

    fn run_boxed<'a>(
        &'a self,
        progress: &'a mut Progress,
        checkpoint: Checkpoint<'a>,
    ) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(self.run_from(progress, checkpoint))
    }

    async fn run_from(
        &self,
        progress: &mut Progress,
        mut checkpoint: Checkpoint<'_>,
    ) -> Result<()> {
        while progress.stage != Stage::Done {
            let (stage, of, known) = (progress.stage, progress.parts(), progress.gathered.clone());
            let parts = stream::iter(progress.next..of)
                .map(|number| self.part(stage, ring::part(ring::WHOLE_RING, number, of), &known));
            let mut parts = std::pin::pin!(parts.buffered(SLICES_AT_ONCE));
            while let Some(part) = parts.try_next().await? {
                progress.take(part);
                checkpoint(progress)?;
            }
            progress.stage = stage.next();
            progress.next = 0;
            checkpoint(progress)?;
        }
        Ok(())
    }

    async fn part(&self, stage: Stage, slice: (i64, i64), known: &Gathered) -> Result<Part> {
        match stage {
            Stage::Keyspace => self.check_keyspace().await,
            Stage::Data => self.scan_data(slice).await,
            Stage::TagIndex => self.scan_tag_index(slice).await,
            Stage::RowKeys => self.scan_row_keys(slice, known).await,
            Stage::RowTimes => self.scan_row_times(slice, known).await,
            Stage::LegacyIndex => self.scan_legacy_index(slice).await,
            Stage::Names => self.count_names().await,
            Stage::Done => Ok(Part::default()),
        }
    }

    /// Looks at some things, twice at suspicious ones. Then applies the wanted fixes.
    pub(super) async fn examine<T>(
        &self,
        things: &[T],
        part: &mut Part,
        look: impl AsyncFn(&T) -> Result<Look>,
    ) -> Result<()> {
        let looks = stream::iter(things).map(|thing| look(thing)).buffered(ROWS_AT_ONCE);
        let looks: Vec<Look> = looks.try_collect().await?;
        let mut suspects = Vec::new();
        for (thing, seen) in things.iter().zip(looks) {
            part.report.facts.merge(seen.facts);
            part.gathered.merge(seen.gathered);
            if !seen.findings.is_empty() {
                suspects.push(thing);
            }
        }
        if suspects.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(self.settings.pause).await;
        self.leads.forget();
        let again = stream::iter(suspects).map(|thing| look(thing)).buffered(ROWS_AT_ONCE);
        let again: Vec<Look> = again.try_collect().await?;
        for finding in again.into_iter().flat_map(|look| look.findings) {
            self.settle(finding, part).await?;
        }
        Ok(())
    }

    /// Fixes a finding where that is wanted, and reports it.
    pub(super) async fn settle(&self, finding: Finding, part: &mut Part) -> Result<()> {
        let outcome = match &finding.fix {
            Some(fix) if self.settings.fix.contains(&finding.kind) => {
                let mut deleted = self.mending.lock().await;
                self.leads.forget();
                match fix.takes_a_row_of().map(|partition| deleted_of(&mut deleted, partition)) {
                    Some(rows) if *rows >= self.settings.most_deleted => {
                        part.report.facts.rows_left += 1;
                        Outcome::Found
                    }
                    rows => {
                        if let Some(rows) = rows {
                            *rows += 1;
                        }
                        match self.mend(fix).await? {
                            true => Outcome::Fixed,
                            false => Outcome::Resisted,
                        }
                    }
                }
            }
            Some(_) => Outcome::Found,
            None => Outcome::ByHand,
        };
        match finding.identity() {
            Some(identity) => drop(part.shared.entry(identity).or_insert((finding, outcome))),
            None => part.report.add(finding.kind, &finding.metric, finding.subject, outcome),
        }
        Ok(())
    }

    pub(super) fn moment(&self) -> Moment {
        let settled = i64::try_from(self.settings.settled.as_millis()).unwrap_or(i64::MAX);
        Moment { now: now_ms(), settled, spec: self.spec, last: self.last }
    }
}

/// Counts the deleted rows of a partition. A scan visits partitions one after the other, so few are kept.
fn deleted_of(deleted: &mut HashMap<Identity, usize>, partition: Identity) -> &mut usize {
    const MOST_KEPT: usize = 10_000;
    if deleted.len() >= MOST_KEPT && !deleted.contains_key(&partition) {
        deleted.clear();
    }
    deleted.entry(partition).or_default()
}
