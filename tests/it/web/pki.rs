//! Certificate authorities of a test, and the certificates that they sign.

use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
};

/// A certificate authority.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate.
    pub(super) pem: String,
}

/// A certificate and its key, in PEM.
pub(super) struct Identity {
    pub(super) certificate: String,
    pub(super) key: String,
}

impl Authority {
    pub(super) fn new(name: &str) -> Self {
        let mut params = named(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("signed").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// Signs a certificate with these subject alternative names.
    pub(super) fn sign(&self, name: &str, alternatives: Vec<SanType>) -> Identity {
        let mut params = named(name);
        params.subject_alt_names = alternatives;
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("signed").pem();
        Identity { certificate, key: key.serialize_pem() }
    }

    /// Signs the certificate of a server on this machine.
    pub(super) fn server(&self) -> Identity {
        let address = std::net::Ipv4Addr::LOCALHOST;
        self.sign("server", vec![SanType::IpAddress(address.into())])
    }

    /// Writes its certificate.
    pub(super) fn write(&self, path: &Path) {
        std::fs::write(path, &self.pem).expect("written");
    }
}

impl Identity {
    /// Writes `NAME.crt` and `NAME.key`.
    pub(super) fn write(&self, folder: &Path, name: &str) {
        let path = |ending| folder.join(format!("{name}.{ending}"));
        std::fs::write(path("crt"), &self.certificate).expect("written");
        std::fs::write(path("key"), &self.key).expect("written");
    }
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}
