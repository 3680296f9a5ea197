//! A TCP proxy on a free port that can be cut and mended: a peer that goes away and comes back.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The proxy. Dropping it cuts it for good.
pub(crate) struct Proxy {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    cut: watch::Sender<bool>,
}

impl Proxy {
    /// Forwards every connection to `target`, given as `host:port`.
    pub(crate) async fn to(target: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (cut, is_cut) = watch::channel(false);
        tokio::spawn(accept(listener, target.to_owned(), is_cut));
        Self { address, cut }
    }

    /// Ends all connections; new ones are closed at once.
    pub(crate) fn cut(&self) {
        self.cut.send_replace(true);
    }

    /// Lets new connections through again.
    pub(crate) fn mend(&self) {
        self.cut.send_replace(false);
    }
}

async fn accept(listener: TcpListener, target: String, is_cut: watch::Receiver<bool>) {
    loop {
        let mut cut = is_cut.clone();
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((mut client, _)) = accepted else { continue };
                if *cut.borrow() {
                    continue;
                }
                let target = target.clone();
                tokio::spawn(async move {
                    let Ok(mut server) = TcpStream::connect(&target).await else { return };
                    tokio::select! {
                        _ = copy_bidirectional(&mut client, &mut server) => {}
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
