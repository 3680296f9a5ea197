//! `tls_server_config`: certificate, key, versions, cipher suites and curves, as rustls takes them.
//!
//! The names are those of Go, which Prometheus uses. What rustls does not have here (TLS before
//! 1.2, suites without forward secrecy or in CBC mode, P-521) is refused by name: nobody is to
//! believe that it is on. Suites of TLS 1.3 cannot be chosen, as in Go.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, SupportedKxGroup, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, SupportedCipherSuite, SupportedProtocolVersion};

use x509_parser::oid_registry::OID_NIST_EC_P521;
use x509_parser::prelude::{FromDer, X509Certificate, X509Version};

use super::super::ConfigError;
use super::access::read_named;
use super::files::Files;
use super::yaml::{Entry, Table};
use super::{Http2, tls_clients};

const KEYS: [&str; 13] = [
    "cert",
    "key",
    "client_ca",
    "cert_file",
    "key_file",
    "client_ca_file",
    "client_auth_type",
    "client_allowed_sans",
    "cipher_suites",
    "curve_preferences",
    "min_version",
    "max_version",
    "prefer_server_cipher_suites",
];

/// What makes a `tls_server_config` one that is on.
const MEANT: [&str; 7] =
    ["cert", "key", "client_ca", "cert_file", "key_file", "client_ca_file", "client_auth_type"];

/// The curves that rustls has here, by their names in Go.
fn known_curves() -> [(&'static str, &'static dyn SupportedKxGroup); 3] {
    [
        ("X25519", ring::kx_group::X25519),
        ("CurveP256", ring::kx_group::SECP256R1),
        ("CurveP384", ring::kx_group::SECP384R1),
    ]
}

type Versions = Vec<&'static SupportedProtocolVersion>;

/// TLS of the listener, and when the first certificate of its chain ends, in seconds since 1970; `None`
/// where nothing says that it is wanted, as in Prometheus.
pub(super) fn server_config(
    entry: &Entry<'_>,
    http2: Http2,
    files: &mut Files,
) -> Result<Option<(Arc<ServerConfig>, i64)>, ConfigError> {
    let table = entry.table(&KEYS)?;
    let versions = versions(&table)?;
    let provider = Arc::new(CryptoProvider {
        cipher_suites: cipher_suites(&table)?,
        kx_groups: curves(&table)?,
        ..ring::default_provider()
    });
    if MEANT.iter().all(|key| table.get(key).is_none()) {
        return Ok(None);
    }
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&versions)
        .map_err(|error| entry.refuse(error))?;
    let builder = match tls_clients::verifier(&table, provider, files)? {
        None => builder.with_no_client_auth(),
        Some(verifier) => builder.with_client_cert_verifier(verifier),
    };
    let (cert, cert_pem) = pem(&table, "cert", files)?
        .ok_or_else(|| entry.refuse("needs cert_file (or cert) for TLS"))?;
    let (key, key_pem) = pem(&table, "key", files)?
        .ok_or_else(|| entry.refuse("needs key_file (or key) for TLS"))?;
    let chain = certificates(cert, &cert_pem)?;
    let not_after = not_after(cert, &chain)?;
    // The error has no part of the key in it.
    let der = PrivateKeyDer::from_pem_slice(&key_pem)
        .map_err(|_| key.refuse("holds no private key in PEM"))?;
    let mut config = builder
        .with_single_cert(chain, der)
        .map_err(|error| key.refuse(format!("does not fit the certificate: {error}")))?;
    config.alpn_protocols = match http2 {
        Http2::Offered => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        Http2::Off => vec![b"http/1.1".to_vec()],
    };
    config.ignore_client_order = match table.get("prefer_server_cipher_suites") {
        Some(entry) => entry.switch()?,
        None => true,
    };
    Ok(Some((Arc::new(config), not_after)))
}

/// The PEM that stands under a key, or in the file under the key with `_file`; and the key's entry.
pub(super) fn pem<'t, 'a>(
    table: &'t Table<'a>,
    key: &str,
    files: &mut Files,
) -> Result<Option<(&'t Entry<'a>, Vec<u8>)>, ConfigError> {
    match (table.get(key), table.get(&format!("{key}_file"))) {
        (Some(_), Some(file)) => Err(file.refuse(format!("{key} stands beside it: one is enough"))),
        (Some(entry), None) => Ok(Some((entry, entry.text()?.as_bytes().to_vec()))),
        (None, Some(file)) => Ok(Some((file, read_named(file, files)?))),
        (None, None) => Ok(None),
    }
}

