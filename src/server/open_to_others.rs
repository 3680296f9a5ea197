//! Warns of settings that let anyone who reaches the listener delete samples.

use std::net::IpAddr;

use crate::api::AdminApi;
use crate::config::Config;

/// A warning if anyone who reaches the listener may delete samples: the admin API is enabled, no login is
/// required, and the listener is not local.
pub(super) fn open_admin_api(config: &Config) -> Option<String> {
    let asks = !config.web.is_open() || config.web.keeps_strangers_out;
    let is_open = config.admin_api == AdminApi::Enabled && !asks;
    let mut addresses =
        [Some(&config.listen), config.kairosdb_listen.as_ref()].into_iter().flatten();
    let address = addresses.find(|address| is_open && !is_local(address))?;
    Some(format!(
        "whoever reaches {address} may delete samples: --enable-admin-api is on, and there are no users, no tokens and \
         no certificates that clients have to show (docs/security.md)"
    ))
}

/// Whether an address `host:port` is local. Of names only `localhost` is.
fn is_local(listen: &str) -> bool {
    let host = listen.rsplit_once(':').map_or(listen, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_alone() {
        for listen in
            ["127.0.0.1:9201", "127.8.8.8:1", "[::1]:1", "localhost:1", "[::ffff:127.0.0.1]:1"]
        {
            assert!(is_local(listen), "{listen}");
        }
        for listen in ["0.0.0.0:9201", "[::]:1", "10.0.0.7:1", "db.example:1", "[::ffff:1.2.3.4]:1"]
        {
            assert!(!is_local(listen), "{listen}");
        }
    }
}
