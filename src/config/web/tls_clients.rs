//! Client certificates: `client_auth_type`, the authorities, and the allowed names.
//!
//! As in Prometheus, only the types with `Verify` check who signed a certificate; all types check
//! that the client has its key.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    SignatureScheme,
};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::super::error::ConfigError;
use super::files::{Files, certificates, pem};
use super::yaml::{Entry, Table};

/// Whether a type requires a certificate, and whether it checks its signers.
#[derive(Debug, Clone, Copy)]
struct Demand {
    is_needed: bool,
    is_verified: bool,
}

/// The types that ask for a certificate. `RequireClientCert` is an older name.
const TYPES: [(&str, Demand); 5] = [
    ("RequestClientCert", Demand { is_needed: false, is_verified: false }),
    ("RequireAnyClientCert", Demand { is_needed: true, is_verified: false }),
    ("RequireClientCert", Demand { is_needed: true, is_verified: false }),
    ("VerifyClientCertIfGiven", Demand { is_needed: false, is_verified: true }),
    ("RequireAndVerifyClientCert", Demand { is_needed: true, is_verified: true }),
];

const NONE: &str = "NoClientCert";

/// Verifies certificates of clients.
#[derive(Debug)]
struct Clients {
    demand: Demand,
    /// Verifies the signers.
    signers: Option<Arc<dyn ClientCertVerifier>>,
    /// Names, of which a certificate must have one; `None` = any name.
    names: Option<Vec<String>>,
    algorithms: WebPkiSupportedAlgorithms,
}

/// The verifier of client certificates; `None` = no certificate is requested.
pub(super) fn verifier(
    table: &Table<'_>,
    provider: Arc<CryptoProvider>,
    files: &mut Files,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, ConfigError> {
    let authorities = pem(table, "client_ca", files)?;
    let names = table.get("client_allowed_sans").map(names).transpose()?;
    let kind = table.get("client_auth_type");
    let Some(demand) = kind.map(demand).transpose()?.flatten() else {
        let idle = authorities.map(|(entry, _)| entry).or(table.get("client_allowed_sans"));
        return match idle {
            Some(entry) => Err(entry.refuse("means nothing without client_auth_type")),
            None => Ok(None),
        };
    };
    let algorithms = provider.signature_verification_algorithms;
    let signers = match (demand.is_verified, authorities) {
        (false, _) => None,
        (true, Some((entry, pem))) => Some(signers(entry, &pem, provider)?),
        (true, None) => {
            let entry = kind.expect("it made the demand");
            return Err(entry.refuse("needs client_ca_file (or client_ca) to verify against"));
        }
    };
    Ok(Some(Arc::new(Clients { demand, signers, names, algorithms })))
}

/// Whether only clients with a certificate of a configured authority are accepted.
pub(super) fn keep_strangers_out(table: &Table<'_>) -> Result<bool, ConfigError> {
    let demand = table.get("client_auth_type").map(demand).transpose()?.flatten();
    Ok(demand.is_some_and(|demand| demand.is_needed && demand.is_verified))
}

fn demand(entry: &Entry<'_>) -> Result<Option<Demand>, ConfigError> {
    let kind = entry.text()?;
    match TYPES.iter().find(|(name, _)| *name == kind) {
        Some((_, demand)) => Ok(Some(*demand)),
        None if kind == NONE => Ok(None),
        None => {
            let names: Vec<&str> = TYPES.iter().map(|(name, _)| *name).collect();
            Err(entry.refuse(format!("must be one of {NONE}, {}", names.join(", "))))
        }
    }
}

fn names(entry: &Entry<'_>) -> Result<Vec<String>, ConfigError> {
    entry.list()?.iter().map(|item| item.text().map(Cow::into_owned)).collect()
}

fn signers(
    entry: &Entry<'_>,
    pem: &[u8],
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, ConfigError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(entry, pem)? {
        roots.add(certificate).map_err(|error| entry.refuse(error))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| entry.refuse(error))
}

impl ClientCertVerifier for Clients {
    fn client_auth_mandatory(&self) -> bool {
        self.demand.is_needed
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.signers.as_ref().map_or(&[][..], |signers| signers.root_hint_subjects())
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if let Some(signers) = &self.signers {
            signers.verify_client_cert(end_entity, intermediates, now)?;
        }
        match &self.names {
            Some(names) if !has_one_of(end_entity, names)? => {
                Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
            }
            _ => Ok(ClientCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Whether one of the subject alternative names is exactly one of `names`.
fn has_one_of(certificate: &CertificateDer<'_>, names: &[String]) -> Result<bool, Error> {
    let found = certificate_names(certificate);
    let found = found.ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))?;
    Ok(found.iter().any(|name| names.contains(name)))
}

/// The subject alternative names of a certificate in DER, in its order: DNS names, e-mail
/// addresses, URIs, and IP addresses in their usual text form. `None` = it cannot be parsed.
pub fn certificate_names(der: &[u8]) -> Option<Vec<String>> {
    let (_, parsed) = X509Certificate::from_der(der).ok()?;
    let Some(subject) = parsed.subject_alternative_name().ok()? else { return Some(Vec::new()) };
    let names = subject.value.general_names.iter().filter_map(|name| match name {
        GeneralName::DNSName(name) | GeneralName::RFC822Name(name) | GeneralName::URI(name) => {
            Some((*name).to_owned())
        }
        GeneralName::IPAddress(bytes) => address(bytes).map(|address| address.to_string()),
        _ => None,
    });
    Some(names.collect())
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}
