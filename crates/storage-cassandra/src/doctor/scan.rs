//! Scans a table over a slice of the token ring, page by page, and notices the tombstones on the way.
//!
//! Cassandra gives up on a read that passes over more than `tombstone_failure_threshold` tombstones. Such a slice is
//! cut by token, down to a single partition, which is reported and skipped. Every other row is returned once. Where a
//! page passed over many tombstones, each of its partitions is read by itself, at most [`MOST_PROBES`] in a slice, and
//! reported if it has many.

use std::collections::HashSet;
use std::marker::PhantomData;

use scylla::deserialize::row::DeserializeRow;
use scylla::response::PagingState;

use crate::cql::failure::{Failure, if_read};
use crate::cql::prepared::Prepared;
use crate::cql::ring::parts;
use crate::doctor::check::Doctor;
use crate::doctor::kind::Kind;
use crate::doctor::pages::{ROWS_A_READ, tombstones};
use crate::doctor::part::Part;
use crate::doctor::report::Outcome;
use crate::identity::Identity;
use promkairos_storage::Result;

/// The most partitions of a slice that are read by themselves.
const MOST_PROBES: u32 = 100;
/// The most rows of a partition that are remembered as returned.
const MOST_KNOWN: usize = 1_000_000;
/// The most pages of a partition that is read by itself.
const MOST_PAGES: u32 = 20;

/// A row of a scan.
pub(super) trait ScanRow: for<'f, 'm> DeserializeRow<'f, 'm> {
    /// The token of its partition, and what identifies the row within it.
    fn position(&self) -> (i64, Identity);

    /// The metric, empty where the row has none; and the partition, as text for people.
    fn partition(&self) -> (&str, String);

    /// Whether the check reads each partition as a whole later on, and then reports its tombstones.
    fn is_read_later(_doctor: &Doctor) -> bool {
        false
    }
}

/// A slice of the ring, its first and its last token, and the rows that were returned already.
type Slice = ((i64, i64), HashSet<Identity>);

/// A scan in progress.
pub(super) struct Pages<'a, R> {
    doctor: &'a Doctor,
    prepared: &'a Prepared,
    /// The remaining slices, in reverse order. A state means that the last one is being read.
    left: Vec<Slice>,
    state: Option<PagingState>,
    /// The partition of the last row that was returned of the current slice, and the rows of it that were returned:
    /// at most [`MOST_KNOWN`]; others are returned twice where the partition is read again.
    at: Option<(i64, HashSet<Identity>)>,
    /// Whether the server gave up on a single partition, and on everything since.
    gives_up: bool,
    probes: u32,
    /// The last partition that was read by itself.
    probed: Option<i64>,
    rows: PhantomData<R>,
}

impl<'a, R: ScanRow> Pages<'a, R> {
    pub(super) fn new(doctor: &'a Doctor, prepared: &'a Prepared, slice: (i64, i64)) -> Self {
        Self {
            doctor,
            prepared,
            left: vec![(slice, HashSet::new())],
            state: None,
            at: None,
            gives_up: false,
            probes: 0,
            probed: None,
            rows: PhantomData,
        }
    }

    /// The next page; None at the end.
    pub(super) async fn next(&mut self, part: &mut Part) -> Result<Option<Vec<R>>> {
        let doctor = self.doctor;
        while let Some(slice) = self.left.last().map(|(slice, _)| *slice) {
            doctor.pace.take(1).await;
            let state = self.state.take().unwrap_or_else(PagingState::start);
            let (page, next) = match doctor.cql.executor.page(self.prepared, slice, &state).await {
                Ok(page) => page,
                Err(Failure::Unread(why)) => {
                    self.cut(why, part)?;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            self.gives_up = false;
            let tombstones = tombstones(page.warnings());
            let mut rows: Vec<R> = page.iter()?.collect::<Result<_, _>>()?;
            doctor.pace.take((rows.len() / ROWS_A_READ) as u32).await;
            let known = self.left.last_mut().map(|(_, known)| std::mem::take(known));
            let known = known.unwrap_or_default();
            for row in &rows {
                let (token, identity) = row.position();
                let of_partition = match &mut self.at {
                    Some((last, known)) if *last == token => known,
                    at => &mut at.insert((token, HashSet::new())).1,
                };
                if of_partition.len() < MOST_KNOWN {
                    of_partition.insert(identity);
                }
            }
            if !known.is_empty() {
                rows.retain(|row| !known.contains(&row.position().1));
            }
            if next.is_none() {
                self.left.pop();
                self.at = None;
            } else if let Some((_, left)) = self.left.last_mut() {
                *left = known;
            }
            self.state = next;
            if tombstones >= doctor.many_tombstones && !R::is_read_later(doctor) {
                self.probe(&rows, part).await?;
            }
            return Ok(Some(rows));
        }
        Ok(None)
    }

    /// Cuts the current slice, which was not read to its end. An error where tombstones cannot be the reason: two
    /// neighbouring tokens never both belong to partitions.
    fn cut(&mut self, why: String, part: &mut Part) -> Result<()> {
        let Some(((first, last), _)) = self.left.pop() else { return Ok(()) };
        match self.at.take() {
            _ if first == last && self.gives_up => return Err(Failure::Unread(why).into()),
            _ if first == last => {
                self.gives_up = true;
                let partition = format!("the partition with token {first}");
                self.report(
                    part,
                    "",
                    &partition,
                    "is left out, as Cassandra gives up on reading it",
                );
            }
            Some((token, rows)) => {
                if token < last {
                    self.left.push(((token + 1, last), HashSet::new()));
                }
                self.left.push(((token, token), rows));
            }
            None => {
                let parts = parts(first, last).rev();
                self.left.extend(parts.map(|slice| (slice, HashSet::new())));
            }
        }
        Ok(())
    }

    /// Reads each partition of a page by itself.
    async fn probe(&mut self, rows: &[R], part: &mut Part) -> Result<()> {
        for row in rows {
            let (token, _) = row.position();
            if self.probed == Some(token) || self.probes >= MOST_PROBES {
                continue;
            }
            self.probed = Some(token);
            self.probes += 1;
            let tombstones = self.tombstones_of(token).await?;
            if tombstones >= self.doctor.many_tombstones {
                let what = format!("a page of 1,000 rows passes over {tombstones} tombstones");
                let (metric, partition) = row.partition();
                self.report(part, metric, &partition, &what);
            }
        }
        Ok(())
    }

    /// The most tombstones that a page of one partition passes over. An unread partition counts none: the scan
    /// itself meets it.
    async fn tombstones_of(&self, token: i64) -> Result<u64> {
        let (mut most, mut pages) = (0, self.doctor.cql.pages(self.prepared, (token, token)));
        for _ in 0..MOST_PAGES {
            let page = if_read(self.doctor.next_page(&mut pages).await)?;
            let Some(page) = page else { return Ok(0) };
            let Some(page) = page else { break };
            most = most.max(tombstones(page.warnings()));
            if most >= self.doctor.many_tombstones {
                break;
            }
        }
        Ok(most)
    }

    fn report(&self, part: &mut Part, metric: &str, partition: &str, what: &str) {
        let table = self.prepared.statement.get_table_spec();
        let table = table.map_or(self.prepared.name, |table| table.table_name());
        let subject = format!("{table}: {partition}: {what}");
        part.report.add(Kind::ManyTombstones, metric, subject, Outcome::ByHand);
    }
}
