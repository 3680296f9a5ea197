//! Certificates towards Cassandra, which may change while connections are open.
//!
//! Each handshake uses what was read last: the authorities that nodes are checked against, and our own
//! certificate where nodes ask for one. Connections that are open stay so. Sessions of TLS are not
//! resumed: one would stand on the certificates of before.

use std::path::Path;
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::options::Tls;
use crate::storage::StoreError;

/// What the connections to a cluster use. Clones share it: what is set in one holds for all.
#[derive(Debug, Clone, Default)]
pub struct Certificates(Arc<RwLock<Option<ReadCertificates>>>);

/// Certificates as they were read, with the files that they come from.
#[derive(Debug, Clone)]
pub struct ReadCertificates {
    files: Tls,
    nodes: Arc<WebPkiServerVerifier>,
    ours: Option<Arc<CertifiedKey>>,
}

impl ReadCertificates {
    /// Reads the files, and connects to nothing. [`StoreError::Invalid`] names what is wrong with which.
    pub fn read(files: &Tls) -> Result<Self, StoreError> {
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&files.ca_file)? {
            roots.add(certificate).map_err(|error| refused(&files.ca_file, error))?;
        }
        let nodes = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        let nodes = nodes.build().map_err(|error| refused(&files.ca_file, error))?;
        Ok(Self { files: files.clone(), nodes, ours: ours(files, &provider)? })
    }
}

fn ours(files: &Tls, provider: &CryptoProvider) -> Result<Option<Arc<CertifiedKey>>, StoreError> {
    let Some(client) = &files.client else { return Ok(None) };
    let key = PrivateKeyDer::from_pem_file(&client.key_file)
        .map_err(|error| refused(&client.key_file, error))?;
    let chain = certificates(&client.chain_file)?;
    let ours = CertifiedKey::from_der(chain, key, provider)
        .map_err(|error| refused(&client.chain_file, error))?;
    Ok(Some(Arc::new(ours)))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let all: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(file).and_then(|certificates| certificates.collect());
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err(refused(file, "no certificate in it")),
        Err(error) => Err(refused(file, error)),
    }
}

fn refused(file: &Path, why: impl std::fmt::Display) -> StoreError {
    StoreError::Invalid(format!("TLS: {}: {why}", file.display()))
}

impl Certificates {
    /// From now on new connections use these.
    pub fn set(&self, read: ReadCertificates) {
        *self.0.write() = Some(read);
    }

    /// Reads the files anew, those that were set last or else these, and gives what connections are
    /// made with: it follows what is set later.
    pub(super) fn client_config(&self, files: &Tls) -> Result<Arc<ClientConfig>, StoreError> {
        let last = self.0.read().as_ref().map(|read| read.files.clone());
        self.set(ReadCertificates::read(last.as_ref().unwrap_or(files))?);
        let follows = Arc::new(self.clone());
        let provider = Arc::new(ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| StoreError::Invalid(format!("TLS: {error}")))?
            .dangerous()
            .with_custom_certificate_verifier(follows.clone())
            .with_client_cert_resolver(follows);
        config.resumption = Resumption::disabled();
        Ok(Arc::new(config))
    }

    fn nodes(&self) -> Result<Arc<WebPkiServerVerifier>, Error> {
        let nodes = self.0.read().as_ref().map(|read| read.nodes.clone());
        nodes.ok_or_else(|| Error::General("no authorities were read".into()))
    }

    fn ours(&self) -> Option<Arc<CertifiedKey>> {
        self.0.read().as_ref()?.ours.clone()
    }
}

impl ServerCertVerifier for Certificates {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let nodes = self.nodes()?;
        nodes.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.nodes()?.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.nodes()?.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

impl ResolvesClientCert for Certificates {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.ours()
    }

