//! Thousands of connections that send nothing, send a half or never end, and clients that vanish, send garbage or far
//! too much. A sender among them is served, and afterwards the process has the memory and descriptors of before. It
//! runs with the usual limit of 1024 descriptors.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::load::Load;
use crate::support::promkairos::{Backend, Message, Promkairos};
use crate::support::{eventually, seed};

/// Connections that are held at the same time.
const CROWD: usize = 3_000;
/// Connections that are opened together.
const WAVE: usize = 150;
/// How often each of the other kinds of clients connects.
const TIMES: usize = 20;
/// Tolerance: descriptors that may come and go by themselves.
const SPARE_DESCRIPTORS: usize = 8;
/// Tolerance: bodies of remote write that may be in memory at the same time.
const SPARE_BYTES: u64 = promkairos::limits::MAX_BODY_BYTES_IN_FLIGHT as u64;

/// The command that limits the server's descriptors.
const FEW: [&str; 4] = ["sh", "-c", "ulimit -n 1024 && exec \"$@\"", "sh"];

const HALF_HEAD: &[u8] = b"GET /api/v1/labels HTTP/1.1\r\nHost: a";
const HALF_BODY: &[u8] = b"POST /api/v1/write HTTP/1.1\r\nHost: a\r\nContent-Encoding: snappy\r\n\
    Content-Type: application/x-protobuf\r\nContent-Length: 1000\r\n\r\n\0";
const HUGE: &[u8] = b"POST /api/v1/write HTTP/1.1\r\nHost: a\r\nContent-Encoding: snappy\r\n\
    Content-Type: application/x-protobuf\r\nContent-Length: 99999999999\r\n\r\n\0";
const ENDLESS: &[u8] = b"POST /api/v1/write HTTP/1.1\r\nHost: a\r\nContent-Encoding: snappy\r\n\
    Content-Type: application/x-protobuf\r\nTransfer-Encoding: chunked\r\n\r\n";
const WHOLE: &[u8] = b"GET /-/healthy HTTP/1.1\r\nHost: a\r\n\r\n";

/// The size line of a chunk of a body, and its bytes.
const CHUNK: (&[u8], &[u8]) = (b"10000\r\n", &[1; 1 << 16]);

/// This process holds the other ends of all connections.
fn raise_own_descriptors() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    assert!(maximum.is_none_or(|most| most > 4_096), "too few descriptors: {maximum:?}");
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
        .expect("up to the hard limit");
}

fn descriptors(server: &Promkairos) -> usize {
    let path = format!("/proc/{}/fd", server.process.id());
    std::fs::read_dir(path).expect("it runs").count()
}

/// Resident bytes.
fn memory(server: &Promkairos) -> u64 {
    let path = format!("/proc/{}/status", server.process.id());
    let status = std::fs::read_to_string(path).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib << 10
}

/// A connection on which these bytes have been sent.
async fn connect(server: &Promkairos, begun: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.expect("it listens");
    // The server may have closed it already.
    let _ = stream.write_all(begun).await;
    stream
}

/// The beginning of the answer, up to the end of its first line.
async fn first_line(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    while !answer.ends_with(b"\n") {
        match stream.read_u8().await {
            Ok(byte) => answer.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

async fn served(server: &Promkairos, load: &Load, random: &mut StdRng) {
    // An attempt may use a connection that is just being closed.
    eventually("a sender is served", async || match load.send(server, random).await {
        Ok(204) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
}

/// Sends a body of chunks without end until the answer arrives; returns its first line.
async fn endless(server: &Promkairos) -> String {
    let mut stream = connect(server, ENDLESS).await;
    let (mut answers, mut questions) = stream.split();
    let chunk = [CHUNK.0, CHUNK.1, b"\r\n"].concat();
    let sending = async {
        while questions.write_all(&chunk).await.is_ok() {}
        std::future::pending::<()>().await;
    };
    let mut answer = Vec::new();
    let reading = async {
        while !answer.contains(&b'\n') {
            // A reset also ends the answer.
            if answers.read_buf(&mut answer).await.unwrap_or(0) == 0 {
                break;
            }
        }
    };
    tokio::select! {
        () = reading => {}
        () = sending => unreachable!("it is pending"),
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_connections_and_bad_clients_keep_no_sender_out() {
    raise_own_descriptors();
    let (data, load) = (tempfile::tempdir().expect("a folder"), Load::default());
    let mut server = Promkairos::start_under(&FEW, data.path(), &Backend::Embedded, &[]);
    server.wait_ready().await;
    let mut random = StdRng::seed_from_u64(seed());
    for _ in 0..TIMES {
        served(&server, &load, &mut random).await;
    }
    let (descriptors_before, memory_before) = (descriptors(&server), memory(&server));

    for _ in 0..TIMES {
        drop(connect(&server, HALF_BODY).await);
        let huge = first_line(&mut connect(&server, HUGE).await).await;
        assert!(huge.starts_with("HTTP/1.1 413"), "{huge:?}");
        let mut garbage = WHOLE.to_vec();
        garbage.resize(WHOLE.len() + 1_000, 0);
        random.fill_bytes(&mut garbage[WHOLE.len()..]);
        let mut pipelined = connect(&server, &garbage).await;
        let answer = first_line(&mut pipelined).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer:?}");
        let junk = server.write(Message::V1, vec![0xff; 100]).await.expect("an answer");
        assert_eq!(junk.status, 400, "{junk:?}");
        served(&server, &load, &mut random).await;
    }
    for _ in 0..2 {
        let answer = endless(&server).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 413"), "{answer:?}");
    }

    let mut crowd = Vec::new();
    while crowd.len() < CROWD {
        let wave = (0..WAVE).map(|number| {
            let begun = [b"".as_slice(), HALF_HEAD, HALF_BODY][number % 3];
            connect(&server, begun)
        });
        crowd.extend(futures::future::join_all(wave).await);
        served(&server, &load, &mut random).await;
    }
    let most = promkairos::limits::MAX_CONNECTIONS + descriptors_before + SPARE_DESCRIPTORS;
    assert!(descriptors(&server) <= most, "{} of {most} descriptors", descriptors(&server));

    drop(crowd);
    eventually("descriptors and memory are as before", async || {
        served(&server, &load, &mut random).await;
        let (descriptors, memory) = (descriptors(&server), memory(&server));
        let is_back = descriptors <= descriptors_before + SPARE_DESCRIPTORS
            && memory <= memory_before + SPARE_BYTES;
        if is_back { Ok(()) } else { Err(format!("{descriptors} descriptors, {memory} bytes")) }
    })
    .await;
    load.check(&server).await;
    assert!(server.process.terminate().success(), "{}", server.process.log());
    assert!(!server.process.log().contains("panicked"), "{}", server.process.log());
}
