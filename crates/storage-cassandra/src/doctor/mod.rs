//! Checks a keyspace in KairosDB's schema, ours or another's, and fixes what can be fixed.
//!
//! It creates nothing, and writes nothing unless `fix` asks for it. Each stage scans one table over
//! slices of the token ring. A row and the rows that it should lead to, or that should lead to it,
//! are looked up in the other tables, so memory does not grow with the keyspace. A suspicious row
//! is looked at twice, with a pause between: active writers write index and data one after the
//! other. `judge` and `judge_settings`, which are pure, decide whether something is wrong.
//!
//! Not here: the state file and the progress bar, which belong to the command.

mod finding;
mod fix;
mod index_tags;
mod judge;
mod judge_settings;
mod keyspace;
mod kind;
mod look;
mod progress;
mod report;
mod scan;
mod scan_rows;
mod shown;
mod slices;
mod stages;
mod statements;
mod survey;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};

use crate::cql::clock::Skew;
use crate::cql::executor::Executor;
use crate::cql::session;
use crate::cql::stamp::{Stamps, now_ms};
use crate::cql::statements::Preparer;
use crate::delete::PORTION;
use crate::doctor::finding::Finding;
use crate::doctor::judge::Moment;
use crate::doctor::look::Leads;
use crate::doctor::progress::Gathered;
use crate::doctor::scan::many_tombstones;
use crate::doctor::slices::ReadRate;
use crate::doctor::statements::Statements;
use crate::identity::Identity;
use crate::index::memory::Expiry;
use crate::index::pages::IndexCuts;
use crate::lifetime::last_expiry;
use crate::options::Options;
use crate::points::epochs::Epochs;
use crate::schema;
use crate::schema::tables::NameColumn;
use promkairos_kairos::RowSpec;
use promkairos_storage::StoreError;
use promkairos_telemetry::CassandraMetrics;

pub use crate::cut::Cut;
pub use crate::doctor::kind::Kind;
pub use crate::doctor::progress::{Progress, Stage};
pub use crate::doctor::report::{Facts, Group, Outcome, Partition, Report};
pub use crate::doctor::survey::{Entry, Largest, Measured, MetricCardinality};

/// Slices of one table in progress at once.
const SLICES_AT_ONCE: usize = 4;
/// Rows of one slice looked at at once.
const ROWS_AT_ONCE: usize = 32;

/// Settings of a check.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The kinds of findings to fix.
    pub fix: BTreeSet<Kind>,
    /// Whether to read the cells too.
    pub depth: Depth,
    /// How long a window must have been closed, and its index unchanged, before any of its rows
    /// counts as superfluous.
    pub settled: Duration,
    /// How long to wait before a second look at suspicious rows.
    pub pause: Duration,
    /// Reads per second; none = no limit.
    pub rate: Option<u32>,
    /// Slices of a table: the steps from which an interrupted check can continue.
    pub slices: u32,
    /// A partition with more rows is listed as wide.
    pub wide: u64,
    /// A partition of data with more cells of the last hour is listed as hot.
    pub hot: u64,
    /// The most rows deleted of one index partition: each leaves a tombstone.
    pub most_deleted: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            fix: BTreeSet::new(),
            depth: Depth::Cells,
            settled: Duration::from_secs(24 * 3600),
            pause: Duration::from_secs(5),
            rate: Some(2_000),
            slices: 256,
            wide: 100_000,
            hot: 36_000,
            most_deleted: PORTION,
        }
    }
}

/// How deep to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Depth {
    /// The index and whether there is data; not write times, expiry and width.
    Index,
    /// Every cell.
    Cells,
}

/// A connected doctor.
pub struct Doctor {
    executor: Executor,
    statements: Statements,
    epochs: Option<Epochs>,
    options: Options,
    settings: Settings,
    spec: RowSpec,
    last: Expiry,
    stored_spec: Option<RowSpec>,
    missing: Vec<&'static str>,
    names: NameColumn,
    stamps: Stamps,
    pace: ReadRate,
    leads: Leads,
    index_cuts: IndexCuts,
    /// A page of a scan that passes over at least this many tombstones is reported.
    many_tombstones: u64,
    /// Locked by each fix, because a fix must see the writes of others. Counts the deleted rows by partition.
    mending: tokio::sync::Mutex<HashMap<Identity, usize>>,
}

/// The result of a look at a row.
#[derive(Debug, Default)]
struct Look {
    findings: Vec<Finding>,
    facts: Facts,
    gathered: Gathered,
}

/// The result of a part of a stage.
#[derive(Debug, Default)]
struct Part {
    report: Report,
    gathered: Gathered,
    /// Findings that other parts may have too.
    shared: BTreeMap<Identity, (Finding, Outcome)>,
}

impl Doctor {
    /// Connects and looks at the tables. Returns [`StoreError::Invalid`] when the keyspace is
    /// missing or not KairosDB's.
    pub async fn connect(options: Options, settings: Settings) -> Result<Self, StoreError> {
        crate::check(&options)?;
        let session = session::connect(&options).await?;
        let found = schema::inspect(&session, &options.keyspace).await?;
        keyspace::check_partitioner(&session).await?;
        let preparer = Preparer { session: &session, options: &options };
        let statements = Statements::prepare(&preparer, (&found.missing, found.names)).await?;
        let epochs = Epochs::prepare(&preparer, &found.missing).await?;
        let clock = "SELECT toUnixTimestamp(now()) FROM system.local".into();
        let clock = preparer.prepare("clock", clock, crate::Consistency::One).await?;
        let last = last_expiry(&session).await;
        let many_tombstones = many_tombstones(&session).await;
        let metrics = CassandraMetrics::default();
        let executor = Executor::new(session, metrics, &options);
        let skew = Skew::default();
        skew.measure(&executor, &clock).await?;
        skew.check()?;
        Ok(Self {
            executor,
            statements,
            epochs,
            spec: found.spec.unwrap_or(RowSpec::LEGACY),
            last,
            stored_spec: found.spec,
            missing: found.missing,
            names: found.names,
            stamps: Stamps::default(),
            pace: ReadRate::new(settings.rate),
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
    pub async fn run(
        &self,
        progress: &mut Progress,
        mut checkpoint: impl FnMut(&Progress) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        while progress.stage != Stage::Done {
            let (stage, of, known) = (progress.stage, progress.parts(), progress.gathered.clone());
            let parts = stream::iter(progress.next..of)
                .map(|number| self.part(stage, slices::slice(number, of), &known));
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

    async fn part(
        &self,
        stage: Stage,
        slice: (i64, i64),
        known: &Gathered,
    ) -> Result<Part, StoreError> {
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
    async fn examine<T>(
        &self,
        things: &[T],
        part: &mut Part,
        look: impl AsyncFn(&T) -> Result<Look, StoreError>,
    ) -> Result<(), StoreError> {
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
    async fn settle(&self, finding: Finding, part: &mut Part) -> Result<(), StoreError> {
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

    fn moment(&self) -> Moment {
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
