//! A TCP proxy on a free port that simulates faults of a Cassandra: connections cut and restored,
//! CQL frames held back (a peer that hangs, or answers one statement late), a batch applied by half
//! and not answered (a peer that dies), all answers delayed (a distant peer). It can also enable
//! the server's errors about overload, which are off by default.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore, mpsc, watch};
use tokio::time::Instant;

use super::DEADLINE;

/// Bytes before the body of a frame of the native protocol, version 4; the last four are its length.
const HEADER: usize = 9;
/// Position of the opcode in the header of a frame, and the opcodes that are recognised.
const OPCODE: usize = 4;
const ERROR: u8 = 0x00;
const STARTUP: u8 = 0x01;
const BATCH: u8 = 0x0d;
/// The beginning of an error's body for a statement that the server does not know.
const UNPREPARED: [u8; 4] = [0, 0, 0x25, 0];
/// The beginning of an error's body for an overloaded server.
const OVERLOADED: [u8; 4] = [0, 0, 0x10, 1];
/// The option of STARTUP that enables errors about overload.
const THROW_ON_OVERLOAD: (&str, &str) = ("THROW_ON_OVERLOAD", "1");

/// The proxy. Dropping it cuts it permanently.
pub(crate) struct Proxy {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    cut: watch::Sender<bool>,
    gate: Arc<Gate>,
}

/// What is held back or changed on the way to the server.
struct Gate {
    /// Frames with these bytes in them.
    needle: std::sync::Mutex<Option<Vec<u8>>>,
    /// One permit for each frame that may pass.
    permits: Semaphore,
    /// Number of frames held back.
    held: watch::Sender<usize>,
    /// Batches to halve, and batches that were halved.
    to_halve: AtomicUsize,
    halved: AtomicUsize,
    /// Number of answers that a statement is not known.
    unprepared: AtomicUsize,
    /// Whether new connections enable errors about overload, and the number of such errors.
    wants_overload: AtomicBool,
    overloaded: AtomicUsize,
    /// Delay of every answer, and the number of delayed answers.
    late_by: std::sync::Mutex<Duration>,
    late: AtomicUsize,
    /// Connections of an earlier generation end.
    generation: watch::Sender<u64>,
}

/// The number that joins an answer to its request.
type Stream = [u8; 2];

impl Proxy {
    /// Forwards every connection to `target`, given as `host:port`.
    pub(crate) async fn to(target: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (cut, is_cut) = watch::channel(false);
        let gate = Arc::new(Gate {
            needle: std::sync::Mutex::default(),
            permits: Semaphore::new(0),
            held: watch::Sender::new(0),
            to_halve: AtomicUsize::new(0),
            halved: AtomicUsize::new(0),
            unprepared: AtomicUsize::new(0),
            wants_overload: AtomicBool::new(false),
            overloaded: AtomicUsize::new(0),
            late_by: std::sync::Mutex::default(),
            late: AtomicUsize::new(0),
            generation: watch::Sender::new(0),
        });
        tokio::spawn(accept(listener, target.to_owned(), is_cut, Arc::clone(&gate)));
        Self { address, cut, gate }
    }

    /// Ends all connections; new ones are closed at once.
    pub(crate) fn cut(&self) {
        self.cut.send_replace(true);
    }

    /// Accepts new connections again.
    pub(crate) fn mend(&self) {
        self.cut.send_replace(false);
    }

    /// Holds back every frame that contains `needle` from now on; an empty one is in every frame.
    pub(crate) fn hold(&self, needle: &[u8]) {
        *self.gate.needle.lock().expect("nobody panics") = Some(needle.to_vec());
    }

    /// Waits until a frame is held back.
    pub(crate) async fn holds_one(&self) {
        let mut held = self.gate.held.subscribe();
        let one = held.wait_for(|held| *held > 0);
        let one = tokio::time::timeout(DEADLINE, one).await.expect("a frame to hold");
        one.expect("the proxy lives");
    }

    /// Whether a frame was held back.
    pub(crate) fn holds_any(&self) -> bool {
        *self.gate.held.borrow() > 0
    }

    /// Lets one of the frames pass.
    pub(crate) fn release_one(&self) {
        self.gate.permits.add_permits(1);
    }

