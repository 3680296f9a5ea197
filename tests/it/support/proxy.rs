//! A TCP proxy on a free port that can be cut and mended: a peer that goes away and comes back. It
//! can also hold back frames of CQL: a peer that hangs, or answers one statement late.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore, watch};

use super::DEADLINE;

/// Bytes before the body of a frame of the native protocol, version 4; the last four are its length.
const HEADER: usize = 9;

/// The proxy. Dropping it cuts it for good.
pub(crate) struct Proxy {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    cut: watch::Sender<bool>,
    gate: Arc<Gate>,
}

/// What is held back on the way to the server.
struct Gate {
    /// Frames with these bytes in them.
    needle: std::sync::Mutex<Option<Vec<u8>>>,
    /// One for each frame that may go on.
    permits: Semaphore,
    /// How many are held.
    held: watch::Sender<usize>,
}

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
        });
        tokio::spawn(accept(listener, target.to_owned(), is_cut, Arc::clone(&gate)));
        Self { address, cut, gate }
    }

    /// Ends all connections; new ones are closed at once.
    pub(crate) fn cut(&self) {
        self.cut.send_replace(true);
    }

    /// Lets new connections through again.
    pub(crate) fn mend(&self) {
        self.cut.send_replace(false);
    }

    /// Holds back every frame with `needle` in it from now on; with an empty one, all of them.
    pub(crate) fn hold(&self, needle: &[u8]) {
        *self.gate.needle.lock().expect("nobody panics") = Some(needle.to_vec());
    }

    /// Waits until a frame is held.
    pub(crate) async fn holds_one(&self) {
        let mut held = self.gate.held.subscribe();
        let one = held.wait_for(|held| *held > 0);
        let one = tokio::time::timeout(DEADLINE, one).await.expect("a frame to hold");
        one.expect("the proxy lives");
    }

    /// Whether a frame was held.
    pub(crate) fn holds_any(&self) -> bool {
        *self.gate.held.borrow() > 0
    }

    /// Lets one of the frames go on.
    pub(crate) fn release_one(&self) {
        self.gate.permits.add_permits(1);
    }

    /// Lets everything go on.
    pub(crate) fn release(&self) {
        *self.gate.needle.lock().expect("nobody panics") = None;
        self.gate.permits.add_permits(*self.gate.held.borrow());
    }
}

impl Gate {
    /// Whether the frame must wait; it counts as held then.
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
                tokio::spawn(async move {
                    let Ok(server) = TcpStream::connect(&target).await else { return };
                    tokio::select! {
                        () = forward(client, server, gate) => {}
                        _ = cut.wait_for(|cut| *cut) => {}
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

/// Forwards until one side ends. A frame that is held then still goes to the server when it may.
async fn forward(client: TcpStream, server: TcpStream, gate: Arc<Gate>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, to_server) = server.into_split();
    let to_server = Arc::new(Mutex::new(to_server));
    let requests = async {
        while let Ok(frame) = read_frame(&mut from_client).await {
            let to_server = Arc::clone(&to_server);
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
    tokio::select! {
        () = requests => {}
        _ = tokio::io::copy(&mut from_server, &mut to_client) => {}
    }
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
