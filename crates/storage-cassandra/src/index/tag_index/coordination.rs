//! Reads the recorded state of the tag index, acts by it, records that, and takes the next step when all
//! running adapters have taken the last one.
//!
//! An adapter that could not read the state for a while no longer counts as running, so it must not write
//! before it has read the state again: its record is a lease. Reads without a lease ignore the index. An
//! adapter that only reads takes no part and writes nothing: it reads the record for each window.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use scylla::value::Row;
use tokio::sync::RwLockReadGuard;

use crate::cql::failure::Failure;
use crate::cql::stamp::now_ms;
use crate::index::series_index::SeriesIndex;
use crate::index::tag_index::steps;
use crate::options::Role;
use crate::schema::tag_index_document::{
    ADAPTERS, Adapter, DOCUMENT, DOCUMENT_KEY, Document, FORMAT, SERVICE, TagState, decode, encode,
};
use promkairos_model::ShownTime;
use promkairos_storage::Result;

/// The most steps of one look; the next look continues.
const STEPS_A_LOOK: usize = 8;
/// Shortest time for which an adapter counts as running after its last look.
const LEAST_LEASE: Duration = Duration::from_secs(60);

/// The document in the keyspace.
#[derive(Default)]
pub(crate) struct Recorded {
    /// None: there is no document yet.
    text: Option<String>,
    pub(crate) document: Document,
}

impl SeriesIndex {
    /// For how long an adapter counts as running. A write that began within the first third has
    /// ended before the lease is over.
    fn lease(&self) -> Duration {
        LEAST_LEASE.max(self.options.request_timeout * 3)
    }

    /// The longest time of a write: a statement sent at its end still has the request timeout to arrive
    /// before the lease is over.
    pub(crate) fn longest_write(&self) -> Duration {
        let request = self.options.request_timeout;
        (self.lease() / 3 * 2).saturating_sub(request).max(request)
    }

    /// Whether only deletes are written: the keyspace is one to read.
    pub(crate) fn only_looks(&self) -> bool {
        self.options.role == Role::Read
    }

    /// Whether this process writes index rows here, and so has to agree with the others that do.
    pub(crate) fn takes_part(&self) -> bool {
        self.options.role == Role::Write
    }

    /// Whether the others count this process as running, whether or not its last record arrived.
    fn counts_as_running(&self) -> bool {
        let leased = *self.tags.leased.lock();
        leased.is_some_and(|since| since.elapsed() < self.lease())
    }

    /// Whether no other adapter runs, which may rely on index rows that it remembers.
    pub(crate) async fn is_alone(&self) -> Result<bool> {
        Ok(self.adapters().await?.keys().all(|id| *id == self.tags.id))
    }

    /// Whether the view of this process is recent enough to act by.
    pub(crate) fn is_leased(&self) -> bool {
        let leased = *self.tags.leased.lock();
        leased.is_some_and(|since| since.elapsed() < self.lease() / 3)
    }