    /// Lets all frames pass.
    pub(crate) fn release(&self) {
        *self.gate.needle.lock().expect("nobody panics") = None;
        self.gate.permits.add_permits(*self.gate.held.borrow());
    }

    /// Forwards only the first half of the statements of the next batch, and never its answer.
    pub(crate) fn halve_a_batch(&self) {
        self.gate.to_halve.fetch_add(1, SeqCst);
    }

    /// Number of batches that were halved.
    pub(crate) fn halved(&self) -> usize {
        self.gate.halved.load(SeqCst)
    }

    /// Whether connections enable errors about overload. Existing connections end.
    pub(crate) fn want_overload(&self, wants: bool) {
        self.gate.wants_overload.store(wants, SeqCst);
        self.gate.generation.send_modify(|generation| *generation += 1);
    }

    /// Number of errors about overload.
    pub(crate) fn overloaded(&self) -> usize {
        self.gate.overloaded.load(SeqCst)
    }

    /// Delays every answer from now on. Answers do not wait for each other.
    pub(crate) fn be_late(&self, by: Duration) {
        *self.gate.late_by.lock().expect("nobody panics") = by;
    }

    /// Number of delayed answers.
    pub(crate) fn late(&self) -> usize {
        self.gate.late.load(SeqCst)
    }

    /// Number of answers that a statement is not known.
    pub(crate) fn unprepared(&self) -> usize {
        self.gate.unprepared.load(SeqCst)
    }
}

impl Gate {
    /// Whether the frame must wait; it is then counted as held back.
    fn holds(&self, frame: &[u8]) -> bool {
        let needle = self.needle.lock().expect("nobody panics");
        let holds = needle.as_ref().is_some_and(|needle| {
            needle.is_empty() || frame.windows(needle.len()).any(|part| part == needle)
        });
        if holds {
            self.held.send_modify(|held| *held += 1);
        }
        holds
    }

    /// Whether the frame is a batch to halve; it is then counted as halved.
    fn halves(&self, frame: &[u8]) -> bool {
        let halves = frame[OPCODE] == BATCH
            && self.to_halve.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok();
        self.halved.fetch_add(usize::from(halves), SeqCst);
        halves
    }

    /// Counts an answer of a recognised kind.
    fn count(&self, answer: &[u8]) {
        if answer[OPCODE] != ERROR {
            return;
        }
        for (code, count) in [(UNPREPARED, &self.unprepared), (OVERLOADED, &self.overloaded)] {
            count.fetch_add(usize::from(answer[HEADER..].starts_with(&code)), SeqCst);
        }
    }

    /// When an answer that arrives now is forwarded.
    fn due(&self) -> Instant {
        let by = *self.late_by.lock().expect("nobody panics");
        self.late.fetch_add(usize::from(!by.is_zero()), SeqCst);
        Instant::now() + by
    }

    async fn pass(&self) {
        self.permits.acquire().await.expect("never closed").forget();
        self.held.send_modify(|held| *held -= 1);
    }
}

async fn accept(
    listener: TcpListener,
    target: String,
    is_cut: watch::Receiver<bool>,
    gate: Arc<Gate>,
) {
    loop {
        let mut cut = is_cut.clone();
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((client, _)) = accepted else { continue };
                if *cut.borrow() {
                    continue;
                }
                let (target, gate) = (target.clone(), Arc::clone(&gate));
                let mut generation = gate.generation.subscribe();
                let own = *generation.borrow();
                tokio::spawn(async move {
                    let Ok(server) = TcpStream::connect(&target).await else { return };
                    tokio::select! {
                        () = forward(client, server, gate) => {}
                        _ = cut.wait_for(|cut| *cut) => {}
                        _ = generation.wait_for(|generation| *generation != own) => {}
                    }
                });
            }
            gone = async { cut.clone().wait_for(|_| false).await.is_err() } => {
                if gone {
                    return;
                }
            }
        }
    }
}

