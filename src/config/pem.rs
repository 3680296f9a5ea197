//! Parses certificates in PEM for the web configuration and the settings of Cassandra. Keys are
//! parsed where they are used.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// All certificates of a PEM, at least one; an error says why there is none.
pub(super) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err("holds no certificate in PEM".to_owned()),
        Err(why) => Err(why.to_string()),
    }
}
