//! Login and TLS, on a separate Cassandra that requires user, password and a client certificate.

use std::path::{Path, PathBuf};

use promkairos::config::TlsConfig;
use promkairos::model::{Matcher, MetricType, TimeRange};
use promkairos::storage::cassandra::{CassandraStore, Credentials, Options, Role, Tls, WindowPath};
use promkairos::storage::{Store, StoreError};
use promkairos::telemetry::CassandraMetrics;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rustix::process::Signal;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use scylla::client::session::Session;
use tempfile::TempDir;

use super::deletes::{flush_of, now};
use super::keyspace::{Request, bits, labels, named, read};
use crate::batch::Batch;
use crate::support::load::Load;
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::{self, eventually, secure_cassandra};

fn pem(name: &str) -> PathBuf {
    secure_cassandra().join("tls").join(name)
}

/// The address of the secure Cassandra.
pub(super) fn address() -> String {
    let address = std::fs::read_to_string(secure_cassandra().join("address"));
    address.expect("the secure Cassandra runs").trim().into()
}

/// A TLS configuration with this CA file.
fn tls(ca: &str, client: Option<(&Path, &Path)>) -> Tls {
    TlsConfig::read(&pem(ca), client).expect("valid").connections
}

/// Options that Cassandra accepts.
pub(super) fn options() -> Options {
    Options {
        credentials: Credentials::new("cassandra", "cassandra"),
        tls: Some(tls("ca.pem", Some((&pem("client.pem"), &pem("client.key"))))),
        ..support::cassandra::options(address(), &support::keyspace())
    }
}

async fn open(options: Options) -> CassandraStore {
    support::cassandra::open(options, &CassandraMetrics::default()).await
}

/// Opens the store, which must fail; returns the error, which is one line that names the node.
async fn error(options: Options) -> StoreError {
    let address = options.contact_points.join(", ");
    let opened = CassandraStore::open(options, CassandraMetrics::default()).await;
    let error = opened.map(drop).expect_err("it must not open");
    let text = error.to_string();
    assert!(text.contains(&address) && !text.contains('\n') && text.len() < 400, "{text}");
    error
}

fn invalid(error: StoreError) -> String {
    match error {
        StoreError::Invalid(text) => text,
        other => panic!("a setting is wrong, not {other:?}"),
    }
}

fn denied(error: StoreError) -> String {
    match error {
        StoreError::Denied(text) => text,
        other => panic!("the login is wrong, not {other:?}"),
    }
}

#[tokio::test]
async fn login_and_tls_let_points_through() {
    let store = open(options()).await;
    let up = labels(&[("__name__", "up")]);
    Request::default().floats(&up, &[(10, 1.0)]).write(&store).await;
    let all = read(&store, &named("up"), TimeRange::ALL).await;
    assert_eq!(bits(&all[&up]), [(10, 1.0f64.to_bits())]);
}

#[tokio::test]
async fn a_wrong_login_is_named() {
    let mut wrong = options();
    wrong.credentials = Credentials::new("bob", "guess-47");
    let text = denied(error(wrong).await);
    assert!(text.contains("\"bob\"") && !text.contains("guess-47"), "{text}");
    let mut none = options();
    none.credentials = Credentials::default();
    let text = denied(error(none).await);
    assert!(text.contains("user and a password"), "{text}");
}

#[tokio::test]
async fn an_unknown_authority_is_named() {
    let mut unknown = options();
    unknown.tls = Some(tls("other-ca.pem", None));
    let text = invalid(error(unknown).await);
    assert!(text.contains("other-ca.pem") && text.contains("certificate"), "{text}");
}

#[tokio::test]
async fn without_our_certificate_nobody_gets_in() {
    let mut without = options();
    without.tls = Some(tls("ca.pem", None));
    let text = error(without).await.to_string();
    assert!(text.contains("CertificateRequired"), "{text}");
    let mut plain = options();
    plain.tls = None;
    error(plain).await;
}

/// A session of the default superuser of a new node.
pub(super) struct Superuser(Session);