/// Forwards until one side ends. A frame held back then still goes to the server once it may.
async fn forward(client: TcpStream, server: TcpStream, gate: Arc<Gate>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, to_server) = server.into_split();
    let to_server = Arc::new(Mutex::new(to_server));
    let unanswered = std::sync::Mutex::new(HashSet::<Stream>::new());
    let requests = async {
        while let Ok(mut frame) = read_frame(&mut from_client).await {
            let to_server = Arc::clone(&to_server);
            if gate.halves(&frame) {
                unanswered.lock().expect("nobody panics").insert(stream(&frame));
                frame = first_half(&frame);
            }
            if frame[OPCODE] == STARTUP && gate.wants_overload.load(SeqCst) {
                frame = with_option(frame, THROW_ON_OVERLOAD);
            }
            if gate.holds(&frame) {
                let gate = Arc::clone(&gate);
                tokio::spawn(async move {
                    gate.pass().await;
                    let _ = to_server.lock().await.write_all(&frame).await;
                });
            } else if to_server.lock().await.write_all(&frame).await.is_err() {
                return;
            }
        }
    };
    let (on_the_way, mut arriving) = mpsc::unbounded_channel();
    let answers = async {
        while let Ok(frame) = read_frame(&mut from_server).await {
            gate.count(&frame);
            let is_lost = unanswered.lock().expect("nobody panics").remove(&stream(&frame));
            if !is_lost && on_the_way.send((gate.due(), frame)).is_err() {
                return;
            }
        }
    };
    let delivery = async {
        while let Some((due, frame)) = arriving.recv().await {
            tokio::time::sleep_until(due).await;
            if to_client.write_all(&frame).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = requests => {}
        () = answers => {}
        () = delivery => {}
    }
}

fn stream(frame: &[u8]) -> Stream {
    [frame[2], frame[3]]
}

/// A batch with the first half of its statements. Body: a kind; the number of statements (2 bytes);
/// for each whether it is prepared, its id with a length (2), the number of values (2), each with a
/// length (4); then the options of all.
fn first_half(frame: &[u8]) -> Vec<u8> {
    let two = |at: usize| usize::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
    let four = |at: usize| i32::from_be_bytes(frame[at..at + 4].try_into().expect("four bytes"));
    let first = HEADER + 3;
    let count = two(HEADER + 1);
    assert!(count >= 2, "a batch of {count} has no half");
    let (mut at, mut middle) = (first, first);
    for statement in 0..count {
        if statement == count / 2 {
            middle = at;
        }
        assert_eq!(frame[at], 1, "statements are prepared");
        at += 1;
        at += 2 + two(at);
        let values = two(at);
        at += 2;
        for _ in 0..values {
            // A negative length means no value.
            at += 4 + usize::try_from(four(at)).unwrap_or(0);
        }
    }
    let count = u16::try_from(count / 2).expect("less than it was").to_be_bytes();
    let mut half = [&frame[..=HEADER], &count, &frame[first..middle], &frame[at..]].concat();
    let length = u32::try_from(half.len() - HEADER).expect("less than it was");
    half[HEADER - 4..HEADER].copy_from_slice(&length.to_be_bytes());
    half
}

/// The STARTUP frame with one more option. Body: the number of options (2 bytes), and for each its
/// name and value with their lengths (2).
fn with_option(mut frame: Vec<u8>, (name, value): (&str, &str)) -> Vec<u8> {
    let count = u16::from_be_bytes([frame[HEADER], frame[HEADER + 1]]) + 1;
    frame[HEADER..HEADER + 2].copy_from_slice(&count.to_be_bytes());
    for text in [name, value] {
        frame.extend(u16::try_from(text.len()).expect("short").to_be_bytes());
        frame.extend(text.as_bytes());
    }
    let length = u32::try_from(frame.len() - HEADER).expect("short");
    frame[HEADER - 4..HEADER].copy_from_slice(&length.to_be_bytes());
    frame
}

/// The next frame, header and body.
pub(super) async fn read_frame(from: &mut (impl AsyncReadExt + Unpin)) -> std::io::Result<Vec<u8>> {
    let mut frame = vec![0; HEADER];
    from.read_exact(&mut frame).await?;
    let length = u32::from_be_bytes(frame[HEADER - 4..].try_into().expect("four bytes"));
    frame.resize(HEADER + length as usize, 0);
    from.read_exact(&mut frame[HEADER..]).await?;
    Ok(frame)
}
