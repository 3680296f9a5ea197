//! Passes changed settings to the running stores: retention, logins and certificates of Cassandra,
//! and the tags that are indexed.
//!
//! A store that is opened late gets the current settings, not those of the start. Settings that
//! need a restart are not handled here.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::cassandra;
use crate::config::{CassandraConfig, Cluster, Config, StoreConfig};
use crate::storage::StoreError;
use crate::storage::cassandra::{CassandraStore, Certificates, Credentials, Options};
use crate::storage::embedded::{Expired, Parts};

/// Passes settings to the running stores.
pub(super) struct RuntimeConfig {
    /// The last settings that were read.
    config: Mutex<Arc<Config>>,
    /// The logins by cluster; shared with the stores.
    logins: HashMap<Cluster, Credentials>,
    /// The certificates of connections by cluster; shared with the stores.
    certificates: HashMap<Cluster, Certificates>,
    /// The files of the embedded store, once they are open.
    parts: OnceLock<Arc<Parts>>,
    /// The cluster that is written to, once it is open.
    cassandra: OnceLock<Arc<CassandraStore>>,
}

impl RuntimeConfig {
    pub(super) fn new(config: &Config) -> Self {
        let login = |(cluster, config): (_, &CassandraConfig)| (cluster, credentials(config));
        let certificates = config.clusters().map(|(cluster, _)| (cluster, Certificates::default()));
        Self {
            config: Mutex::new(Arc::new(config.clone())),
            logins: config.clusters().map(login).collect(),
            certificates: certificates.collect(),
            parts: OnceLock::new(),
            cassandra: OnceLock::new(),
        }
    }

    /// Lets connections to a cluster use the current login and certificates, and follow changes.
    pub(super) fn follow(&self, cluster: &Cluster, options: &mut Options) {
        options.credentials = self.logins.get(cluster).cloned().unwrap_or_default();
        options.certificates = self.certificates.get(cluster).cloned().unwrap_or_default();
    }

    /// Passes settings to these files from now on.
    pub(super) fn open_parts(&self, parts: Arc<Parts>) {
        let parts = self.parts.get_or_init(|| parts);
        // Removed days are logged when they are gone.
        let _ = parts.set_retention(self.config.lock().retention.unwrap_or_default());
    }

    /// Passes settings to this store from now on. An error means that the settings are invalid.
    pub(super) fn open_cassandra(&self, store: Arc<CassandraStore>) -> Result<(), StoreError> {
        // Held, so that no other settings are applied meanwhile.
        let config = self.config.lock();
        tell(&store, &config)?;
        // A store that refuses its settings returns above, so the cell is set only once.
        let _ = self.cassandra.set(store);
        Ok(())
    }

    /// Applies new settings, and returns the days that are removed for a shorter retention. Settings
    /// that are refused change nothing.
    pub(super) fn take_over(&self, config: &Config) -> Result<Option<Expired>, StoreError> {
        let mut last = self.config.lock();
        if let Some(store) = self.cassandra.get() {
            tell(store, config)?;
        }
        for (cluster, config) in config.clusters() {
            if let (Some(certificates), Some(tls)) = (self.certificates.get(&cluster), &config.tls)
            {
                certificates.set(tls.connections.clone());
            }
            if let Some(credentials) = self.logins.get(&cluster) {
                set(credentials, config);
            }
        }
        let changed = self.parts.get().filter(|_| config.retention != last.retention);
        let expired =
            changed.and_then(|parts| parts.set_retention(config.retention.unwrap_or_default()));
        *last = Arc::new(config.clone());
        Ok(expired)
    }
}

/// Applies the settings of Cassandra that need no restart.
fn tell(store: &CassandraStore, config: &Config) -> Result<(), StoreError> {
    let StoreConfig::Cassandra { cassandra, .. } = &config.store else { return Ok(()) };
    let (ttl_seconds, ttl_by_metric) = cassandra::lifetimes(config, cassandra)?;
    store.set_lifetimes(ttl_seconds, &ttl_by_metric)?;
    store.configure_tag_index(cassandra.tag_index.metrics.clone());
    Ok(())
}

fn credentials(config: &CassandraConfig) -> Credentials {
    let credentials = Credentials::default();
    set(&credentials, config);
    credentials
}

fn set(credentials: &Credentials, config: &CassandraConfig) {
    let login = config.credentials.as_ref();
    credentials.set(login.map(|login| (&*login.username, login.password.reveal())));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    fn config(text: &str) -> Config {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("promkairos.toml");
        for password in ["one", "two"] {
            std::fs::write(folder.path().join(password), password).expect("written");
        }
        let text = text.replace("DIR", &folder.path().display().to_string());
        std::fs::write(&path, text).expect("written");
        let command = clap::Command::new("promkairos").args(config::arguments());
        let arguments = ["promkairos", "--store=cassandra", "--config"].map(Into::into);
        let arguments = arguments.into_iter().chain([path.into_os_string()]);
        let matches = command.try_get_matches_from(arguments).expect("known");
        Config::load(&matches).expect("valid")
    }

    #[test]
    fn each_cluster_has_its_own_login_which_clones_share() {
        let live = RuntimeConfig::new(&config(
            "cassandra_username = \"a\"\ncassandra_password_file = \"DIR/one\"\n\
             [[cassandra_read_clusters]]\nname = \"old\"\ncontact_points = [\"b:1\"]\n\
             username = \"b\"\npassword_file = \"DIR/two\"\n\
             [[cassandra_read_clusters]]\nname = \"open\"\ncontact_points = [\"c:1\"]\n",
        ));
        let old = Cluster::Read("old".into());
        let open = Cluster::Read("open".into());
        let logins = [Cluster::Write, old, open, Cluster::Metadata].map(|of| {
            let mut options = Options::default();
            live.follow(&of, &mut options);
            options.credentials
        });
        let users = || logins.each_ref().map(Credentials::user);
        let user = |name: &str| Some(name.to_owned());
        assert_eq!(users(), [user("a"), user("b"), None, None]);
        live.take_over(&config(
            "cassandra_username = \"c\"\ncassandra_password_file = \"DIR/two\"\n\
             [[cassandra_read_clusters]]\nname = \"old\"\ncontact_points = [\"b:1\"]\n\
             [[cassandra_read_clusters]]\nname = \"open\"\ncontact_points = [\"c:1\"]\n\
             username = \"d\"\npassword_file = \"DIR/two\"\n",
        ))
        .expect("taken over");
        assert_eq!(users(), [user("c"), None, user("d"), None]);
    }
}
