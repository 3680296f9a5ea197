//! The JSON log of the real program: every line is an object; at level `debug` each request has exactly one line.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::support::promkairos::{Backend, Promkairos};

const TOKEN: &str = "Bearer t0k3n";

/// The number of lines for each request: method, path and status.
type Lines = BTreeMap<(String, String, u64), usize>;

/// The lines of requests in a log; panics if a line is no object.
fn requests(log: &str) -> Lines {
    let mut lines = Lines::new();
    for line in log.lines() {
        let line: Json = serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}"));
        for key in ["timestamp", "level", "target"] {
            assert!(line[key].is_string(), "no {key}: {line}");
        }
        let fields = line["fields"].as_object().expect("fields");
        assert!(fields["message"].is_string(), "{line}");
        if fields["message"] != "request" {
            continue;
        }
        assert_eq!(line["level"], "DEBUG", "{line}");
        assert!(fields["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{line}");
        let text = |key: &str| fields[key].as_str().expect("a text").to_owned();
        let code = fields["code"].as_u64().expect("a number");
        *lines.entry((text("method"), text("path"), code)).or_default() += 1;
    }
    lines
}

#[tokio::test(flavor = "multi_thread")]
async fn every_line_is_an_object_and_each_request_has_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let web = folder.path().join("web.yml");
    std::fs::write(folder.path().join("token"), "t0k3n\n").expect("written");
    let token =
        "bearer_tokens:\n- name: all\n  token_file: token\n  rights: [read, write, admin]\n";
    std::fs::write(&web, token).expect("written");
    let web = format!("--web-config-file={}", web.display());
    let flags = ["--log-format=json", "--log-level=debug", &web];
    let data = folder.path().join("data");
    let mut server = Promkairos::ready(&data, &Backend::Embedded, &flags).await;
    let client = reqwest::Client::new();
    let mut want = Lines::new();
    for (method, path, said, status) in [
        ("GET", "/api/v1/query?query=1", TOKEN, 200),
        ("GET", "/api/v1/query?query=1", TOKEN, 200),
        ("POST", "/api/v1/query?query=sum(", TOKEN, 400),
        ("POST", "/api/v1/read", TOKEN, 400),
        // Bytes from a client must not begin a line in the log.
        ("GET", "/api/v1/query?query=%0A%7B%22a%22%0D%0A", TOKEN, 400),
        ("GET", "/nowhere%0A", TOKEN, 404),
        ("PUT", "/api/v1/write", TOKEN, 405),
        ("POST", "/api/v1/write", TOKEN, 415),
        ("GET", "/api/v1/labels", "", 401),
        ("POST", "/api/v1/write", "Bearer other", 401),
        ("GET", "/metrics", TOKEN, 200),
    ] {
        let request = client.request(method.parse().expect("a method"), server.url(path));
        let request = request.header("Authorization", said).header("Content-Type", "text/plain");
        let answer = request.send().await.expect("an answer");
        assert_eq!(answer.status(), status, "{method} {path}");
        let path = path.split('?').next().unwrap_or_default().to_owned();
        *want.entry((method.to_owned(), path, status.into())).or_default() += 1;
    }
    assert!(server.process.terminate().success());
    let mut found = requests(&server.process.log());
    // How often the test asked for readiness is not known.
    found.retain(|(_, path, _), _| path != "/-/ready");
    assert_eq!(found, want);
}
