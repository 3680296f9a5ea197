//! Clients with TLS: one for requests, one that looks at the handshake.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

use super::pki::{Authority, Identity};
use crate::support::DEADLINE;

/// A client of one server.
pub(super) struct Client {
    base: String,
    agent: ureq::Agent,
}

/// Status and body, or the reason why there is no answer.
pub(super) type Answer = Result<(u16, String), String>;

impl Client {
    /// Trusts an authority, and presents a certificate if it is asked for one.
    pub(super) fn new(
        address: SocketAddr,
        authority: &Authority,
        identity: Option<&Identity>,
    ) -> Self {
        let certificate = |pem: &str| Certificate::from_pem(pem.as_bytes()).expect("a certificate");
        let identity = identity.map(|identity| {
            let key = PrivateKey::from_pem(identity.key.as_bytes()).expect("a key");
            ClientCert::new_with_certs(&[certificate(&identity.certificate)], key)
        });
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::new_with_certs(&[certificate(&authority.pem)]))
            .client_cert(identity)
            .build();
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_idle_age(DEADLINE)
            .tls_config(tls)
            .build();
        Self { base: format!("https://{address}"), agent: config.into() }
    }

    /// A GET with this header `Authorization`.
    pub(super) fn get(&self, path: &str, said: Option<&str>) -> Answer {
        let mut request = self.agent.get(format!("{}{path}", self.base));
        if let Some(said) = said {
            request = request.header("Authorization", said);
        }
        answer(request.call())
    }

    /// A POST of nothing.
    pub(super) fn post(&self, path: &str, said: &str) -> Answer {
        let request = self.agent.post(format!("{}{path}", self.base));
        answer(request.header("Authorization", said).send_empty())
    }

    /// A remote write with this snappy block.
    pub(super) fn write(&self, block: &[u8], said: &str) -> Answer {
        let request = self
            .agent
            .post(format!("{}/api/v1/write", self.base))
            .header("Authorization", said)
            .header("Content-Encoding", "snappy")
            .header("Content-Type", "application/x-protobuf");
        answer(request.send(block))
    }
}

fn answer(got: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Answer {
    let mut response = got.map_err(|error| error.to_string())?;
    let text = response.body_mut().read_to_string().map_err(|error| error.to_string())?;
    Ok((response.status().as_u16(), text))
}

/// A connection after a handshake in which the client offers these protocols and TLS versions.
pub(super) async fn shake_hands(
    address: SocketAddr,
    authority: &Authority,
    protocols: &[&str],
    versions: &[&'static SupportedProtocolVersion],
) -> std::io::Result<TlsStream<TcpStream>> {
    connect(address, &Arc::new(tls(authority, protocols, versions, None))).await
}

/// The client's settings for handshakes; they remember sessions.
pub(super) fn tls(
    authority: &Authority,
    protocols: &[&str],
    versions: &[&'static SupportedProtocolVersion],
    identity: Option<&Identity>,
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(authority.pem.as_bytes()).expect("a certificate");
    roots.add(root).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .expect("versions")
        .with_root_certificates(roots);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(Identity { certificate, key }) => {
            let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).expect("one")];
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
            builder.with_client_auth_cert(chain, key).expect("they fit")
        }
    };
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    config
}

/// A connection after its handshake.
pub(super) async fn connect(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::IpAddress(address.ip().into());
    TlsConnector::from(Arc::clone(config)).connect(name, stream).await
}
