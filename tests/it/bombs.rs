//! Small bodies that decompress to large ones, at every path that takes a body. Each is refused, or read as plain
//! text, and the server stays within its memory.

use std::io::Write;

use crate::memory::peak;
use crate::support::promkairos::{Backend, Message, Promkairos};

/// Bytes of a decompressed body, all zero.
const DECOMPRESSED: usize = 256 << 20;
const MEMORY_LIMIT: &str = "--memory-limit=256MiB";
/// The limit plus a quarter.
const MOST_MEMORY: u64 = 320 << 20;

const FORMS: [&str; 8] = [
    "/api/v1/query",
    "/api/v1/query_range",
    "/api/v1/query_exemplars",
    "/api/v1/format_query",
    "/api/v1/parse_query",
    "/api/v1/labels",
    "/api/v1/series",
    "/api/v1/admin/tsdb/delete_series",
];

/// The name of each encoding, and the compressed zeros.
fn bombs() -> Vec<(&'static str, Vec<u8>)> {
    let zeros = vec![0; 1 << 20];
    let repeated = |to: &mut dyn Write| {
        for _ in 0..DECOMPRESSED / zeros.len() {
            to.write_all(&zeros).expect("in memory");
        }
    };
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    repeated(&mut gzip);
    let mut deflate = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    repeated(&mut deflate);
    let mut zstd = zstd::Encoder::new(Vec::new(), 3).expect("an encoder");
    repeated(&mut zstd);
    let snappy =
        snap::raw::Encoder::new().compress_vec(&vec![0; DECOMPRESSED]).expect("below 4 GiB");
    let mut frames = snap::write::FrameEncoder::new(Vec::new());
    repeated(&mut frames);
    let framed = frames.into_inner().expect("in memory");
    // Declares 4 GiB, and ends there.
    let declared = b"\xff\xff\xff\xff\x0f\0\0\0".to_vec();
    vec![
        ("gzip", gzip.finish().expect("in memory")),
        ("deflate", deflate.finish().expect("in memory")),
        ("zstd", zstd.finish().expect("in memory")),
        ("snappy", snappy),
        ("snappy", framed),
        ("snappy", declared),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn no_path_decompresses_more_than_a_body_may_have() {
    let data = tempfile::tempdir().expect("a folder");
    let flags = ["--enable-admin-api", MEMORY_LIMIT];
    let server = Promkairos::ready(data.path(), &Backend::Embedded, &flags).await;
    let client = reqwest::Client::new();
    let (client, server) = (&client, &server);
    let send = |path: &'static str, kind: String, encoding: &'static str, body: Vec<u8>| async move {
        let request = client.post(server.url(path)).header("Content-Type", kind);
        let answer = request.header("Content-Encoding", encoding).body(body).send().await;
        let answer = answer.expect("an answer");
        (answer.status().as_u16(), answer.text().await.expect("a text"))
    };
    for (encoding, bomb) in bombs() {
        let writes = [Message::V1, Message::V2].map(|message| {
            ("/api/v1/write", format!("application/x-protobuf;proto={}", message.name()))
        });
        let others = [
            ("/api/v1/read", "application/x-protobuf".to_owned()),
            ("/api/v1/datapoints", "application/json".to_owned()),
            ("/api/v1/datapoints", "application/gzip".to_owned()),
        ];
        for (path, kind) in writes.into_iter().chain(others) {
            let at_once = (0..4).map(|_| send(path, kind.clone(), encoding, bomb.clone()));
            for (status, text) in futures::future::join_all(at_once).await {
                let is_refused = match status {
                    503 => text.contains("the setting memory-limit"),
                    _ => (400..500).contains(&status) && !text.trim().is_empty(),
                };
                assert!(is_refused, "{path} {kind} {encoding}: {status} {text}");
            }
        }
        for path in FORMS {
            let kind = "application/x-www-form-urlencoded".to_owned();
            let (status, text) = send(path, kind, encoding, bomb.clone()).await;
            assert!(status < 500, "{path} {encoding}: {status} {text}");
        }
    }
    let most = peak(server);
    assert!(most <= MOST_MEMORY, "{most} bytes");
    assert_eq!(server.get("/api/v1/query?query=1").await.expect("an answer").0, 200);
}
