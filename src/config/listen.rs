//! Validates the addresses to listen on: refuses what can never be bound. Whether an address is free, and
//! belongs to this machine, is known only when it is bound.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use clap::ArgMatches;

use super::error::ConfigError;
use super::raw::Raw;

/// Lets protocols without a login listen on addresses that other machines reach.
const WITHOUT_LOGIN: &str = "allow-listen-without-login";

/// The address of a server with these settings, for its clients; no other setting is read.
pub fn listen_address(matches: &ArgMatches) -> Result<String, ConfigError> {
    listen(&Raw::gather(matches)?)
}

pub(super) fn listen(raw: &Raw) -> Result<String, ConfigError> {
    raw.parsed("listen", |text| check(text).map(|()| text.to_owned()))
}

/// The address of KairosDB's API; `None` = no address of its own.
pub(super) fn kairosdb(raw: &Raw) -> Result<Option<String>, ConfigError> {
    optional(raw, "kairosdb-listen")
}

/// The address of KairosDB's telnet protocol, which has no login: an address of this machine alone unless a setting
/// allows others.
pub(super) fn kairosdb_telnet(raw: &Raw) -> Result<Option<String>, ConfigError> {
    const NAME: &str = "kairosdb-telnet-listen";
    let address = optional(raw, NAME)?;
    let allows_others = raw.switch(WITHOUT_LOGIN)?;
    match address.as_deref() {
        Some(text) if !allows_others && !is_local(text) => {
            let why = format!(
                "the protocol has no login: anyone who reaches {text} may write; --{WITHOUT_LOGIN} allows that"
            );
            Err(raw.refuse(NAME, why))
        }
        _ => Ok(address),
    }
}

fn optional(raw: &Raw, name: &'static str) -> Result<Option<String>, ConfigError> {
    let check = |text: &str| check(text).map(|()| text.to_owned());
    raw.get(name).map(|_| raw.parsed(name, check)).transpose()
}

/// Whether an address `host:port` is of this machine alone. Of names only `localhost` is.
pub fn is_local(listen: &str) -> bool {
    let host = listen.rsplit_once(':').map_or(listen, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

fn check(text: &str) -> Result<(), String> {
    const FORM: &str = "must be HOST:PORT, such as 127.0.0.1:9201";
    const PORT: &str = "the port must be between 0 and 65535";
    let (host, port) = text.rsplit_once(':').ok_or(FORM)?;
    let wrong = if port.contains('/') { FORM } else { PORT };
    let port: u16 = port.parse().map_err(|_| wrong)?;
    let address = match text.parse::<SocketAddr>() {
        Ok(SocketAddr::V6(address)) if address.scope_id() == 0 => Some(*address.ip()),
        Ok(_) => return Ok(()),
        Err(_) => host.parse::<Ipv6Addr>().ok(),
    };
    match address {
        Some(address) if address.is_unicast_link_local() => {
            let form = format!("{address}%eth0:{port}");
            return Err(format!("the link-local address {address} needs its interface: {form}"));
        }
        Some(_) => return Ok(()),
        None => {}
    }
    if host.is_empty() {
        return Err(format!("the host is missing; 0.0.0.0:{port} is every address"));
    }
    if text.contains(',') {
        return Err("must be one address: HOST:PORT".into());
    }
    if host.contains(|c: char| c.is_whitespace() || c.is_control() || "/@?#\\".contains(c)) {
        return Err(FORM.into());
    }
    // Only the system knows whether the zone of an address, such as fe80::1%eth0, exists.
    let address = host.split('%').next().unwrap_or_default();
    if host.starts_with('[') || host.contains(':') && address.parse::<Ipv6Addr>().is_err() {
        return Err(format!("{host} is no IPv6 address"));
    }
    match is_number(host) && !is_ipv4(host) {
        true => Err(format!("{host} is no IPv4 address")),
        false => Ok(()),
    }
}

/// Whether a host consists of numbers, which no host name does.
fn is_number(host: &str) -> bool {
    host.split('.').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether the numbers are an IPv4 address; the last may cover several bytes, as in 127.1.
fn is_ipv4(host: &str) -> bool {
    let parts: Vec<u64> = host.split('.').filter_map(|part| part.parse().ok()).collect();
    let count = host.split('.').count();
    let Some((last, others)) = parts.split_last().filter(|_| parts.len() == count && count <= 4)
    else {
        return false;
    };
    others.iter().all(|part| *part < 256) && *last < 1 << (8 * (5 - count))
}

#[cfg(test)]
mod tests {
    use super::super::testing::load;
    use super::*;

    #[test]
    fn a_protocol_without_a_login_is_local_unless_it_is_allowed() {
        let telnet = |flags: &[&str]| load(flags).map(|config| config.kairosdb_telnet_listen);
        assert_eq!(telnet(&[]).expect("valid"), None);
        for listen in
            ["127.0.0.1:4242", "127.8.8.8:1", "[::1]:1", "localhost:1", "[::ffff:127.0.0.1]:1"]
        {
            let flag = format!("--kairosdb-telnet-listen={listen}");
            assert_eq!(telnet(&[&flag]).expect("valid").as_deref(), Some(listen));
        }
        for listen in ["0.0.0.0:9201", "[::]:1", "10.0.0.7:1", "db.example:1", "[::ffff:1.2.3.4]:1"]
        {
            let flag = format!("--kairosdb-telnet-listen={listen}");
            let error = telnet(&[&flag]).expect_err("not local").to_string();
            assert!(error.ends_with("--allow-listen-without-login allows that"), "{error}");
            let allowed = telnet(&[&flag, "--allow-listen-without-login"]).expect("allowed");
            assert_eq!(allowed.as_deref(), Some(listen));
        }
    }

    #[test]
    fn what_can_never_be_bound_is_refused() {
        for good in [
            "127.0.0.1:9201",
            "0.0.0.0:0",
            "[::1]:80",
            "::1:80",
            "fe80::1%eth0:80",
            "[fe80::1%2]:80",
            "127.1:80",
            "localhost:1",
            "3com.example:1",
            "a:1",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (bad, why) in [
            ("9201", "must be HOST:PORT, such as 127.0.0.1:9201"),
            ("a:99999", "the port must be between 0 and 65535"),
            ("a:x", "the port must be between 0 and 65535"),
            ("http://a", "must be HOST:PORT, such as 127.0.0.1:9201"),
            ("http://a:1", "must be HOST:PORT, such as 127.0.0.1:9201"),
            ("a b:1", "must be HOST:PORT, such as 127.0.0.1:9201"),
            (":9201", "the host is missing; 0.0.0.0:9201 is every address"),
            ("a:1,b:2", "must be one address: HOST:PORT"),
            ("300.0.0.1:1", "300.0.0.1 is no IPv4 address"),
            ("1.2.3.4.5:1", "1.2.3.4.5 is no IPv4 address"),
            ("127.16777216:1", "127.16777216 is no IPv4 address"),
            ("[::g]:1", "[::g] is no IPv6 address"),
            ("1:2:1", "1:2 is no IPv6 address"),
            ("[fe80::1]:80", "the link-local address fe80::1 needs its interface: fe80::1%eth0:80"),
            ("febf::1:80", "the link-local address febf::1 needs its interface: febf::1%eth0:80"),
        ] {
            assert_eq!(check(bad).expect_err(bad), why, "{bad}");
        }
    }
}