impl Superuser {
    /// Logs in.
    async fn new() -> Self {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(pem("ca.pem")).expect("ca.pem")).expect("a root");
        let chain = vec![CertificateDer::from_pem_file(pem("client.pem")).expect("client.pem")];
        let key = PrivateKeyDer::from_pem_file(pem("client.key")).expect("client.key");
        let config = rustls::ClientConfig::builder_with_provider(
            rustls::crypto::ring::default_provider().into(),
        );
        let config = config.with_safe_default_protocol_versions().expect("versions");
        let config = config.with_root_certificates(roots).with_client_auth_cert(chain, key);
        let session = support::cassandra::session_builder(&address())
            .user("cassandra", "cassandra")
            .tls_context(Some(std::sync::Arc::new(config.expect("a client"))));
        Self(session.build().await.expect("the superuser gets in"))
    }

    /// Logs in once the keyspace of these options has its tables.
    pub(super) async fn of(options: &Options) -> Self {
        open(options.clone()).await.close().await.expect("closed");
        Self::new().await
    }

    /// Runs a statement.
    async fn cql(&self, cql: String) {
        let done = self.0.query_unpaged(cql.as_str(), ()).await;
        done.unwrap_or_else(|error| panic!("{cql}: {error}"));
    }

    /// Creates a role that may log in, with these rights on all tables of the keyspace.
    pub(super) async fn role(&self, role: &str, password: &str, rights: &[&str], keyspace: &str) {
        self.cql(format!("CREATE ROLE {role} WITH PASSWORD = '{password}' AND LOGIN = true")).await;
        for right in rights {
            self.cql(format!("GRANT {right} ON KEYSPACE {keyspace} TO {role}")).await;
        }
    }
}

#[tokio::test]
async fn a_permission_that_is_taken_away_costs_no_point() {
    let folder = tempfile::tempdir().expect("a folder");
    let quarantine = folder.path().join("quarantine.jsonl");
    let mut limited = options();
    let root = Superuser::of(&limited).await;
    let keyspace = limited.keyspace.as_str().to_owned();
    let role = format!("w{keyspace}");
    root.role(&role, "w", &["SELECT", "MODIFY"], &keyspace).await;
    limited.credentials = Credentials::new(&role, "w");
    limited.quarantine = Some(quarantine.clone());
    let store = open(limited).await;
    let up = labels(&[("__name__", "up")]);
    // No late samples, which would first need a row in `service_index`.
    let time = now();
    let flush = || flush_of(std::slice::from_ref(&up), &[(time, 1.0), (time + 1, f64::INFINITY)]);
    store.ingest_flush(flush()).await.expect("absorbed");

    root.cql(format!("REVOKE MODIFY ON KEYSPACE {keyspace} FROM {role}")).await;
    // A node caches permissions for a short time.
    let error = eventually("the flush fails", async || match store.ingest_flush(flush()).await {
        Ok(absorbed) => Err(format!("{absorbed:?}")),
        Err(error) => Ok(error),
    });
    let error = error.await;
    let text = error.to_string();
    assert!(matches!(error, StoreError::Denied(_)), "{error:?}");
    assert!(text.contains(&format!("{keyspace}.data_points: ")) && text.contains(&role), "{text}");
    assert!(!quarantine.exists());
    root.cql(format!("GRANT MODIFY ON KEYSPACE {keyspace} TO {role}")).await;
    eventually("the flush goes through", async || {
        store.ingest_flush(flush()).await.map_err(|error| error.to_string())
    })
    .await;
    assert!(!quarantine.exists());
}

/// Missing rights are reported at the start, and not by every write.
#[tokio::test]
async fn a_login_that_may_not_write_or_read_a_table_is_refused() {
    let mut limited = options();
    let root = Superuser::of(&limited).await;
    let keyspace = limited.keyspace.as_str().to_owned();
    let tables = [
        "data_points",
        "row_keys",
        "row_key_time_index",
        "string_index",
        "service_index",
        "tag_indexed_row_keys",
    ];
    let indexed = [("m".to_owned(), ["host".to_owned()].into())];
    limited.tag_index.metrics = indexed.into();
    for (right, other) in [("SELECT", "MODIFY"), ("MODIFY", "SELECT")] {
        for (at, missing) in tables.iter().enumerate() {
            let role = format!("p{keyspace}{right}{at}").to_lowercase();
            root.role(&role, "p", &[other], &keyspace).await;
            for table in ["spec", "row_key_index"] {
                root.cql(format!("GRANT SELECT ON TABLE {keyspace}.{table} TO {role}")).await;
            }
            for table in tables.iter().filter(|table| *table != missing) {
                root.cql(format!("GRANT {right} ON TABLE {keyspace}.{table} TO {role}")).await;
            }
            limited.credentials = Credentials::new(&role, "p");
            let opened = CassandraStore::open(limited.clone(), CassandraMetrics::default()).await;
            let text = denied(opened.map(drop).expect_err("it must not open"));
            let why = format!("no {right} permission on <table {keyspace}.{missing}>");
            assert!(text.contains(&why), "{text}");
        }
    }
    // The last role may not write to the tag index, which is not needed if no tag is indexed.
    limited.tag_index.metrics.clear();
    open(limited).await.close().await.expect("closed");
}

