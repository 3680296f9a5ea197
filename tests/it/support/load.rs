//! A write load that records what it sent and what was acknowledged.
//!
//! No timestamp of a series is sent twice. So whatever a server holds in the end must be a sample
//! that was sent, bit for bit, and must include every acknowledged sample.

use std::collections::BTreeMap;
use std::sync::Mutex;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::eventually;
use super::promkairos::{self, Answer, Promkairos};
use super::proto::Message;
use super::remote_read::Point;

/// Name of all series of a load.
pub(crate) const METRIC: &str = "load";

const SERIES_A_REQUEST: u64 = 20;
const START_MS: i64 = 1_700_000_000_000;

/// Samples by series number and timestamp, as bits.
type Samples = BTreeMap<(u64, i64), u64>;

/// The samples sent so far.
#[derive(Default)]
pub(crate) struct Load {
    books: Mutex<Books>,
}

#[derive(Default)]
struct Books {
    /// Number of requests; each has its own timestamps.
    requests: i64,
    sent: Samples,
    acknowledged: Samples,
}

impl Load {
    /// Number of acknowledged samples.
    pub(crate) fn acknowledged(&self) -> usize {
        self.books.lock().expect("nobody panics").acknowledged.len()
    }

    /// Sends requests from `senders` tasks until the server is gone.
    pub(crate) async fn send_until_gone(&self, server: &Promkairos, senders: u64, seed: u64) {
        let one = |sender: u64| async move {
            let mut random = StdRng::seed_from_u64(seed ^ sender);
            while self.send(server, &mut random).await.is_ok() {}
        };
        futures::future::join_all((0..senders).map(one)).await;
    }

    /// Sends one request and returns the status of its answer, which must be a success or ask for a retry.
    pub(crate) async fn send(
        &self,
        server: &Promkairos,
        random: &mut StdRng,
    ) -> Result<u16, reqwest::Error> {
        let answer = self.attempt(server, random).await?;
        assert!(matches!(answer.status, 204 | 503), "{answer:?}");
        Ok(answer.status)
    }

    /// The same where other errors are allowed too; returns the whole answer.
    pub(crate) async fn attempt(
        &self,
        server: &Promkairos,
        random: &mut StdRng,
    ) -> Result<Answer, reqwest::Error> {
        let request = self.next_request(random);
        let answer = server.write(promkairos::Message::V1, block(&request)).await?;
        if answer.status == 204 {
            self.books.lock().expect("nobody panics").acknowledged.extend(request);
        }
        Ok(answer)
    }

    /// New samples, recorded as sent.
    fn next_request(&self, random: &mut StdRng) -> Samples {
        let mut books = self.books.lock().expect("nobody panics");
        books.requests += 1;
        let time = START_MS + books.requests * 1_000;
        let first = random.random_range(0..100);
        let mut request = Samples::new();
        for series in first..first + SERIES_A_REQUEST {
            for offset in 0..2 {
                request.insert((series, time + offset), random_bits(random));
            }
        }
        books.sent.extend(request.iter().map(|(key, bits)| (*key, *bits)));
        request
    }

    /// Asserts that the server holds everything acknowledged and nothing that was not sent.
    pub(crate) async fn check(&self, server: &Promkairos) {
        let wrong = self.difference(server).await.expect("it answers");
        assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    }

    /// Waits until the server holds everything acknowledged and nothing that was not sent.
    pub(crate) async fn check_soon(&self, server: &Promkairos) {
        eventually("all that was acknowledged is there", async || {
            match self.difference(server).await? {
                None => Ok(()),
                Some(wrong) => Err(wrong),
            }
        })
        .await;
    }

    /// What is wrong with the content of the server, if anything.
    pub(crate) async fn difference(&self, server: &Promkairos) -> Result<Option<String>, String> {
        let mut held = Samples::new();
        for series in server.read("__name__", METRIC).await? {
            let number = series.labels["series"].parse().expect("a number");
            for (time, point) in series.points {
                let Point::Float(bits) = point else { panic!("{point:?}") };
                held.insert((number, time), bits);
            }
        }
        let books = self.books.lock().expect("nobody panics");
        let lost: Vec<_> =
            books.acknowledged.iter().filter(|(key, bits)| held.get(key) != Some(bits)).collect();
        let invented: Vec<_> =
            held.iter().filter(|(key, bits)| books.sent.get(key) != Some(bits)).collect();
        if lost.is_empty() && invented.is_empty() {
            return Ok(None);
        }
        Ok(Some(format!(
            "of {} acknowledged samples {} are lost, such as {:x?}; {} are not what was sent, such as {:x?}",
            books.acknowledged.len(),
            lost.len(),
            lost.first(),
            invented.len(),
            invented.first(),
        )))
    }
}

/// Mostly ordinary numbers, mixed with unusual ones.
fn random_bits(random: &mut StdRng) -> u64 {
    match random.random_range(0..10) {
        0 => 0x7ff0_0000_0000_0002,
        1 => f64::INFINITY.to_bits(),
        2 => random.random(),
        _ => (f64::from(random.random::<i32>()) / 64.0).to_bits(),
    }
}

/// `prometheus.WriteRequest` as a snappy block.
fn block(samples: &Samples) -> Vec<u8> {
    let mut by_series: BTreeMap<u64, Vec<Message>> = BTreeMap::new();
    for ((series, time), bits) in samples {
        let sample =
            Message::default().double(1, f64::from_bits(*bits)).varint(2, time.cast_unsigned());
        by_series.entry(*series).or_default().push(sample);
    }
    let series = by_series.into_iter().map(|(number, samples)| {
        let labels = [("__name__", METRIC.to_owned()), ("series", number.to_string())];
        let label =
            |(name, value): (&str, String)| Message::default().bytes(1, name).bytes(2, value);
        Message::default().messages(1, labels.map(label)).messages(2, samples)
    });
    compress(&Message::default().messages(1, series))
}

/// A message as a snappy block.
pub(crate) fn compress(message: &Message) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(&message.0).expect("far below 4 GiB")
}
