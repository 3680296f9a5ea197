//! Warns of settings that let anyone who reaches the listener delete samples.

use crate::api::AdminApi;
use crate::config::{Config, is_local};

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
