//! `tls_server_config`: certificate, key, versions, cipher suites and curves, for rustls.
//!
//! The names are Go's, as in Prometheus. Names that rustls does not support here (TLS before 1.2,
//! suites without forward secrecy or in CBC mode, P-521) are left out with a warning, or refused if
//! nothing would be left: they must not seem to be on. As in Go, suites of TLS 1.3 cannot be chosen.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, SupportedKxGroup, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::NoServerSessionStorage;
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, SupportedCipherSuite, SupportedProtocolVersion};

use x509_parser::oid_registry::OID_NIST_EC_P521;
use x509_parser::prelude::{FromDer, X509Certificate, X509Version};

use super::super::error::ConfigError;
use super::super::keys::Key;
use super::files::{Files, certificates, named, pem};
use super::tls_clients;
use super::yaml::{Entry, Table};

pub(super) static KEYS: [Key; 13] = [
    Key::new(
        "cert_file",
        "PEM file with the server's certificate, and those that lead to its authority",
        "cert must be there",
    ),
    Key::new("key_file", "PEM file with its key", "key must be there"),
    Key::new("cert", "The PEM itself, in place of cert_file", "cert_file must be there"),
    Key::new("key", "The PEM itself, in place of key_file", "key_file must be there"),
    Key::new(
        "client_auth_type",
        "Which certificates of clients are asked for and checked: NoClientCert, RequestClientCert, \
         RequireAnyClientCert, RequireClientCert, VerifyClientCertIfGiven or \
         RequireAndVerifyClientCert",
        "NoClientCert",
    ),
    Key::new(
        "client_ca_file",
        "PEM file with the authorities that sign certificates of clients",
        "refused where client_auth_type has Verify",
    ),
    Key::new("client_ca", "The PEM itself, in place of client_ca_file", "as client_ca_file"),
    Key::new(
        "client_allowed_sans",
        "A list: of a client's certificate one subject alternative name must be exactly one of these",
        "any name will do",
    ),
    Key::new(
        "min_version",
        "The least version of TLS: TLS12 or TLS13; TLS10 and TLS11 are taken as TLS12, with a warning",
        "TLS12",
    ),
    Key::new("max_version", "The highest version of TLS: TLS12 or TLS13", "TLS13"),
    Key::new(
        "cipher_suites",
        "A list of suites of TLS 1.2, by their names in Go; what is not offered is left out with a \
         warning, and refused where nothing is left",
        "all that there are",
    ),
    Key::new(
        "prefer_server_cipher_suites",
        "Whether the order of the suites is that of the server: true or false",
        "true",
    ),
    Key::new(
        "curve_preferences",
        "A list of X25519, CurveP256 and CurveP384; CurveP521 is left out with a warning, and refused \
         where nothing is left",
        "all three",
    ),
];

/// The keys that switch a `tls_server_config` on.
const MEANT: [&str; 7] =
    ["cert", "key", "client_ca", "cert_file", "key_file", "client_ca_file", "client_auth_type"];

/// The suites that Prometheus accepts, or accepted before Go 1.22, and rustls does not have.
const NOT_OFFERED: [&str; 8] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
];

/// The curve that Prometheus has, and rustls does not have here.
const P521: &str = "CurveP521";

/// The curves that rustls has here, by their names in Go.
fn known_curves() -> [(&'static str, &'static dyn SupportedKxGroup); 3] {
    [
        ("X25519", ring::kx_group::X25519),
        ("CurveP256", ring::kx_group::SECP256R1),
        ("CurveP384", ring::kx_group::SECP384R1),
    ]
}

type Versions = Vec<&'static SupportedProtocolVersion>;

/// When all certificates of a chain have become valid, and when the first expires, in seconds since 1970.
type Validity = (i64, i64);