    /// Begins a write: the set of index rows that it must write is fixed until the result is dropped.
    pub(crate) async fn begin_write(&self) -> Result<RwLockReadGuard<'_, ()>> {
        loop {
            let gate = self.gate.read().await;
            if self.is_leased() || !self.takes_part() {
                return Ok(gate);
            }
            drop(gate);
            self.look().await?;
        }
    }

    /// Records that this process runs, then looks for the first time.
    pub(crate) async fn join_tag_index(&self) -> Result<()> {
        let joined = async {
            self.say_running(0).await?;
            self.look().await
        };
        let joined = joined.await;
        if joined.is_err() {
            // Otherwise others wait for this process, though it never ran.
            let _ = self.leave_tag_index().await;
        }
        joined
    }

    /// Records that this process ends.
    pub(crate) async fn leave_tag_index(&self) -> Result<()> {
        let _one = self.tags.looking.lock().await;
        *self.tags.leased.lock() = None;
        let values =
            (self.cql.stamps.for_delete(now_ms()).0, SERVICE, ADAPTERS, self.tags.id.as_str());
        let remove = &self.statements.tag_state()?.remove;
        Ok(self.cql.run(remove, values).await?)
    }

    /// Looks repeatedly. Logs a warning when looks begin to fail.
    pub(crate) async fn watch_tag_index(&self) {
        let mut has_failed = false;
        loop {
            let pause = tokio::time::sleep(self.options.tag_index.refresh);
            tokio::select! {
                () = pause => {}
                () = self.tags.wake.notified() => {}
            }
            let looked = self.look().await;
            match &looked {
                Err(error) if has_failed => {
                    tracing::debug!(%error, "the state of the tag index cannot be looked at");
                }
                Err(error) => {
                    tracing::warn!(%error, "the state of the tag index cannot be looked at");
                }
                Ok(()) => {}
            }
            has_failed = looked.is_err();
        }
    }

    /// Reads the document, acts by it, records that, and takes the steps that can be taken.
    pub(crate) async fn look(&self) -> Result<()> {
        let _one = self.tags.looking.lock().await;
        for _ in 0..STEPS_A_LOOK {
            let started = Instant::now();
            if !self.counts_as_running() {
                // Others did not wait for this process, and may have deleted index rows.
                self.memory.forget_all();
            }
            let recorded = self.recorded().await?;
            self.act_by(recorded.document.clone()).await;
            self.say_running(recorded.document.version).await?;
            *self.tags.leased.lock() = Some(started);
            let Some(next) = self.next_document(&recorded.document).await? else { return Ok(()) };
            // Another process may have been first: look again in either case.
            self.replace(&recorded, &next).await?;
        }
        Ok(())
    }

    /// Renews the lease in time, without a new look: a long step must not end it. A lease that
    /// ended is not restored.
    pub(crate) async fn stay(&self) -> Result<()> {
        let started = Instant::now();
        let leased = *self.tags.leased.lock();
        let is_due = leased.is_some_and(|since| since.elapsed() > self.lease() / 6);
        if is_due && self.counts_as_running() {
            self.say_running(self.tags.view().version).await?;
            *self.tags.leased.lock() = Some(started);
        }
        Ok(())
    }

    async fn next_document(&self, document: &Document) -> Result<Option<Document>> {
        let adapters: Vec<Adapter> = self.adapters().await?.into_values().collect();
        let configured = self.tags.configured.lock().clone();
        if let Some(next) = steps::next(document, &adapters, &configured) {
            return Ok(Some(next));
        }
        let openings = steps::openings(document, &adapters);
        if openings.is_empty() {
            return Ok(None);
        }
        let version = document.version + 1;
        let mut next = Document { version, ..document.clone() };
        let mut is_any_opened = false;
        for (metric, tag) in openings {
            let from = match self.first_new_window(&metric).await {
                // Its windows are read from `row_keys` meanwhile.
                Err(Failure::Unread(why)) => {
                    tracing::debug!(metric, tag, why, "where the tag index begins cannot be read");
                    continue;
                }
                from => from?,
            };
            is_any_opened = true;
            let shown = match from {
                i64::MIN => "the beginning".to_owned(),
                from => ShownTime(from).to_string(),
            };
            tracing::info!(
                metric,
                tag,
                from = shown,
                "the tag index is read from this row time on"
            );
            if let Some(entry) = next.entry_mut(&metric, &tag) {
                (entry.state, entry.from) = (TagState::Readable, Some(from));
                entry.since = version;
            }
        }
        Ok(is_any_opened.then_some(next))
    }

    /// Makes reads and writes that begin from now on act by a document. When it returns, no write
    /// by another document is in progress.
    async fn act_by(&self, document: Document) {
        for state in TagState::ALL {
            let tags = i64::try_from(document.count(state)).unwrap_or(i64::MAX);
            self.cql.executor.metrics.tag_index_tags(state.as_str()).set(tags);
        }
        let current = self.tags.view();
        if *current == document {
            return;
        }
        let alone = match current.writes_like(&document) {
            true => None,
            false => Some(self.gate.write().await),
        };
        *self.tags.view.lock() = document.into();
        drop(alone);
    }

    /// Records for the other adapters by which version this one acts.
    async fn say_running(&self, seen: u64) -> Result<()> {
        let configured = self.tags.configured.lock().clone();
        let value = encode(&Adapter { format: FORMAT, seen, configured });
        let ttl = i32::try_from(self.lease().as_secs()).unwrap_or(i32::MAX);
        self.put_state(ADAPTERS, &self.tags.id, value, ttl).await
    }

    /// Writes a row of the state; a TTL of 0 is none.
    pub(crate) async fn put_state(
        &self,
        service_key: &str,
        key: &str,
        value: String,
        ttl: i32,
    ) -> Result<()> {
        // The larger text would win a tie, so no millisecond is used twice.
        let (stamp, wait) = self.cql.stamps.for_delete(now_ms());
        let values = (SERVICE, service_key, key, value, stamp, ttl);
        let put = &self.statements.tag_state()?.put;
        self.cql.run(put, values).await?;
        tokio::time::sleep(wait).await;
        Ok(())
    }

    /// The running adapters by id.
    pub(crate) async fn adapters(&self) -> Result<BTreeMap<String, Adapter>> {
        let mut adapters = BTreeMap::new();
        for (id, value) in self.state_rows(ADAPTERS).await? {
            let adapter = decode(&value).unwrap_or_else(|error| {
                tracing::warn!(adapter = id, error, "an adapter speaks another language");
                // It blocks every step, which is safe.
                Adapter { format: FORMAT, seen: 0, configured: BTreeMap::new() }
            });
            adapters.insert(id, adapter);
        }
        Ok(adapters)
    }

    /// Keys and values of some rows of the state.
    pub(crate) async fn state_rows(&self, service_key: &str) -> Result<Vec<(String, String)>> {
        let mut found = Vec::new();
        let Some(state) = &self.statements.tags.state else { return Ok(found) };
        let mut pages = self.cql.pages(&state.list, (SERVICE, service_key));
        while let Some(page) = pages.next().await? {
            for row in page.iter::<(Option<String>, Option<String>)>()? {
                if let (Some(key), Some(value)) = row? {
                    found.push((key, value));
                }
            }
        }
        Ok(found)
    }

    /// The document as it is recorded now.
    pub(crate) async fn recorded(&self) -> Result<Recorded> {
        let Some(state) = &self.statements.tags.state else { return Ok(Recorded::default()) };
        let rows = self.cql.rows(&state.get, (SERVICE, DOCUMENT, DOCUMENT_KEY)).await?;
        let text = rows.first::<(String, Option<String>)>()?.and_then(|(_, value)| value);
        let document = match &text {
            None => Document::default(),
            Some(text) => Document::parse(text)?,
        };
        Ok(Recorded { text, document })
    }

    /// Replaces the document, if it is still the one that was read.
    async fn replace(&self, old: &Recorded, next: &Document) -> Result<bool> {
        let state = self.statements.tag_state()?;
        let (key, value) = ((SERVICE, DOCUMENT, DOCUMENT_KEY), encode(next));
        let rows = match &old.text {
            None => self.cql.rows(&state.create, (key.0, key.1, key.2, value)).await?,
            Some(text) => self.cql.rows(&state.replace, (value, key.0, key.1, key.2, text)).await?,
        };
        let row = rows.one::<Row>()?;
        let applied = row.columns.first().and_then(|column| column.as_ref()?.as_boolean());
        Ok(applied == Some(true))
    }

    /// Changes the document until the change is recorded or nothing needs to change; then acts by
    /// it.
    pub(crate) async fn change(&self, mut change: impl FnMut(&mut Document) -> bool) -> Result<()> {
        loop {
            let recorded = self.recorded().await?;
            let mut next = recorded.document.clone();
            next.version += 1;
            if !change(&mut next) || self.replace(&recorded, &next).await? {
                break;
            }
        }
        self.look().await
    }
}