    fn has_certs(&self) -> bool {
        self.ours().is_some()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    use rustls::ServerConfig;
    use rustls::server::WebPkiClientVerifier;
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    use super::super::options::ClientCertificate;
    use super::*;

    /// An authority, a node and a client whose certificates it has signed.
    struct Party {
        ca: rcgen::Certificate,
        node: (rcgen::Certificate, KeyPair),
        client: (rcgen::Certificate, KeyPair),
    }

    impl Party {
        fn new() -> Self {
            let key = KeyPair::generate().expect("a key");
            let mut of_ca = CertificateParams::default();
            of_ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let ca = of_ca.self_signed(&key).expect("signed");
            let issuer = Issuer::new(of_ca, key);
            let signed = |name: &str| {
                let key = KeyPair::generate().expect("a key");
                let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
                (params.signed_by(&key, &issuer).expect("signed"), key)
            };
            let (node, client) = (signed("node.example"), signed("client.example"));
            Self { ca, node, client }
        }

        /// Writes what a client of this party has.
        fn write(&self, files: &Tls) {
            let client = files.client.as_ref().expect("it has one");
            let write = |path: &Path, text: String| std::fs::write(path, text).expect("written");
            write(&files.ca_file, self.ca.pem());
            write(&client.chain_file, self.client.0.pem());
            write(&client.key_file, self.client.1.serialize_pem());
        }

        /// Shakes hands with a node of this party, which asks for a certificate of its own authority, and
        /// gives the client's certificate that it got.
        async fn shake(&self, with: &Arc<ClientConfig>) -> Result<Vec<u8>, String> {
            let provider = Arc::new(ring::default_provider());
            let mut roots = RootCertStore::empty();
            roots.add(self.ca.der().clone()).expect("a root");
            let clients =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
            let key = PrivateKeyDer::try_from(self.node.1.serialize_der()).expect("a key");
            let node = ServerConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .expect("versions")
                .with_client_cert_verifier(clients.build().expect("a verifier"))
                .with_single_cert(vec![self.node.0.der().clone()], key)
                .expect("they fit");
            let (ours, theirs) = tokio::io::duplex(1 << 16);
            let acceptor = TlsAcceptor::from(Arc::new(node));
            let name = ServerName::try_from("node.example").expect("a name");
            let connector = TlsConnector::from(with.clone());
            let (connected, accepted) =
                tokio::join!(connector.connect(name, ours), acceptor.accept(theirs));
            connected.map_err(|error| error.to_string())?;
            let accepted = accepted.map_err(|error| error.to_string())?;
            let certificates = accepted.get_ref().1.peer_certificates().unwrap_or_default();
            Ok(certificates.first().map(|certificate| certificate.to_vec()).unwrap_or_default())
        }
    }

    #[tokio::test]
    async fn handshakes_use_what_was_set_last() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str| folder.path().join(name);
        let client =
            ClientCertificate { chain_file: file("client.pem"), key_file: file("client.key") };
        let files = Tls { ca_file: file("ca.pem"), client: Some(client) };
        let [one, other] = [Party::new(), Party::new()];
        one.write(&files);
        let shared = Certificates::default();
        let config = shared.client_config(&files).expect("valid");
        assert_eq!(one.shake(&config).await.expect("done"), one.client.0.der().to_vec());
        // Read by nobody yet.
        other.write(&files);
        assert_eq!(one.shake(&config).await.expect("done"), one.client.0.der().to_vec());
        other.shake(&config).await.expect_err("signed by nobody who is known");
        shared.set(ReadCertificates::read(&files).expect("valid"));
        assert_eq!(other.shake(&config).await.expect("done"), other.client.0.der().to_vec());
        one.shake(&config).await.expect_err("signed by nobody who is known now");
    }

    #[test]
    fn what_does_not_fit_is_refused_by_its_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str| folder.path().join(name);
        let client =
            ClientCertificate { chain_file: file("client.pem"), key_file: file("client.key") };
        let files = Tls { ca_file: file("ca.pem"), client: Some(client) };
        let [one, other] = [Party::new(), Party::new()];
        let error = || ReadCertificates::read(&files).map(drop).expect_err("refused").to_string();
        assert!(error().contains("ca.pem"), "{}", error());
        one.write(&files);
        std::fs::write(file("client.key"), other.client.1.serialize_pem()).expect("written");
        assert!(error().contains("client.pem"), "{}", error());
        std::fs::write(file("client.key"), "").expect("written");
        assert!(error().contains("client.key"), "{}", error());
    }
}
