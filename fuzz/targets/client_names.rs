//! The names in client certificates: names that were signed are read unchanged; other bytes never
//! yield invented names.
use std::net::IpAddr;
use std::sync::LazyLock;

use promkairos::config::certificate_names;
use rcgen::{CertificateParams, KeyPair, SanType};

static KEY: LazyLock<KeyPair> = LazyLock::new(|| KeyPair::generate().expect("a key"));

/// A byte for the mode: 0 = the DER of a certificate, else lines with a name each, to make one.
pub(crate) fn check(data: &[u8]) {
    match data.split_first() {
        Some((0, der)) => check_der(der),
        Some((_, lines)) => check_signed(lines),
        None => {}
    }
}

fn check_der(der: &[u8]) {
    for name in certificate_names(der).unwrap_or_default() {
        let bytes = match name.parse::<IpAddr>() {
            Ok(IpAddr::V4(address)) => address.octets().to_vec(),
            Ok(IpAddr::V6(address)) => address.octets().to_vec(),
            Err(_) => Vec::new(),
        };
        let stands = |part: &[u8]| part.is_empty() || der.windows(part.len()).any(|at| at == part);
        let is_address = !bytes.is_empty() && stands(&bytes);
        assert!(is_address || stands(name.as_bytes()), "{name:?} is not in the certificate");
    }
}

/// Lines begin with a letter for the kind of the name: `d`ns, `e`-mail, `u`ri, `a`ddress.
fn check_signed(lines: &[u8]) {
    let Ok(lines) = str::from_utf8(lines) else { return };
    let mut params = CertificateParams::default();
    let mut want = Vec::new();
    for line in lines.lines().filter(|line| line.is_char_boundary(1)) {
        let (kind, name) = line.split_at(1);
        let ascii = name.try_into().ok();
        let signed = match kind {
            "d" => ascii.map(SanType::DnsName),
            "e" => ascii.map(SanType::Rfc822Name),
            "u" => ascii.map(SanType::URI),
            "a" => name.parse().ok().map(SanType::IpAddress),
            _ => None,
        };
        let Some(signed) = signed else { continue };
        want.push(match &signed {
            SanType::IpAddress(address) => address.to_string(),
            _ => name.to_owned(),
        });
        params.subject_alt_names.push(signed);
    }
    let certificate = params.self_signed(&*KEY).expect("signed");
    assert_eq!(certificate_names(certificate.der()), Some(want));
}
