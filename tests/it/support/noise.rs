//! A TCP proxy on a free port that damages its traffic: it flips bits, truncates pieces, resets
//! connections and delays pieces. Its choices follow from the seed, the number of the connection
//! and the direction; the bytes that they affect do not.
//!
//! It only forwards until [`Noise::begin`].

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::proxy::read_frame;

/// Approximate bytes between two faults, if any byte may change.
const BYTES_A_FAULT: f64 = 50_000.0;
/// Approximate frames between two faults.
const FRAMES_A_FAULT: f64 = 150.0;
/// Longest delay of a piece.
const DELAY_MS: u64 = 200;
/// Position of the version in a frame, which both peers check first: the only flipped bit that is
/// certain to be noticed.
const VERSION: usize = 0;

/// What may be changed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Changes {
    /// Any bit of any byte.
    Anything,
    /// The versions of CQL frames.
    FrameVersions,
}

/// The proxy. Dropping it stops accepting connections.
pub(crate) struct Noise {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    noisy: watch::Sender<bool>,
    faults: Arc<AtomicUsize>,
    listening: AbortHandle,
}

/// State shared by all connections.
#[derive(Clone)]
struct Line {
    target: String,
    changes: Changes,
    seed: u64,
    noisy: watch::Receiver<bool>,
    faults: Arc<AtomicUsize>,
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Closed,
    Reset,
}

impl Noise {
    /// Forwards every connection to `target`, given as `host:port`.
    pub(crate) async fn before(target: &str, changes: Changes, seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let noisy = watch::Sender::new(false);
        let faults = Arc::<AtomicUsize>::default();
        let line = Line {
            target: target.to_owned(),
            changes,
            seed,
            noisy: noisy.subscribe(),
            faults: Arc::clone(&faults),
        };
        let listening = tokio::spawn(accept(listener, line)).abort_handle();
        Self { address, noisy, faults, listening }
    }

    /// Starts to damage the traffic.
    pub(crate) fn begin(&self) {
        self.noisy.send_replace(true);
    }

    /// Ends all connections, whose readers may be out of step, and stops damaging.
    pub(crate) fn end(&self) {
        self.noisy.send_replace(false);
    }

    /// Number of faults, without delays.
    pub(crate) fn faults(&self) -> usize {
        self.faults.load(Ordering::Relaxed)
    }
}

impl Drop for Noise {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn accept(listener: TcpListener, line: Line) {
    for number in 0.. {
        let Ok((client, _)) = listener.accept().await else { continue };
        let line = line.clone();
        tokio::spawn(async move {
            let Ok(server) = TcpStream::connect(&line.target).await else { return };
            line.join(client, server, number).await;
        });
    }
}

impl Line {
    /// Carries both directions until one of them ends.
    async fn join(self, mut client: TcpStream, mut server: TcpStream, number: u64) {
        let random = |side| StdRng::seed_from_u64(self.seed.wrapping_add(2 * number + side));
        let mut noisy = self.noisy.clone();
        let noise_has_ended = async {
            // An error means that the proxy is gone.
            let _ = noisy.wait_for(|noisy| *noisy).await;
            let _ = noisy.wait_for(|noisy| !*noisy).await;
        };
        let end = {
            let (mut from_client, mut to_client) = client.split();
            let (mut from_server, mut to_server) = server.split();
            tokio::select! {
                end = self.carry(&mut from_client, &mut to_server, random(0)) => end,
                end = self.carry(&mut from_server, &mut to_client, random(1)) => end,
                () = noise_has_ended => End::Closed,
            }
        };
        if end == End::Reset {
            for stream in [&client, &server] {
                // The peer may have closed first.
                let _ = stream.set_zero_linger();
            }
        }
    }

    /// Forwards one direction, piece by piece.
    async fn carry(
        &self,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
        mut random: StdRng,
    ) -> End {
        loop {
            let Ok(mut piece) = self.changes.read(from).await else { return End::Closed };
            if *self.noisy.borrow() && random.random_bool(self.changes.chance(&piece)) {
                let kind = random.random_range(0..10);
                if kind < 9 {
                    self.faults.fetch_add(1, Ordering::Relaxed);
                }
                match kind {
                    0..6 => self.changes.flip(&mut piece, &mut random),
                    6..8 => {
                        let part = random.random_range(0..piece.len());
                        let _ = to.write_all(&piece[..part]).await;
                        return End::Closed;
                    }
                    8 => return End::Reset,
                    _ => {
                        let delay = Duration::from_millis(random.random_range(0..DELAY_MS));
                        tokio::time::sleep(delay).await;
                    }
                }
            }
            if to.write_all(&piece).await.is_err() {
                return End::Closed;
            }
        }
    }
}

impl Changes {
    /// The next piece, not empty: a frame, or the bytes that are available.
    async fn read(self, from: &mut (impl AsyncRead + Unpin)) -> std::io::Result<Vec<u8>> {
        match self {
            Self::FrameVersions => read_frame(from).await,
            Self::Anything => {
                let mut piece = vec![0; 4096];
                let length = from.read(&mut piece).await?;
                piece.truncate(length);
                match length {
                    0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
                    _ => Ok(piece),
                }
            }
        }
    }

    /// The probability that a piece is damaged.
    fn chance(self, piece: &[u8]) -> f64 {
        match self {
            Self::FrameVersions => 1.0 / FRAMES_A_FAULT,
            Self::Anything => (piece.len() as f64 / BYTES_A_FAULT).min(1.0),
        }
    }

    /// Flips one bit.
    fn flip(self, piece: &mut [u8], random: &mut StdRng) {
        let at = match self {
            Self::FrameVersions => VERSION,
            Self::Anything => random.random_range(0..piece.len()),
        };
        piece[at] ^= 1 << random.random_range(0..8);
    }
}
