//! TLS towards Cassandra: PEM files, read and parsed once, when the settings are loaded.
//!
//! The checked content is the content that is used. A reload of the settings reads the files again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::sign::CertifiedKey;

use super::super::digest::{Digest, sha256};
use super::super::error::ConfigError;
use super::super::file;
use super::super::pem::certificates;
use super::super::raw::Raw;
use crate::storage::cassandra::Tls;

const CA: &str = "cassandra-tls-ca";
const CERT: &str = "cassandra-tls-cert";
const KEY: &str = "cassandra-tls-key";

/// The settings that name files.
pub(crate) const FILES: [&str; 3] = [CA, CERT, KEY];

/// Encryption of the connections.
#[derive(Debug, Clone)]
pub struct TlsConfig {
    /// What connections use.
    pub connections: Tls,
    /// PEM file with that key.
    pub key_file: Option<PathBuf>,
    /// SHA-256 of the files with authorities, certificate and key.
    digests: [Option<Digest>; 3],
}

impl TlsConfig {
    /// Reads the files of the authorities, the client's certificate and the key. An error is the
    /// setting whose file is wrong, and why.
    pub fn read(
        ca_file: &Path,
        client: Option<(&Path, &Path)>,
    ) -> Result<Self, (&'static str, String)> {
        let ca = read(ca_file, CA)?;
        let mut authorities = RootCertStore::empty();
        for certificate in certificates(&ca).map_err(|why| (CA, why))? {
            authorities.add(certificate).map_err(|why| (CA, why.to_string()))?;
        }
        let provider = Arc::new(ring::default_provider());
        let nodes =
            WebPkiServerVerifier::builder_with_provider(authorities.into(), provider.clone())
                .build()
                .map_err(|why| (CA, why.to_string()))?;
        let mut digests = [Some(sha256(&ca)), None, None];
        let key_file = client.map(|(_, key_file)| key_file.to_owned());
        let client = match client {
            None => None,
            Some((cert_file, key_file)) => {
                let (cert, key) = (read(cert_file, CERT)?, read(key_file, KEY)?);
                (digests[1], digests[2]) = (Some(sha256(&cert)), Some(sha256(&key)));
                let chain = certificates(&cert).map_err(|why| (CERT, why))?;
                let key = PrivateKeyDer::from_pem_slice(&key)
                    .map_err(|_| (KEY, "holds no private key in PEM".to_owned()))?;
                let both = CertifiedKey::from_der(chain, key, &provider)
                    .map_err(|why| (KEY, format!("does not fit the certificate: {why}")))?;
                Some(Arc::new(both))
            }
        };
        let connections = Tls { ca_file: ca_file.to_owned(), nodes, client };
        Ok(Self { connections, key_file, digests })
    }

    pub(super) fn from_raw(raw: &Raw) -> Result<Option<Self>, ConfigError> {
        let path = |name| raw.get(name).map(Path::new);
        if !raw.switch("cassandra-tls")? {
            return match FILES.into_iter().find(|name| raw.get(name).is_some()) {
                Some(name) => Err(raw.refuse(name, "means nothing without --cassandra-tls")),
                None => Ok(None),
            };
        }
        let Some(ca) = path(CA) else {
            return Err(raw.refuse("cassandra-tls", "needs --cassandra-tls-ca to check servers"));
        };
        let client = match (path(CERT), path(KEY)) {
            (None, None) => None,
            (Some(cert), Some(key)) => Some((cert, key)),
            (Some(_), None) => return Err(raw.refuse(CERT, "needs --cassandra-tls-key")),
            (None, Some(_)) => return Err(raw.refuse(KEY, "needs --cassandra-tls-cert")),
        };
        Self::read(ca, client).map(Some).map_err(|(name, why)| raw.refuse(name, why))
    }

    /// The SHA-256 of the content of the file that one of [`FILES`] names; `None` = not set.
    pub(crate) fn digest(&self, name: &str) -> Option<Digest> {
        let which = FILES.iter().position(|file| *file == name)?;
        self.digests[which]
    }
}

fn read(path: &Path, name: &'static str) -> Result<Vec<u8>, (&'static str, String)> {
    file::read(path).map_err(|why| (name, why.to_string()))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_by_its_setting() {
        let folder = tempfile::tempdir().expect("a folder");
        let [ca, cert, key] = ["ca", "cert", "key"].map(|name| folder.path().join(name));
        let write = |path: &Path, text: &str| std::fs::write(path, text).expect("written");
        let check = |name: &str, why: &str| {
            let refused = TlsConfig::read(&ca, Some((&cert, &key))).map(drop).expect_err("refused");
            assert!(refused.0 == name && refused.1.contains(why), "{refused:?}");
        };
        let [ours, other] = [(), ()].map(|()| KeyPair::generate().expect("a key"));
        let certificate = CertificateParams::default().self_signed(&ours).expect("signed").pem();
        let nonsense = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        check(CA, "No such file");
        write(&ca, "");
        check(CA, "holds no certificate in PEM");
        write(&ca, nonsense);
        check(CA, "BadEncoding");
        write(&ca, &certificate);
        check(CERT, "No such file");
        write(&cert, &ours.serialize_pem());
        check(KEY, "No such file");
        write(&key, &certificate);
        check(CERT, "holds no certificate in PEM");
        write(&cert, &certificate);
        check(KEY, "holds no private key in PEM");
        write(&key, &other.serialize_pem());
        check(KEY, "does not fit the certificate");
        write(&cert, nonsense);
        check(KEY, "does not fit the certificate");
        write(&cert, &certificate);
        write(&key, &ours.serialize_pem());
        let read = TlsConfig::read(&ca, Some((&cert, &key))).expect("they fit");
        assert_eq!(read.digest(CERT), read.digest(CA));
        assert!(read.digest(KEY).is_some() && read.digest("other").is_none());
        assert!(!format!("{read:?}").contains(&format!("{:?}", ours.serialized_der())));
    }
}
