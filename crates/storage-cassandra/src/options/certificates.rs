//! TLS certificates for Cassandra, which may change while connections are open.
//!
//! Each handshake uses the certificates that were read last: the authorities that nodes are verified
//! against, and our own certificate where nodes ask for one. Open connections stay open. TLS sessions
//! are not resumed: a resumed session would rely on the old certificates.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, Resumption, WebPkiServerVerifier};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

use promkairos_storage::{Result, StoreError};

/// Encryption of the connections to a cluster.
#[derive(Debug, Clone)]
pub struct Tls {
    /// PEM file with the authorities, for messages.
    pub ca_file: PathBuf,
    /// What the certificates of nodes are checked against.
    pub nodes: Arc<WebPkiServerVerifier>,
    /// The client's certificate and its key, for nodes that ask for one.
    pub client: Option<Arc<CertifiedKey>>,
}

/// The certificates for connections to a cluster. Clones share them: a change in one holds for all.
#[derive(Debug, Clone, Default)]
pub struct Certificates(Arc<RwLock<Option<Tls>>>);

impl Certificates {
    /// Makes new connections use these from now on.
    pub fn set(&self, tls: Tls) {
        *self.0.write() = Some(tls);
    }

    /// The configuration of connections. It follows what was set last, now and later; where nothing
    /// was set, it begins with `first`.
    pub(crate) fn client_config(&self, first: &Tls) -> Result<Arc<ClientConfig>> {
        self.0.write().get_or_insert_with(|| first.clone());
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
        self.0.read().as_ref()?.client.clone()
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
    use rustls::pki_types::PrivateKeyDer;
    use rustls::server::WebPkiClientVerifier;
    use rustls::{RootCertStore, ServerConfig};
    use tokio_rustls::{TlsAcceptor, TlsConnector};

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

        /// What a client of this party uses.
        fn tls(&self) -> Tls {
            let provider = Arc::new(ring::default_provider());
            let mut roots = RootCertStore::empty();
            roots.add(self.ca.der().clone()).expect("a root");
            let roots = Arc::new(roots);
            let nodes = WebPkiServerVerifier::builder_with_provider(roots, provider.clone());
            let nodes = nodes.build().expect("a verifier");
            let (chain, key) = (vec![self.client.0.der().clone()], self.client.1.serialize_der());
            let key = PrivateKeyDer::try_from(key).expect("a key");
            let client = CertifiedKey::from_der(chain, key, &provider).expect("they fit");
            Tls { ca_file: PathBuf::new(), nodes, client: Some(Arc::new(client)) }
        }

        /// Does a handshake with a node of this party, which asks for a certificate of its own authority.
        /// Returns the client's certificate that the node received.
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
        let [one, other] = [Party::new(), Party::new()];
        let shared = Certificates::default();
        let config = shared.client_config(&one.tls()).expect("valid");
        assert_eq!(one.shake(&config).await.expect("done"), one.client.0.der().to_vec());
        other.shake(&config).await.expect_err("signed by nobody who is known");
        shared.set(other.tls());
        assert_eq!(other.shake(&config).await.expect("done"), other.client.0.der().to_vec());
        one.shake(&config).await.expect_err("signed by nobody who is known now");
        // A change holds for connections of another session too.
        let config = shared.client_config(&one.tls()).expect("valid");
        assert_eq!(other.shake(&config).await.expect("done"), other.client.0.der().to_vec());
    }
}
