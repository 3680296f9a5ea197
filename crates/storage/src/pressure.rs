//! Tracks how close the process is to its memory limit.
//!
//! One task notes the memory of the process; other code checks the level before it takes more. A level may be passed
//! between two measurements, so anything that must be bounded has a limit of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};

use tokio::sync::watch;

use super::error::StoreError;
use super::select::SelectionMemory;
use promkairos_model::{RejectReason, ShownSize};

/// The setting that limits the memory of the process.
pub const MEMORY_LIMIT: &str = "memory-limit";

/// From this percentage of the limit on, expensive queries are refused. This comes before new
/// series are refused, because a query can be repeated, but a refused sample is lost.
const READS: u64 = 85;

/// How close the process is to its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Below 80 %.
    Ample,
    /// From 80 % on: memory that is not essential is freed.
    Tight,
    /// From 90 % on: new series are refused.
    Full,
    /// At the limit: writes are refused.
    Over,
}

impl Level {
    /// The level when the process has `resident` of `limit` bytes. A reached level is left only at
    /// 5 % less, so that it does not flap.
    pub fn next(self, resident: u64, limit: u64) -> Self {
        let reached = Self::at(resident, limit);
        let kept = Self::at(resident.saturating_add(limit / 20), limit).min(self);
        reached.max(kept)
    }

    fn at(resident: u64, limit: u64) -> Self {
        let hundredth = limit / 100;
        match resident {
            bytes if bytes >= limit => Self::Over,
            bytes if bytes >= hundredth * 90 => Self::Full,
            bytes if bytes >= hundredth * 80 => Self::Tight,
            _ => Self::Ample,
        }
    }
}

/// What is refused for lack of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// A whole remote write.
    Write,
    /// A new series; the rest of its request is stored.
    Series,
    /// A query.
    Query,
    /// Any other read: labels, series, a remote read.
    Read,
}

impl Refused {
    /// All variants, in numerical order.
    pub const ALL: [Self; 4] = [Self::Write, Self::Series, Self::Query, Self::Read];
}

/// Bytes that one kind of work takes and gives back.
#[derive(Debug, Default)]
struct Taken {
    now: AtomicU64,
    /// At the last measurement.
    then: AtomicU64,
}

impl Taken {
    /// Bytes that were taken since the last measurement.
    fn since(&self) -> u64 {
        self.now.load(Relaxed).saturating_sub(self.then.load(Relaxed))
    }
}

/// The memory of the process, and its limit.
#[derive(Debug)]
pub struct Pressure {
    limit: u64,
    resident: AtomicU64,
    level: AtomicU8,
    /// Notifies tasks that wait for another level.
    levels: watch::Sender<Level>,
    /// Bytes of admitted new series that are not in memory yet.
    expected: AtomicU64,
    /// Bytes of new series that came into memory since the last measurement.
    added: AtomicU64,
    /// Bytes that the next flush will take.
    flush_need: AtomicU64,
    /// Bytes that requests and their answers may take.
    answers: Taken,
    /// Bytes that queries hold.
    queries: Taken,
    /// Whether much memory was freed that the allocator may still hold.
    freed: AtomicBool,
    refused: [AtomicU64; Refused::ALL.len()],
}

impl Default for Pressure {
    /// No limit.
    fn default() -> Self {
        Self::new(u64::MAX)
    }
}

impl Pressure {
    /// A process that may use `limit` bytes and uses none yet.
    pub fn new(limit: u64) -> Self {
        Self {
            limit,
            resident: AtomicU64::new(0),
            level: AtomicU8::new(Level::Ample as u8),
            levels: watch::Sender::new(Level::Ample),
            expected: AtomicU64::new(0),
            added: AtomicU64::new(0),
            flush_need: AtomicU64::new(0),
            answers: Taken::default(),
            queries: Taken::default(),
            freed: AtomicBool::new(false),
            refused: Default::default(),
        }
    }

    /// The limit in bytes.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Notes the resident bytes of the process.
    pub fn note(&self, resident: u64) {
        self.measure(|| Some(resident));
    }

