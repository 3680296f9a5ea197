//! The limit on concurrent writes of points, found from how the servers answer.
//!
//! A server with room answers as quickly as ever. Once it is busy, more requests in flight only wait
//! longer. So the latencies of a round (as many answers as the limit allows in flight) are compared with
//! the smallest latency seen for batches of their size. Near it the limit rises, at [`TOLERANCE`] times it
//! the limit stays about the same, beyond that it falls. An answer that says overload halves the limit,
//! once for all requests that were in flight with it. A limit that is not in use does not rise.
//!
//! The smallest latency may change, so it is measured anew from time to time, with few requests in flight,
//! because a queue would hide it. Pure: no clock, no waiting.

use std::time::Duration;

/// The limit at the start. It keeps a small server busy.
const START: f64 = 64.0;
/// Slow answers alone lower the limit no further. So few requests harm no server; slow answers then
/// mostly come from a pause of the server, not from a queue.
const LEAST_BY_LATENCY: f64 = 16.0;
/// The latency of a busy server, as a multiple of the smallest latency. About this multiple of what
/// keeps the server busy is in flight, so that answers of uneven duration leave it no gap.
const TOLERANCE: f64 = 3.0;
/// A latency counts at most as this multiple of the smallest latency: one pause is not a queue.
const LATEST: f64 = 2.0 * TOLERANCE;
/// The smallest latency is a mean over this number of answers: one lucky answer is no measure.
const SAMPLE: u32 = 8;
/// Rounds after which the smallest latencies are measured anew, ...
const ROUNDS: u32 = 1_000;
/// ... with the limit divided by this, which leaves no queue.
const SHARE: f64 = 5.0;
/// Classes of batch sizes: 1 row, 2 and 3, 4 to 7, and so on.
const SIZES: usize = 9;

/// The result of a write.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reply {
    /// A batch of this many rows was written, after this time.
    Done(usize, Duration),
    /// The servers cannot keep up.
    Overload,
    /// A result that does not say how busy the servers are.
    Other,
}

/// The limit and what it is computed from.
#[derive(Debug)]
pub(crate) struct Concurrency {
    limit: f64,
    most: f64,
    sizes: [Latency; SIZES],
    round: Round,
    /// Rounds since the smallest latencies were measured.
    rounds: u32,
    /// Outstanding answers of requests that were in flight when the limit fell. They are ignored.
    outdated: usize,
}

/// Latencies of batches of one size, in seconds.
#[derive(Debug, Clone, Copy)]
struct Latency {
    /// The smallest mean; infinite before the first one.
    smallest: f64,
    sum: f64,
    answers: u32,
}

/// The answers since the limit was last set.
#[derive(Debug, Default)]
struct Round {
    answers: u32,
    /// The sum of the latencies, each as a multiple of the smallest one.
    ratios: f64,
    /// The most requests in flight.
    busiest: usize,
}

impl Concurrency {
    /// A limit that never exceeds `most`.
    pub(crate) fn new(most: usize) -> Self {
        let most = most.max(1) as f64;
        Self {
            limit: START.min(most),
            most,
            sizes: [Latency::UNKNOWN; SIZES],
            round: Round::default(),
            rounds: 0,
            outdated: 0,
        }
    }

    /// From 1 to the `most` of [`Self::new`].
    pub(crate) fn limit(&self) -> usize {
        self.limit as usize
    }

    /// Takes an answer; `in_flight` counts the requests in flight with it, itself included.
    pub(crate) fn observe(&mut self, reply: Reply, in_flight: usize) {
        if self.outdated > 0 {
            self.outdated -= 1;
            return;
        }
        match reply {
            Reply::Done(rows, took) => {
                self.round.busiest = self.round.busiest.max(in_flight);
                let size = rows.max(1).ilog2() as usize;
                if let Some(ratio) = self.sizes[size.min(SIZES - 1)].take(took) {
                    self.round.answers += 1;
                    self.round.ratios += ratio;
                }
                if f64::from(self.round.answers) >= self.limit {
                    self.end_round(in_flight);
                }
            }
            Reply::Overload => self.fall(self.limit / 2.0, in_flight),
            Reply::Other => {}
        }
    }

    fn end_round(&mut self, in_flight: usize) {
        let Round { answers, ratios, busiest } = std::mem::take(&mut self.round);
        let gradient = (TOLERANCE * f64::from(answers) / ratios).clamp(0.5, 1.0);
        // Half of the way at a time: the answers reflect the limit of a round ago.
        let next = (self.limit + self.limit * gradient + self.limit.sqrt()) / 2.0;
        let is_used = busiest * 2 >= self.limit();
        if next < self.limit {
            self.limit = next.max(self.limit.min(LEAST_BY_LATENCY));
        } else if is_used {
            self.limit = next.min(self.most);
        }
        self.rounds += 1;
        if self.rounds >= ROUNDS {
            self.rounds = 0;
            self.sizes = [Latency::UNKNOWN; SIZES];
            if is_used {
                self.fall(self.limit / SHARE, in_flight);
            }
        }
    }

    fn fall(&mut self, limit: f64, in_flight: usize) {
        self.limit = limit.max(1.0);
        self.round = Round::default();
        self.outdated = in_flight.saturating_sub(1);
    }
}

impl Latency {
    const UNKNOWN: Self = Self { smallest: f64::INFINITY, sum: 0.0, answers: 0 };

    /// Takes the latency of an answer. Returns it as a multiple of the smallest one, once that is known.
    fn take(&mut self, took: Duration) -> Option<f64> {
        let took = took.as_secs_f64().max(1e-6);
        self.sum += took;
        self.answers += 1;
        if self.answers == SAMPLE {
            self.smallest = self.smallest.min(self.sum / f64::from(SAMPLE));
            (self.sum, self.answers) = (0.0, 0);
        }
        self.smallest.is_finite().then(|| (took / self.smallest).min(LATEST))
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use super::*;

    /// Pseudo-random numbers, the same each time.
    struct Numbers(u64);

    impl Numbers {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0
        }
    }

