//! A real server whose connections are all held by clients that send their bodies slowly.

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use promkairos::limits::MAX_CONNECTIONS;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::io::AsyncReadExt;

use crate::connections::begin;
use crate::support::load::Load;
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::{eventually, seed};

#[tokio::test(flavor = "multi_thread")]
async fn slow_bodies_on_all_connections_keep_no_sender_out() {
    let (data, load) = (tempfile::tempdir().expect("a folder"), Load::default());
    let server = Promkairos::ready(data.path(), &Backend::Embedded, &[]).await;
    let mut held = Vec::new();
    // The idle connection that asked for readiness is closed first.
    for _ in 0..MAX_CONNECTIONS + 1 {
        held.push(begin(server.address).await);
    }
    let mut random = StdRng::seed_from_u64(seed());
    // The first attempt may use the idle connection, which is just being closed.
    eventually("a sender finds a place", async || match load.send(&server, &mut random).await {
        Ok(204) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    // One of the slow connections was closed for it: without an answer, as after a timeout.
    let answers = held.into_iter().map(async |mut slow| {
        let mut answer = Vec::new();
        // A reset also ends a connection.
        let _ = slow.read_to_end(&mut answer).await;
        answer
    });
    let mut answers: FuturesUnordered<_> = answers.collect();
    while let Some(answer) = answers.next().await {
        if answer.is_empty() {
            return;
        }
    }
    panic!("all were waited for");
}