/// TLS of the listener.
pub(super) struct Tls {
    pub(super) config: Arc<ServerConfig>,
    /// The validity of its certificates.
    pub(super) validity: Validity,
    /// Whether only clients with a certificate of a configured authority are accepted.
    pub(super) keeps_strangers_out: bool,
}

/// TLS of the listener, with HTTP/2 if `offers_http2`; `None` if no key switches it on, as in Prometheus.
pub(super) fn server_config(
    entry: &Entry<'_>,
    offers_http2: bool,
    files: &mut Files,
    warnings: &mut Vec<String>,
) -> Result<Option<Tls>, ConfigError> {
    let table = entry.table(&KEYS)?;
    let mut otherwise = Vec::new();
    let versions = versions(&table, &mut otherwise)?;
    let provider = Arc::new(CryptoProvider {
        cipher_suites: cipher_suites(&table, &mut otherwise)?,
        kx_groups: curves(&table, &mut otherwise)?,
        ..ring::default_provider()
    });
    if MEANT.iter().all(|key| table.get(key).is_none()) {
        return Ok(None);
    }
    warnings.append(&mut otherwise);
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&versions)
        .map_err(|error| entry.refuse(error))?;
    let verifier = tls_clients::verifier(&table, provider, files)?;
    let asks_for_certificates = verifier.is_some();
    let builder = match verifier {
        None => builder.with_no_client_auth(),
        Some(verifier) => builder.with_client_cert_verifier(verifier),
    };
    let (cert, cert_pem) = pem(&table, "cert", files)?
        .ok_or_else(|| entry.refuse("needs cert_file (or cert) for TLS"))?;
    let (key, key_pem) = pem(&table, "key", files)?
        .ok_or_else(|| entry.refuse("needs key_file (or key) for TLS"))?;
    files.holds_secret(match table.get("key_file") {
        Some(file) => named(file)?,
        None => key.file().to_owned(),
    });
    let chain = certificates(cert, &cert_pem)?;
    let validity = validity(cert, &chain)?;
    // The error contains no part of the key.
    let der = PrivateKeyDer::from_pem_slice(&key_pem)
        .map_err(|_| key.refuse("holds no private key in PEM"))?;
    let mut config = builder
        .with_single_cert(chain, der)
        .map_err(|error| key.refuse(format!("does not fit the certificate: {error}")))?;
    if asks_for_certificates {
        // A resumed session would admit a client whose certificate has expired or whose authority was removed.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    let protocols: &[&[u8]] = if offers_http2 { &[b"h2", b"http/1.1"] } else { &[b"http/1.1"] };
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    config.ignore_client_order = match table.get("prefer_server_cipher_suites") {
        Some(entry) => entry.switch()?,
        None => true,
    };
    let keeps_strangers_out = tls_clients::keep_strangers_out(&table)?;
    Ok(Some(Tls { config: Arc::new(config), validity, keeps_strangers_out }))
}