/// The certificates of a PEM.
pub(super) fn certificates(
    entry: &Entry<'_>,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    super::super::pem::certificates(pem).map_err(|why| entry.refuse(why))
}

/// When the first of these certificates ends. The server's own is refused in words where rustls does not
/// take it.
fn not_after(entry: &Entry<'_>, chain: &[CertificateDer<'_>]) -> Result<i64, ConfigError> {
    let mut first = i64::MAX;
    for (number, certificate) in chain.iter().enumerate() {
        let (_, parsed) = X509Certificate::from_der(certificate)
            .map_err(|error| entry.refuse(format!("holds a certificate that is none: {error}")))?;
        if number == 0 {
            check_own(entry, &parsed)?;
        }
        first = first.min(parsed.validity().not_after.timestamp());
    }
    Ok(first)
}

fn check_own(entry: &Entry<'_>, own: &X509Certificate<'_>) -> Result<(), ConfigError> {
    if own.version() != X509Version::V3 {
        let version = own.version().0.saturating_add(1);
        return Err(entry.refuse(format!(
            "is of X.509 version {version}, which is not offered: make one of version 3, with its \
             names as subject alternative names"
        )));
    }
    let curve = own.subject_pki.algorithm.parameters.as_ref();
    if curve.is_some_and(|curve| curve.as_oid().is_ok_and(|curve| curve == OID_NIST_EC_P521)) {
        let why = "has a key on P-521, which is not offered: take P-256, P-384, Ed25519 or RSA";
        return Err(entry.refuse(why));
    }
    Ok(())
}

fn versions(table: &Table<'_>) -> Result<Versions, ConfigError> {
    let number = |key, default| match table.get(key) {
        None => Ok(default),
        Some(entry) => match &*entry.text()? {
            "TLS12" => Ok(12),
            "TLS13" => Ok(13),
            "TLS10" | "TLS11" => Err(entry.refuse("TLS before 1.2 is not offered: TLS12 or TLS13")),
            _ => Err(entry.refuse("must be TLS12 or TLS13")),
        },
    };
    let (least, most) = (number("min_version", 12)?, number("max_version", 13)?);
    match (least, most) {
        (12, 12) => Ok(vec![&TLS12]),
        (13, 13) => Ok(vec![&TLS13]),
        (12, 13) => Ok(vec![&TLS13, &TLS12]),
        _ => {
            let entry = table.get("min_version").or(table.get("max_version"));
            Err(entry.expect("the defaults fit").refuse("is above max_version"))
        }
    }
}

/// The suites of TLS 1.2 that are listed, in that order, after all of TLS 1.3.
fn cipher_suites(table: &Table<'_>) -> Result<Vec<SupportedCipherSuite>, ConfigError> {
    let all = ring::ALL_CIPHER_SUITES;
    let Some(list) = table.get("cipher_suites") else { return Ok(all.to_vec()) };
    let name = |suite: &SupportedCipherSuite| go_name(*suite);
    let mut chosen: Vec<SupportedCipherSuite> =
        all.iter().filter(|suite| suite.tls13().is_some()).copied().collect();
    for entry in list.list()? {
        let wanted = entry.text()?;
        match all.iter().find(|suite| name(suite) == wanted) {
            Some(suite) if !chosen.contains(suite) => chosen.push(*suite),
            Some(_) => {}
            None => {
                let names: Vec<String> = all.iter().map(name).collect();
                let names = names.join(", ");
                return Err(entry.refuse(format!("{wanted:?} is not offered; there are {names}")));
            }
        }
    }
    if chosen.iter().all(|suite| suite.tls13().is_some()) {
        // An empty list means the usual ones, and one of TLS 1.3 alone chooses nothing.
        return Ok(all.to_vec());
    }
    Ok(chosen)
}

/// A suite's name in Go, which is the registered one.
fn go_name(suite: SupportedCipherSuite) -> String {
    let name = format!("{:?}", suite.suite());
    name.replacen("TLS13_", "TLS_", 1)
}

fn curves(table: &Table<'_>) -> Result<Vec<&'static dyn SupportedKxGroup>, ConfigError> {
    let mut chosen = Vec::new();
    for entry in table.get("curve_preferences").map(Entry::list).transpose()?.unwrap_or_default() {
        let wanted = entry.text()?;
        match known_curves().into_iter().find(|(name, _)| *name == wanted) {
            Some((_, curve)) => chosen.push(curve),
            None => {
                let names = known_curves().map(|(name, _)| name).join(", ");
                return Err(entry.refuse(format!("{wanted:?} is not offered; there are {names}")));
            }
        }
    }
    Ok(if chosen.is_empty() { ring::ALL_KX_GROUPS.to_vec() } else { chosen })
}