    /// Notes the resident bytes that `resident` returns; `None` changes nothing. What is taken while it runs counts as
    /// taken after the measurement. Only one thread may call it.
    pub fn measure(&self, resident: impl FnOnce() -> Option<u64>) -> Option<u64> {
        let reads = [&self.answers, &self.queries];
        let taken = reads.map(|taken| taken.now.load(Relaxed));
        let added = self.added.load(Relaxed);
        let resident = resident()?;
        self.resident.store(resident, Relaxed);
        self.added.fetch_sub(added, Relaxed);
        reads.iter().zip(taken).for_each(|(reads, taken)| reads.then.store(taken, Relaxed));
        let before = self.level();
        let now = before.next(resident, self.limit);
        self.level.store(now as u8, Relaxed);
        if now != before {
            self.levels.send_replace(now);
        }
        Some(resident)
    }

    /// How close the process is to its limit.
    pub fn level(&self) -> Level {
        match self.level.load(Relaxed) {
            0 => Level::Ample,
            1 => Level::Tight,
            2 => Level::Full,
            _ => Level::Over,
        }
    }

    /// The level as a channel, for tasks that wait for a change.
    pub fn levels(&self) -> watch::Receiver<Level> {
        self.levels.subscribe()
    }

    /// Notes that much memory was freed at once and will not be needed again soon.
    pub fn note_freed(&self) {
        self.freed.store(true, Relaxed);
    }

    /// Whether [`note_freed`](Self::note_freed) was called since the last call of this function.
    pub fn take_freed(&self) -> bool {
        self.freed.swap(false, Relaxed)
    }

    /// The memory of the process and its limit, in words that name the setting.
    pub fn text(&self) -> String {
        let resident = ShownSize::of(self.resident.load(Relaxed));
        let limit = ShownSize::of(self.limit);
        format!("the process has {resident} in memory, and the setting {MEMORY_LIMIT} is {limit}")
    }

    /// Why a read has no room: as [`text`](Self::text), with what came since the measurement.
    pub fn text_for_reads(&self) -> String {
        let came = self.series_since().saturating_add(self.reads_since());
        match came {
            0 => self.text(),
            came => {
                let came = ShownSize::of(came);
                format!(
                    "{}, and {came} more were taken since the process was measured",
                    self.text()
                )
            }
        }
    }

    /// Whether a remote write may be accepted.
    pub fn check_write(&self) -> Result<(), StoreError> {
        self.check(Level::Over, Refused::Write)
    }

    /// Whether a remote write may be accepted that takes far more memory than others.
    pub fn check_large_write(&self) -> Result<(), StoreError> {
        self.check(Level::Full, Refused::Write)
    }

    /// Whether a read of unknown cost may be answered.
    pub fn check_read(&self) -> Result<(), StoreError> {
        if self.has_room_for_reads() {
            return Ok(());
        }
        self.count(Refused::Read);
        Err(StoreError::unavailable(self.text_for_reads()))
    }

    /// Reserves bytes for a request or an answer, until they are given back.
    pub fn take_for_answers(&self, bytes: u64) {
        self.answers.now.fetch_add(bytes, Relaxed);
    }

    /// Gives reserved bytes back.
    pub fn give_back_of_answers(&self, bytes: u64) {
        self.answers.now.fetch_sub(bytes, Relaxed);
    }

    /// Counts bytes of queries, until they are given back. Returns the bytes that all queries hold now.
    pub fn take_for_queries(&self, bytes: u64) -> u64 {
        self.queries.now.fetch_add(bytes, Relaxed) + bytes
    }

    /// Gives counted bytes back.
    pub fn give_back_of_queries(&self, bytes: u64) {
        self.queries.now.fetch_sub(bytes, Relaxed);
    }

    /// Bytes that all queries hold.
    pub fn queries(&self) -> u64 {
        self.queries.now.load(Relaxed)
    }

