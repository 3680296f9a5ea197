//! Tests: retention follows the time; a clock that jumps removes nothing; no part is rewritten within an hour.
//!
//! The test sets the clock. Retention also follows the time that really passes in the test, some minutes at most, so
//! all expected days are days away from its edge.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use promkairos::model::TimeRange;
use promkairos::storage::Clock;
use promkairos::storage::embedded::{Options, Parts};
use promkairos::telemetry::StoreMetrics;

use super::disk::SimulatedDisk;
use super::model::{DAY, Step, labels, point};
use super::{DIR, apply, block_on, content, options};

const YEAR: i64 = 365 * DAY;

/// A disk and a clock.
#[derive(Default)]
struct Machine {
    disk: SimulatedDisk,
    now: Arc<AtomicI64>,
}

impl Machine {
    fn set_clock(&self, now: i64) {
        self.now.store(now, Ordering::Relaxed);
    }

    fn start(&self, retention_days: i64) -> Parts {
        let now = Arc::clone(&self.now);
        let options = Options {
            retention: Duration::from_millis((retention_days * DAY).cast_unsigned()),
            clock: Clock::new(move || now.load(Ordering::Relaxed)),
            ..options()
        };
        let (files, dir) = (Arc::new(self.disk.clone()), Path::new(DIR));
        Parts::open_with(files, dir, options, StoreMetrics::default()).expect("it opens")
    }

    /// Runs the periodic work of the store.
    fn maintain(&self, store: &Parts) {
        store.maintain(self.now.load(Ordering::Relaxed)).expect("nothing fails");
    }
}

/// Writes one point on each of these days.
fn write(store: &Parts, days: Range<i64>) {
    let through = days.end.cast_unsigned();
    let points = days.map(|day| point(day * DAY + 5)).collect::<Vec<_>>();
    let runs = vec![(labels(&[("job", "a")]), vec![points])];
    let step = Step::Absorb { through, runs, exemplars: vec![], metadata: vec![] };
    block_on(apply(store, &step)).expect("nothing fails");
}

/// The days that still have points.
fn days(store: &Parts) -> Vec<i64> {
    let left = block_on(content(store)).expect("it can be read");
    let points = left.series.into_values().flat_map(BTreeMap::into_keys);
    points.map(|timestamp| timestamp / DAY).collect()
}

fn range(first: i64, last: i64) -> Vec<i64> {
    (first..=last).collect()
}

#[test]
fn days_beyond_the_retention_go() {
    let machine = Machine::default();
    machine.set_clock(9 * DAY + DAY / 2);
    let store = machine.start(5);
    write(&store, 0..10);
    machine.maintain(&store);
    assert_eq!(days(&store), range(4, 9));
    // Three more days pass: while the store runs, or while it does not.
    write(&store, 10..13);
    machine.set_clock(12 * DAY + DAY / 2);
    drop(store);
    let store = machine.start(5);
    assert_eq!(days(&store), range(7, 12));
    let parts = machine.disk.names().iter().filter(|name| name.ends_with(".part")).count();
    assert_eq!(parts, 6);
    // Without retention the clock does not matter.
    machine.set_clock(YEAR);
    drop(store);
    assert_eq!(days(&machine.start(0)), range(7, 12));
}

#[test]
fn a_clock_that_jumps_takes_nothing_with_it() {
    let machine = Machine::default();
    let today = 9 * DAY + DAY / 2;
    machine.set_clock(today);
    let store = machine.start(20);
    write(&store, 0..10);
    for now in [10 * YEAR, i64::MAX, 0, -YEAR, i64::MIN, 10 * YEAR, today] {
        machine.set_clock(now);
        machine.maintain(&store);
        assert_eq!(days(&store), range(0, 9), "the clock shows {now}");
    }
    // A start while the clock is wrong.
    drop(store);
    machine.set_clock(10 * YEAR);
    let store = machine.start(20);
    machine.maintain(&store);
    assert_eq!(days(&store), range(0, 9));
    // Points of a sender whose clock jumps too.
    let far = 10 * 365;
    write(&store, far..far + 1);
    machine.maintain(&store);
    let all = [range(0, 9), vec![far]].concat();
    assert_eq!(days(&store), all);
    machine.set_clock(today);
    machine.maintain(&store);
    drop(store);
    let store = machine.start(20);
    assert_eq!(days(&store), all);
    // Time passes as usual.
    write(&store, 25..26);
    drop(store);
    machine.set_clock(25 * DAY + DAY / 2);
    assert_eq!(days(&machine.start(20)), [range(5, 9), vec![25, far]].concat());
}

const MINUTE: i64 = 60_000;

/// A store at noon of the tenth day, without retention.
struct Noon {
    machine: Machine,
    store: Option<Parts>,
    flushed: i64,
}

impl Noon {
    fn new() -> Self {
        let machine = Machine::default();
        machine.set_clock(9 * DAY + DAY / 2);
        let store = Some(machine.start(0));
        Self { machine, store, flushed: 0 }
    }

    fn store(&self) -> &Parts {
        self.store.as_ref().expect("it is open")
    }