/// The validity of a chain. A server certificate that rustls does not accept is refused with an explanation.
fn validity(entry: &Entry<'_>, chain: &[CertificateDer<'_>]) -> Result<Validity, ConfigError> {
    let (mut begun, mut first) = (i64::MIN, i64::MAX);
    for (number, certificate) in chain.iter().enumerate() {
        let (_, parsed) = X509Certificate::from_der(certificate)
            .map_err(|error| entry.refuse(format!("holds a certificate that is none: {error}")))?;
        if number == 0 {
            check_own(entry, &parsed)?;
        }
        begun = begun.max(parsed.validity().not_before.timestamp());
        first = first.min(parsed.validity().not_after.timestamp());
    }
    Ok((begun, first))
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

fn versions(table: &Table<'_>, warnings: &mut Vec<String>) -> Result<Versions, ConfigError> {
    const BEFORE: &str = "TLS before 1.2 is not offered";
    let least = match table.get("min_version") {
        None => 12,
        Some(entry) => match &*entry.text()? {
            "TLS10" | "TLS11" => {
                warnings.push(entry.about(format!("{BEFORE}: taken as TLS12")));
                12
            }
            text => version(entry, text)?,
        },
    };
    let most = match table.get("max_version") {
        None => 13,
        Some(entry) => match &*entry.text()? {
            "TLS10" | "TLS11" => return Err(entry.refuse(format!("{BEFORE}: TLS12 or TLS13"))),
            text => version(entry, text)?,
        },
    };
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

fn version(entry: &Entry<'_>, text: &str) -> Result<u8, ConfigError> {
    match text {
        "TLS12" => Ok(12),
        "TLS13" => Ok(13),
        _ => Err(entry.refuse("must be TLS12 or TLS13")),
    }
}

/// The listed suites of TLS 1.2, in that order, after all suites of TLS 1.3.
fn cipher_suites(
    table: &Table<'_>,
    warnings: &mut Vec<String>,
) -> Result<Vec<SupportedCipherSuite>, ConfigError> {
    let all = ring::ALL_CIPHER_SUITES;
    let there_are: Vec<(String, SupportedCipherSuite)> =
        all.iter().map(|suite| (go_name(*suite), *suite)).collect();
    let Some(list) = table.get("cipher_suites") else { return Ok(all.to_vec()) };
    let before = warnings.len();
    let named = chosen(list, &there_are, &NOT_OFFERED, warnings)?;
    let of_12 = |suite: &SupportedCipherSuite| suite.tls13().is_none();
    if !named.iter().any(of_12) && warnings.len() == before {
        // An empty list means the default suites; suites of TLS 1.3 alone choose nothing.
        return Ok(all.to_vec());
    }
    let always = all.iter().copied().filter(|suite| !of_12(suite));
    Ok(always.chain(named.into_iter().filter(of_12)).collect())
}

/// A suite's name in Go, which is its registered name.
fn go_name(suite: SupportedCipherSuite) -> String {
    let name = format!("{:?}", suite.suite());
    name.replacen("TLS13_", "TLS_", 1)
}

fn curves(
    table: &Table<'_>,
    warnings: &mut Vec<String>,
) -> Result<Vec<&'static dyn SupportedKxGroup>, ConfigError> {
    let there_are = known_curves().map(|(name, curve)| (name.to_owned(), curve));
    let named = match table.get("curve_preferences") {
        None => Vec::new(),
        Some(list) => chosen(list, &there_are, &[P521], warnings)?,
    };
    Ok(if named.is_empty() { ring::ALL_KX_GROUPS.to_vec() } else { named })
}

/// The supported items that a list names, each once. Items that only Prometheus has are left out
/// with a warning. Unknown names are refused, and so is a list without any supported item.
fn chosen<T: Copy>(
    list: &Entry<'_>,
    there_are: &[(String, T)],
    not_offered: &[&str],
    warnings: &mut Vec<String>,
) -> Result<Vec<T>, ConfigError> {
    let all = || there_are.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
    let (mut chosen, mut left_out) = (Vec::new(), Vec::new());
    for entry in list.list()? {
        let wanted = entry.text()?;
        match there_are.iter().position(|(name, _)| *name == wanted) {
            Some(known) if !chosen.contains(&known) => chosen.push(known),
            Some(_) => {}
            None if not_offered.contains(&&*wanted) => left_out.push(entry),
            None => {
                return Err(entry.refuse(format!("{wanted:?} is not known; there are {}", all())));
            }
        }
    }
    if let (true, Some(entry)) = (chosen.is_empty(), left_out.first()) {
        let name = entry.text()?;
        let why =
            format!("{name:?} is not offered, nor is another of the list; there are {}", all());
        return Err(entry.refuse(why));
    }
    for entry in left_out {
        warnings.push(entry.about(format!("{:?} is not offered, and left out", entry.text()?)));
    }
    Ok(chosen.into_iter().map(|known| there_are[known].1).collect())
}