/// A metadata cluster needs the right to write to one table.
#[tokio::test]
async fn a_login_for_metadata_needs_one_table() {
    let mut limited = options();
    let root = Superuser::of(&limited).await;
    let keyspace = limited.keyspace.as_str().to_owned();
    let role = format!("m{keyspace}");
    root.role(&role, "m", &["SELECT"], &keyspace).await;
    root.cql(format!("GRANT MODIFY ON TABLE {keyspace}.service_index TO {role}")).await;
    limited.credentials = Credentials::new(&role, "m");
    limited.role = Role::Metadata;
    let store = open(limited).await;
    let batch = Batch::new().metadata("up", MetricType::Gauge, "help", "");
    assert_eq!(store.write(batch.build()).await.expect("written").metadata, 1);
    assert_eq!(store.metadata(Some("up"), usize::MAX).await.expect("metadata").len(), 1);
    let cql = format!("SELECT service_key FROM {keyspace}.service_index");
    let rows = root.0.query_unpaged(cql, ()).await.expect("rows");
    let rows = rows.into_rows_result().expect("rows");
    let keys: Vec<String> =
        rows.rows::<(String,)>().expect("texts").map(|row| row.expect("a text").0).collect();
    assert_eq!(keys, ["metadata"], "it is no adapter that others wait for");
    store.close().await.expect("closed");
}

/// Reading a read cluster needs no other right, through its tag index too.
#[tokio::test]
async fn a_login_that_may_only_read_is_enough_to_read() {
    let mut limited = options();
    let host = ["host".to_owned()].into();
    limited.tag_index.metrics = [("m".to_owned(), host)].into();
    limited.series_cache_bytes = 0;
    let writer = open(limited.clone()).await;
    let m = labels(&[("__name__", "m"), ("host", "a")]);
    Request::default().floats(&m, &[(10, 1.0)]).write(&writer).await;
    writer.close().await.expect("closed");

    let (root, keyspace) = (Superuser::new().await, limited.keyspace.as_str());
    let role = format!("r{keyspace}");
    root.role(&role, "r", &["SELECT"], keyspace).await;
    limited.credentials = Credentials::new(&role, "r");
    limited.role = Role::Read;
    let store = open(limited).await;
    let matchers = [named("m"), vec![Matcher::equal("host", "a")]].concat();
    let all = read(&store, &matchers, TimeRange::ALL).await;
    assert_eq!(bits(&all[&m]), [(10, 1.0f64.to_bits())]);
    let explanation = store.explain(&matchers, TimeRange::ALL).await.expect("explained");
    let through = |path: &WindowPath| matches!(path, WindowPath::TagIndex { .. });
    let paths: Vec<_> = explanation.windows.iter().flat_map(|window| &window.paths).collect();
    assert!(!paths.is_empty() && paths.iter().all(|path| through(path)), "{paths:?}");
    store.close().await.expect("closed");
}

/// The flags for login and TLS, with this password.
pub(super) fn flags(folder: &Path, password: &str) -> Vec<String> {
    let file = folder.join("password");
    std::fs::write(&file, password).expect("written");
    let flag = |name: &str, path: &Path| format!("--cassandra-{name}={}", path.display());
    vec![
        "--cassandra-username=cassandra".to_owned(),
        flag("password-file", &file),
        "--cassandra-tls=true".to_owned(),
        flag("tls-ca", &pem("ca.pem")),
        flag("tls-cert", &pem("client.pem")),
        flag("tls-key", &pem("client.key")),
    ]
}

/// A refused login is reported on readiness, in the log and by metrics, and the process keeps running.
async fn shows_that_the_login_is_refused(backend: Backend) -> (TempDir, Promkairos) {
    let folder = tempfile::tempdir().expect("a folder");
    let flags = flags(folder.path(), "guess-47");
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let server = Promkairos::start(&folder.path().join("data"), &backend, &flags);
    eventually("/-/ready, the log and a metric name it", async || {
        let ready = server.get("/-/ready").await.expect("an answer");
        let metrics = server.get("/metrics").await.expect("an answer").1;
        let log = server.process.log();
        let refused = "login of user \"cassandra\"";
        let logged = log.lines().any(|line| line.contains("ERROR") && line.contains(refused));
        let count = metrics.lines().find_map(|line| {
            line.strip_prefix("promkairos_cassandra_open_refused_total ")?.parse::<u64>().ok()
        });
        // A count above one: the login is tried again.
        match ready.0 == 503 && ready.1.contains(refused) && logged && count > Some(1) {
            true => Ok(()),
            false => Err(format!("{ready:?} {count:?}\n{log}")),
        }
    })
    .await;
    assert!(!server.process.log().contains("guess-47"), "the password is in the log");
    (folder, server)
}