    /// Sets the bytes that a flush of all data would take.
    pub fn set_flush_need(&self, bytes: u64) {
        self.flush_need.store(bytes, Relaxed);
    }

    /// Whether a new series of this number of bytes fits, together with the series admitted before
    /// and the next flush. Reserves nothing.
    pub fn has_room_for_series(&self, bytes: u64) -> bool {
        self.level() < Level::Full && self.level_with(self.needed(bytes)) < Level::Full
    }

    /// Bytes that series will need in addition to the memory at the last measurement, with a new one of `bytes`. Reads
    /// do not count: they can be repeated, but a refused sample is lost.
    fn needed(&self, bytes: u64) -> u64 {
        self.flush_need.load(Relaxed).saturating_add(self.series_since()).saturating_add(bytes)
    }

    /// Bytes of series that the last measurement does not include.
    fn series_since(&self) -> u64 {
        self.expected.load(Relaxed).saturating_add(self.added.load(Relaxed))
    }

    /// Bytes that reads took since the last measurement.
    fn reads_since(&self) -> u64 {
        self.answers.since().saturating_add(self.queries.since())
    }

    /// Whether a read may take the bytes that it reserved, in addition to the memory at the last measurement and
    /// all that came since. Bytes of reads count twice: for a moment there is a second copy, from which an answer is
    /// made, or which is freed and not yet returned to the system.
    pub fn has_room_for_reads(&self) -> bool {
        let came = self.series_since().saturating_add(self.reads_since().saturating_mul(2));
        let has = self.resident.load(Relaxed).saturating_add(came);
        self.level() < Level::Full && has < self.limit / 100 * READS
    }

    fn level_with(&self, more: u64) -> Level {
        Level::at(self.resident.load(Relaxed).saturating_add(more), self.limit)
    }

    /// Reserves room for a new series, or counts the refusal and returns its reason.
    fn take_series(&self, bytes: u64) -> Option<RejectReason> {
        let mut more = String::new();
        if self.level() < Level::Full {
            let need = self.needed(bytes);
            if self.level_with(need) < Level::Full {
                self.expected.fetch_add(bytes, Relaxed);
                return None;
            }
            let need = ShownSize::of(need);
            more = format!(", and {need} more with new series and the next flush");
        }
        self.count(Refused::Series);
        let resident = ShownSize::of(self.resident.load(Relaxed));
        let what = format!("the process has {resident} in memory{more}");
        let most = ShownSize::of(self.limit).to_string();
        Some(RejectReason::Limit { what, setting: MEMORY_LIMIT, most })
    }

    fn check(&self, level: Level, what: Refused) -> Result<(), StoreError> {
        if self.level() < level {
            return Ok(());
        }
        self.count(what);
        Err(self.unavailable())
    }

    fn unavailable(&self) -> StoreError {
        StoreError::unavailable(self.text())
    }

    /// Counts a refusal.
    pub fn count(&self, what: Refused) {
        self.refused[what as usize].fetch_add(1, Relaxed);
    }

    /// The number of refusals since the last call.
    pub fn take_refused(&self, what: Refused) -> u64 {
        self.refused[what as usize].swap(0, Relaxed)
    }
}

/// Bytes that a read outside of queries takes, until this is dropped.
#[derive(Debug)]
pub struct ReadRoom {
    pressure: Arc<Pressure>,
    bytes: AtomicU64,
}

impl ReadRoom {
    /// Room that nothing is taken of yet.
    pub fn new(pressure: &Arc<Pressure>) -> Self {
        Self { pressure: pressure.clone(), bytes: AtomicU64::new(0) }
    }
}

impl SelectionMemory for ReadRoom {
    fn take(&self, bytes: usize) -> Result<(), StoreError> {
        self.bytes.fetch_add(bytes as u64, Relaxed);
        self.pressure.take_for_answers(bytes as u64);
        self.pressure.check_read()
    }
}

impl Drop for ReadRoom {
    fn drop(&mut self) {
        self.pressure.give_back_of_answers(self.bytes.load(Relaxed));
    }
}