    /// A server that works on some batches at a time and queues the rest in order. Time is in
    /// microseconds.
    struct Server {
        now: u64,
        /// When each worker is free again.
        free: BinaryHeap<Reverse<u64>>,
        /// End and begin of each batch.
        in_flight: BinaryHeap<Reverse<(u64, u64)>>,
        numbers: Numbers,
    }

    impl Server {
        fn new(capacity: usize) -> Self {
            let free = (0..capacity).map(|_| Reverse(0)).collect();
            Self { now: 0, free, in_flight: BinaryHeap::new(), numbers: Numbers(0x9e37_79b9) }
        }

        /// Keeps as many in flight as the limit allows, until `answers` are answered. Each takes
        /// `work`, half more or half less. Returns the answers per second.
        fn answer(&mut self, limit: &mut Concurrency, answers: usize, work: u64) -> f64 {
            let began = self.now;
            for _ in 0..answers {
                while self.in_flight.len() < limit.limit() {
                    let Reverse(free) = self.free.pop().expect("works on some");
                    let work = work / 2 + self.numbers.next() % (work + 1);
                    let end = free.max(self.now) + work;
                    self.free.push(Reverse(end));
                    self.in_flight.push(Reverse((end, self.now)));
                }
                let in_flight = self.in_flight.len();
                let Reverse((end, sent)) = self.in_flight.pop().expect("at least one");
                self.now = end;
                let took = Duration::from_micros(end - sent);
                limit.observe(Reply::Done(60, took), in_flight);
            }
            answers as f64 * 1e6 / (self.now - began) as f64
        }
    }

    #[test]
    fn it_keeps_a_server_busy_with_a_short_queue() {
        for (capacity, work) in [(1, 400), (4, 3_000), (8, 100), (20, 1_000), (50, 7_000)] {
            let (mut limit, mut server) = (Concurrency::new(256), Server::new(capacity));
            server.answer(&mut limit, 20_000, work);
            let mut limits = Vec::new();
            let mut rate = 0.0;
            for _ in 0..200 {
                rate += server.answer(&mut limit, 500, work) / 200.0;
                limits.push(limit.limit());
            }
            limits.sort_unstable();
            let most = (5 * capacity).max(2 * LEAST_BY_LATENCY as usize);
            assert!((capacity..=most).contains(&limits[100]), "{capacity}: {}", limits[100]);
            let ideal = capacity as f64 * 1e6 / work as f64;
            assert!(rate > 0.93 * ideal, "{capacity}: {rate} of {ideal} a second");
        }
    }

    #[test]
    fn what_is_more_than_enough_stays_at_the_most() {
        let (mut limit, mut server) = (Concurrency::new(100), Server::new(400));
        server.answer(&mut limit, 20_000, 1_000);
        assert_eq!(limit.limit(), 100);
    }

    #[test]
    fn overload_halves_it_once_for_all_in_flight_and_passes() {
        let (mut limit, mut server) = (Concurrency::new(256), Server::new(20));
        server.answer(&mut limit, 20_000, 1_000);
        let before = limit.limit();
        for _ in 0..before {
            limit.observe(Reply::Overload, before);
        }
        assert_eq!(limit.limit(), before / 2);
        for _ in 0..1_000 {
            limit.observe(Reply::Overload, limit.limit());
        }
        assert_eq!(limit.limit(), 1);
        server.answer(&mut limit, 20_000, 1_000);
        assert!(limit.limit() >= 20, "{}", limit.limit());
    }

    #[test]
    fn a_server_that_becomes_slow_for_good_is_kept_busy_again() {
        let (mut limit, mut server) = (Concurrency::new(256), Server::new(50));
        server.answer(&mut limit, 20_000, 1_000);
        server.answer(&mut limit, 100_000, 10_000);
        let rate = server.answer(&mut limit, 20_000, 10_000);
        assert!(rate > 0.9 * 5_000.0, "{rate} a second");
    }

    #[test]
    fn batches_of_another_size_are_measured_by_their_own() {
        let mut limit = Concurrency::new(256);
        for _ in 0..1_000 {
            // Large batches always take twenty times as long.
            limit.observe(Reply::Done(1, Duration::from_micros(200)), 256);
            limit.observe(Reply::Done(240, Duration::from_millis(4)), 256);
        }
        assert!(limit.limit() > 100, "{}", limit.limit());
    }

    #[test]
    fn a_limit_that_is_not_in_use_does_not_rise() {
        let mut limit = Concurrency::new(256);
        for _ in 0..200_000 {
            limit.observe(Reply::Done(1, Duration::from_millis(1)), 1);
        }
        assert_eq!(limit.limit(), START as usize);
    }

    #[test]
    fn whatever_comes_it_stays_between_one_and_the_most() {
        let mut numbers = Numbers(7);
        for most in [0, 1, 2, 17, 256] {
            let mut limit = Concurrency::new(most);
            for _ in 0..50_000 {
                let number = numbers.next();
                let (rows, in_flight) = ((number % 300) as usize, (number >> 16) as usize % 300);
                let answer = match number >> 60 {
                    0 => Reply::Overload,
                    1 => Reply::Other,
                    _ => Reply::Done(rows, Duration::from_micros(number >> 44)),
                };
                limit.observe(answer, in_flight);
                assert!((1..=most.max(1)).contains(&limit.limit()), "{limit:?}");
            }
        }
    }
}
