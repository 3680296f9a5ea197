//! A network between promkairos and Cassandra that changes bits, cuts frames, delays and resets: afterwards
//! a process without that network finds the acknowledged samples with the same bits.
//!
//! CQL version 4, which is used here, has no checksums. Without TLS only damage that is certain to be
//! detected is done: cuts, resets and wrong frame versions. With TLS any bit of any byte may change.

use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::secure;
use crate::support::load::Load;
use crate::support::noise::{Changes, Noise};
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::{self, eventually, long, seed};

const SENDERS: u64 = 4;

/// Sends without end, whatever the server answers.
async fn send(server: &Promkairos, load: &Load, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    loop {
        let answer = load.attempt(server, &mut random).await.expect("it answers");
        if answer.status != 204 {
            assert!((500..600).contains(&answer.status), "{answer:?}");
            assert!(!answer.body.trim().is_empty(), "{answer:?}");
        }
        // Without the pause, writes to the log would run far ahead of Cassandra.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Writes and reads until the noise has done enough damage.
async fn under_noise(noise: &Noise, server: &Promkairos, load: &Load, seed: u64) {
    noise.begin();
    let senders = (0..SENDERS).map(|number| send(server, load, seed ^ number));
    let enough = async {
        for faults in 0..if long() { 1_000 } else { 20 } {
            eventually("the next fault", async || match noise.faults() {
                now if now > faults => Ok(()),
                now => Err(format!("{now}")),
            })
            .await;
        }
        let before = load.acknowledged();
        eventually("writes pass at times", async || match load.acknowledged() {
            now if now > before => Ok(()),
            now => Err(format!("{now}")),
        })
        .await;
    };
    tokio::select! {
        _ = futures::future::join_all(senders) => unreachable!("they send without end"),
        () = enough => {}
    }
    // No writer runs now: a read returns all samples, or an error.
    let mut read = 0;
    for _ in 0..20 {
        match load.difference(server).await {
            Ok(None) => read += 1,
            Ok(Some(wrong)) => panic!("{wrong}"),
            Err(_) => {}
        }
    }
    println!("{read} of 20 reads under noise passed");
    if read == 0 {
        eventually("reads pass at times", async || match load.difference(server).await? {
            None => Ok(()),
            Some(wrong) => panic!("{wrong}"),
        })
        .await;
    }
    assert_eq!(server.get("/-/healthy").await.expect("it answers").0, 200);
    noise.end();
}

/// The whole test with noise in front of `target`, and then a read without noise.
async fn nothing_is_lost(target: String, changes: Changes, is_behind_log: bool, flags: &[String]) {
    let noise = Noise::before(&target, changes, seed()).await;
    let (address, keyspace) = (noise.address.to_string(), support::keyspace());
    let direct = Backend::CassandraStore { address: target, keyspace: keyspace.clone() };
    let through = match is_behind_log {
        false => Backend::CassandraStore { address, keyspace },
        true => Backend::CassandraWal { address, keyspace },
    };
    let (folder, load) = (tempfile::tempdir().expect("a folder"), Load::default());
    let common = ["--flush-interval=200ms", "--cassandra-request-timeout=5s"];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let mut server =
        Promkairos::ready(&folder.path().join("a"), &through, &[&common[..], &flags[..]].concat())
            .await;
    let mut random = StdRng::seed_from_u64(seed());
    let accepted = async |random: &mut StdRng| match load.attempt(&server, random).await {
        Ok(answer) if answer.status == 204 => Ok(()),
        other => Err(format!("{other:?}")),
    };
    eventually("a write is accepted", async || accepted(&mut random).await).await;
    under_noise(&noise, &server, &load, seed()).await;
    eventually("writes are accepted again", async || accepted(&mut random).await).await;
    eventually("all of it can be read", async || match load.difference(&server).await? {
        None => Ok(()),
        Some(wrong) => Err(wrong),
    })
    .await;
    let status = server.process.terminate();
    let log = server.process.log();
    assert!(status.success() && !log.contains("panicked"), "{status}\n{log}");

    let other = Promkairos::ready(&folder.path().join("b"), &direct, &flags).await;
    load.check(&other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_frames_lose_nothing_that_cassandra_acknowledged() {
    let flags = ["--cassandra-compression=lz4".to_owned()];
    nothing_is_lost(support::cassandra(), Changes::FrameVersions, false, &flags).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_frames_lose_nothing_behind_the_log() {
    let flags = ["--cassandra-compression=snappy".to_owned()];
    nothing_is_lost(support::cassandra(), Changes::FrameVersions, true, &flags).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_tls_any_changed_bit_is_seen() {
    let folder = tempfile::tempdir().expect("a folder");
    let flags = secure::flags(folder.path(), "cassandra");
    for is_behind_log in [false, true] {
        nothing_is_lost(secure::address(), Changes::Anything, is_behind_log, &flags).await;
    }
}