/// Room for admitted series until they are in memory. A drop before that returns the room.
#[derive(Debug)]
pub struct SeriesRoom {
    pressure: Arc<Pressure>,
    bytes: u64,
}

impl SeriesRoom {
    /// Room for no series yet.
    pub fn new(pressure: &Arc<Pressure>) -> Self {
        Self { pressure: pressure.clone(), bytes: 0 }
    }

    /// Reserves room for a new series of at most `bytes`, or returns why it is refused.
    pub fn refuse(&mut self, bytes: u64) -> Option<RejectReason> {
        let refused = self.pressure.take_series(bytes);
        if refused.is_none() {
            self.bytes += bytes;
        }
        refused
    }

    /// The series are in memory now, where they took `bytes` bytes.
    pub fn fill(self, bytes: u64) {
        // Counted twice for a moment, but never missed.
        self.pressure.added.fetch_add(bytes, Relaxed);
    }
}

impl Drop for SeriesRoom {
    fn drop(&mut self) {
        self.pressure.expected.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_reached_at_once_and_left_with_some_distance() {
        use Level::{Ample, Full, Over, Tight};
        let check = |level: Level, resident: u64, want: Level| {
            assert_eq!(level.next(resident, 1_000), want, "{level:?} at {resident}");
        };
        check(Ample, 0, Ample);
        check(Ample, 799, Ample);
        check(Ample, 800, Tight);
        check(Ample, 900, Full);
        check(Ample, 1_000, Over);
        check(Ample, u64::MAX, Over);
        check(Over, 999, Over);
        check(Over, 950, Over);
        check(Over, 949, Full);
        check(Full, 850, Full);
        check(Full, 849, Tight);
        check(Tight, 750, Tight);
        check(Tight, 749, Ample);
        check(Over, 100, Ample);
        // A level that was not reached is not held.
        check(Tight, 899, Tight);
        check(Ample, 790, Ample);
    }

    #[test]
    fn each_is_refused_at_its_level() {
        let pressure = Arc::new(Pressure::new(1_000));
        let refused = || {
            let write = pressure.check_write().is_err();
            let read = pressure.check_read().is_err();
            let has_room = pressure.has_room_for_series(10);
            let series = SeriesRoom::new(&pressure).refuse(10).is_some();
            assert_eq!(series, !has_room);
            (series, read, write)
        };
        assert_eq!(refused(), (false, false, false));
        pressure.note(849);
        assert_eq!(pressure.level(), Level::Tight);
        assert_eq!(refused(), (false, false, false));
        pressure.take_for_answers(1);
        assert_eq!(refused(), (false, true, false), "with what answers took since");
        pressure.note(849);
        assert_eq!(refused(), (false, false, false), "the process has that");
        pressure.give_back_of_answers(1);
        pressure.note(850);
        assert_eq!(refused(), (false, true, false));
        pressure.note(900);
        assert_eq!(pressure.level(), Level::Full);
        assert_eq!(refused(), (true, true, false));
        pressure.note(2_000);
        assert_eq!(refused(), (true, true, true));
        let counts = Refused::ALL.map(|what| pressure.take_refused(what));
        assert_eq!(counts, [1, 2, 0, 4]);
        assert_eq!(pressure.take_refused(Refused::Series), 0, "taken");
        let text = pressure.check_write().expect_err("over").to_string();
        let want =
            "the process has 2000 bytes in memory, and the setting memory-limit is 1000 bytes";
        assert_eq!(text, want);
        pressure.note(10);
        assert_eq!(refused(), (false, false, false));
    }

    #[test]
    fn without_a_limit_nothing_is_refused() {
        let pressure = Arc::new(Pressure::default());
        pressure.note(1 << 50);
        assert_eq!(pressure.level(), Level::Ample);
        pressure.check_write().expect("there is room");
        pressure.check_read().expect("there is room");
        assert_eq!(SeriesRoom::new(&pressure).refuse(1 << 40), None);
    }

    #[test]
    fn a_new_series_needs_room_for_those_before_it_and_for_its_flush() {
        let pressure = Arc::new(Pressure::new(1_000));
        pressure.note(700);
        let let_in =
            |room: &mut SeriesRoom| (0..).take_while(|_| room.refuse(50).is_none()).count();
        let mut room = SeriesRoom::new(&pressure);
        assert_eq!(let_in(&mut room), 3, "850, and one more would be at nine tenths");
        assert_eq!(let_in(&mut SeriesRoom::new(&pressure)), 0);
        // Series that are not in memory yet count, whenever the process is measured.
        pressure.note(700);
        assert_eq!(let_in(&mut SeriesRoom::new(&pressure)), 0);
        // They took less than reserved, and are not measured yet.
        room.fill(60);
        let mut room = SeriesRoom::new(&pressure);
        assert_eq!(let_in(&mut room), 2);
        pressure.note(760);
        assert_eq!(let_in(&mut SeriesRoom::new(&pressure)), 0);
        // A refused write gives its room back.
        drop(room);
        assert_eq!(let_in(&mut SeriesRoom::new(&pressure)), 2);
        pressure.note(700);
        pressure.set_flush_need(100);
        let mut room = SeriesRoom::new(&pressure);
        assert_eq!(let_in(&mut room), 1);
        let refused = room.refuse(50).expect("refused").to_string();
        let text = "the process has 700 bytes in memory, and 200 bytes more with new series and the next flush";
        assert!(refused.contains(text), "{refused}");
        drop(room);
        pressure.note(799);
        assert_eq!((let_in(&mut SeriesRoom::new(&pressure)), pressure.level()), (0, Level::Ample));
    }

    /// Between two measurements reads see what every kind of work took, and new series what series took.
    #[test]
    fn what_came_since_counts_for_reads() {
        let take_series = |pressure: &Arc<Pressure>| {
            let mut room = SeriesRoom::new(pressure);
            assert_eq!(room.refuse(250), None);
            room.fill(250);
        };
        type Take<'a> = &'a dyn Fn(&Arc<Pressure>);
        let takers: [(&str, Take); 3] = [
            ("queries", &|pressure| assert_eq!(pressure.take_for_queries(130), 130)),
            ("answers", &|pressure| pressure.take_for_answers(130)),
            ("series", &take_series),
        ];
        for (what, take) in takers {
            let pressure = Arc::new(Pressure::new(1_000));
            pressure.note(600);
            assert!(pressure.has_room_for_reads() && pressure.has_room_for_series(250), "{what}");
            take(&pressure);
            assert!(!pressure.has_room_for_reads(), "{what}");
            assert_eq!(pressure.has_room_for_series(250), what != "series", "{what}");
            let text = pressure.check_read().expect_err("no room").to_string();
            assert!(
                text.ends_with(" bytes more were taken since the process was measured"),
                "{text}"
            );
            // The process has that, and there is room for more.
            pressure.note(600);
            assert!(pressure.has_room_for_reads() && pressure.has_room_for_series(250), "{what}");
        }
        let pressure = Arc::new(Pressure::new(1_000));
        pressure.note(600);
        // What is taken during a measurement is not in it.
        pressure.measure(|| {
            pressure.take_for_queries(130);
            Some(600)
        });
        assert!(!pressure.has_room_for_reads());
        // A failed measurement changes nothing.
        assert_eq!((pressure.measure(|| None), pressure.has_room_for_reads()), (None, false));
        pressure.give_back_of_queries(130);
        // The room of a read is free when it is dropped.
        let room = ReadRoom::new(&pressure);
        room.take(100).expect("there is some");
        room.take(100).expect_err("less than that");
        assert_eq!(pressure.take_refused(Refused::Read), 1);
        drop(room);
        assert!(pressure.has_room_for_reads());
    }

    #[test]
    fn what_was_freed_is_said_once() {
        let pressure = Pressure::default();
        assert!(!pressure.take_freed());
        pressure.note_freed();
        assert!(pressure.take_freed() && !pressure.take_freed());
    }
}