#[tokio::test]
async fn a_refused_login_is_shown_and_tried_again() {
    let (address, keyspace) = (address(), support::keyspace());
    let backend = Backend::CassandraStore { address, keyspace };
    let (_folder, mut server) = shows_that_the_login_is_refused(backend).await;
    assert_eq!(server.process.ended(), None);
}

#[tokio::test]
async fn behind_a_log_a_refused_login_is_shown_and_writes_are_taken() {
    let (address, keyspace) = (address(), support::keyspace());
    let backend = Backend::CassandraWal { address, keyspace };
    let (_folder, server) = shows_that_the_login_is_refused(backend).await;
    let sent = Load::default().send(&server, &mut StdRng::seed_from_u64(1)).await;
    assert_eq!(sent.expect("an answer"), 204);
}

/// The file gets another password, and the server reads it on a reload.
async fn a_new_password_lets_it_in(backend: Backend) {
    let (folder, mut server) = shows_that_the_login_is_refused(backend).await;
    std::fs::write(folder.path().join("password"), "cassandra").expect("written");
    server.process.signal(Signal::HUP);
    eventually("the store is open", async || {
        let metrics = server.get("/metrics").await.expect("an answer").1;
        let opened = metrics.lines().any(|line| {
            let count = line.strip_prefix("promkairos_cassandra_statements_total{");
            count.is_some_and(|rest| !rest.ends_with(" 0"))
        });
        if opened { Ok(()) } else { Err(server.process.log()) }
    })
    .await;
    server.wait_ready().await;
    // The log of the process is read with a delay.
    eventually("it says so", async || {
        let log = server.process.log();
        if log.contains("changed: cassandra-password-file") { Ok(()) } else { Err(log) }
    })
    .await;
    assert!(server.process.terminate().success(), "{}", server.process.log());
}

#[tokio::test]
async fn a_password_that_is_read_again_lets_a_waiting_server_in() {
    let (address, keyspace) = (address(), support::keyspace());
    a_new_password_lets_it_in(Backend::CassandraStore { address, keyspace }).await;
}

#[tokio::test]
async fn a_password_that_is_read_again_lets_a_log_flush() {
    let (address, keyspace) = (address(), support::keyspace());
    a_new_password_lets_it_in(Backend::CassandraWal { address, keyspace }).await;
}

/// An operator changes the password: connections stay, and new connections use the new password.
#[tokio::test]
async fn a_password_that_changes_holds_for_new_connections() {
    let mut changing = options();
    let (root, keyspace) = (Superuser::of(&changing).await, changing.keyspace.as_str());
    let role = format!("c{keyspace}");
    root.role(&role, "first", &["SELECT", "MODIFY"], keyspace).await;
    changing.credentials = Credentials::new(&role, "first");
    let open = async || {
        let opened = CassandraStore::open(changing.clone(), CassandraMetrics::default()).await;
        opened.map_err(|error| error.to_string())
    };
    let store = eventually("the role gets in", async || open().await).await;
    root.cql(format!("ALTER ROLE {role} WITH PASSWORD = 'second'")).await;
    // A node caches a password for a short time.
    eventually("the first is no longer taken", async || match open().await {
        Err(why) if why.contains(&format!("login of user {role:?}")) => Ok(()),
        Err(why) => Err(why),
        Ok(_) => Err("it is".to_owned()),
    })
    .await;
    let up = labels(&[("__name__", "up")]);
    Request::default().floats(&up, &[(10, 1.0)]).write(&store).await;
    changing.credentials.set(Some((&role, "second")));
    let second = eventually("the second is", async || open().await).await;
    let all = read(&second, &named("up"), TimeRange::ALL).await;
    assert_eq!(bits(&all[&up]), [(10, 1.0f64.to_bits())]);
}

#[tokio::test]
async fn the_flags_reach_the_session() {
    let folder = tempfile::tempdir().expect("a folder");
    let backend = Backend::CassandraStore { address: address(), keyspace: support::keyspace() };
    let flags = flags(folder.path(), "cassandra");
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let data = folder.path().join("data");
    let mut server = Promkairos::ready(&data, &backend, &flags).await;
    assert!(server.process.terminate().success(), "{}", server.process.log());
}
