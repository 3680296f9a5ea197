//! Real Prometheus servers through TLS and credentials: one scrapes promkairos and writes to it
//! with a password, another reads back with a token.

use super::{Secured, everything};
use crate::support::eventually;
use crate::support::prometheus::Prometheus;

#[tokio::test(flavor = "multi_thread")]
async fn a_prometheus_writes_and_reads_through_tls() {
    let yaml = everything() + "- {name: reader, token_file: reader.token, rights: [read]}\n";
    let folder = tempfile::tempdir().expect("a folder");
    let token = folder.path().join("reader.token");
    std::fs::write(&token, "t0k3n-of-reader").expect("written");
    let password = folder.path().join("password");
    std::fs::write(&password, "pass-47").expect("written");
    let yaml = yaml.replace("reader.token", &token.display().to_string());
    let secured = Secured::start(&yaml, &[]);
    secured.ready().await;

    let (address, ca) = (secured.address(), secured.path().join("ca.crt"));
    let tls = format!("tls_config: {{ca_file: \"{}\"}}", ca.display());
    let bearer = format!("authorization: {{credentials_file: \"{}\"}}", token.display());
    let (writer, reader) = tokio::join!(Prometheus::start(), Prometheus::start());
    writer
        .configure(&format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s}}\n\
             scrape_configs:\n\
             - {{job_name: promkairos, scheme: https, {tls}, {bearer},\n   \
             static_configs: [{{targets: [\"{address}\"]}}]}}\n\
             remote_write:\n\
             - {{url: \"https://{address}/api/v1/write\", {tls},\n   \
             basic_auth: {{username: alice, password_file: \"{}\"}},\n   \
             queue_config: {{batch_send_deadline: 1s}}}}\n",
            password.display()
        ))
        .await;
    let remote_read = format!(
        "remote_read:\n\
         - {{url: \"https://{address}/api/v1/read\", {tls}, {bearer}, read_recent: true}}\n"
    );
    reader.configure(&remote_read).await;
    eventually("what one wrote the other reads", async || {
        match reader.number("up{job=\"promkairos\"}").await {
            Some(1.0) => Ok(()),
            other => Err(format!("{other:?}\n{}", secured.server.process.log())),
        }
    })
    .await;
}