    /// Flushes this many times; each flush makes a part of one point.
    fn flush(&mut self, count: i64) {
        for _ in 0..count {
            self.flushed += 1;
            let points = vec![vec![point(9 * DAY + self.flushed)]];
            let runs = vec![(labels(&[("job", "a")]), points)];
            let through = self.flushed.cast_unsigned();
            let step = Step::Absorb { through, runs, exemplars: vec![], metadata: vec![] };
            block_on(apply(self.store(), &step)).expect("nothing fails");
        }
    }

    /// Deletes the point of a flush.
    fn delete(&self, flush: i64) {
        let range = TimeRange::new(9 * DAY + flush, 9 * DAY + flush);
        let step = Step::Delete { matchers: vec![], range };
        block_on(apply(self.store(), &step)).expect("nothing fails");
    }

    fn parts(&self) -> Vec<String> {
        let names = self.machine.disk.names().into_iter();
        names.filter(|name| name.ends_with(".part")).collect()
    }

    /// Compacts `minutes` minutes after noon; returns the number of parts afterwards.
    fn parts_at(&self, minutes: i64) -> usize {
        self.machine.set_clock(9 * DAY + DAY / 2 + minutes * MINUTE);
        self.machine.maintain(self.store());
        self.parts().len()
    }

    fn restart(&mut self) {
        drop(self.store.take());
        self.store = Some(self.machine.start(0));
    }

    fn points(&self) -> usize {
        let found = block_on(content(self.store())).expect("it can be read");
        found.series.values().map(BTreeMap::len).sum()
    }
}

#[test]
fn no_part_is_merged_twice_within_an_hour() {
    let mut noon = Noon::new();
    noon.flush(4);
    assert_eq!(noon.parts_at(0), 1);
    noon.flush(4);
    assert_eq!(noon.parts_at(1), 2, "the first one rests");
    // The rest does not end with a restart.
    noon.restart();
    noon.flush(2);
    assert_eq!(noon.parts_at(59), 4, "both do");
    assert_eq!(noon.parts_at(62), 1);
    assert_eq!(noon.points(), 10);
}

#[test]
fn a_clock_that_is_set_back_stops_no_merge() {
    let mut noon = Noon::new();
    noon.flush(4);
    assert_eq!(noon.parts_at(0), 1);
    noon.flush(3);
    assert_eq!(noon.parts_at(-50), 4, "a little is no reason to write it again");
    assert_eq!(noon.parts_at(-60 * 24), 1);
    // After a restart the new time of the clock counts.
    noon.restart();
    noon.flush(3);
    assert_eq!(noon.parts_at(-60 * 24 + 59), 4);
    assert_eq!(noon.parts_at(-60 * 24 + 60), 1);
    assert_eq!(noon.points(), 10);
}

#[test]
fn a_day_with_many_flushes_rests_too_and_does_not_grow_without_bound() {
    let mut noon = Noon::new();
    // The minute in which compaction wrote each part.
    let mut merged: BTreeMap<String, i64> = BTreeMap::new();
    let mut most = 0;
    for minute in 0..150 {
        noon.flush(6);
        let before = noon.parts();
        most = most.max(noon.parts_at(minute));
        let parts = noon.parts();
        merged.retain(|name, since| {
            let stays = parts.contains(name);
            assert!(stays || *since + 60 <= minute, "{name} of {since} was merged at {minute}");
            stays
        });
        let new = parts.into_iter().filter(|name| !before.contains(name));
        merged.extend(new.map(|name| (name, minute)));
    }
    // With 360 flushes an hour.
    assert!((65..=120).contains(&most), "{most} parts");
    assert_eq!(noon.points(), 6 * 150);
}

#[test]
fn what_was_merged_rests_for_deletes_too() {
    let mut noon = Noon::new();
    noon.flush(4);
    assert_eq!(noon.parts_at(0), 1);
    let merged = noon.parts();
    noon.delete(1);
    noon.restart();
    assert_eq!(noon.points(), 3, "reads do not wait for it");
    noon.parts_at(59);
    assert_eq!(noon.parts(), merged);
    assert_eq!(noon.parts_at(60), 1);
    let rewritten = noon.parts();
    assert_ne!(rewritten, merged);
    // A part that a flush wrote may be rewritten at once; a rewritten part may not.
    noon.flush(1);
    noon.delete(5);
    noon.delete(2);
    noon.parts_at(119);
    assert_eq!(noon.parts(), rewritten);
    assert_eq!(noon.parts_at(120), 1);
    assert_ne!(noon.parts(), rewritten);
    assert_eq!(noon.points(), 2);
}

#[test]
fn very_many_deletes_end_a_rest() {
    let mut noon = Noon::new();
    noon.flush(4);
    assert_eq!(noon.parts_at(0), 1);
    let merged = noon.parts();
    (0..256).for_each(|_| noon.delete(2));
    noon.parts_at(1);
    assert_eq!(noon.parts(), merged);
    noon.delete(3);
    assert_eq!(noon.parts_at(1), 1);
    assert_ne!(noon.parts(), merged);
    assert_eq!(noon.points(), 2);
}
