//! The two places of `promkairos copy`: from an argument of the command line to an open side.
//!
//! A folder that a server has open is never read beside it: only the server knows the data in its memory.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::config::{CassandraConfig, Config};
use crate::copy::{Endpoint, Remote, Starts, StoreEndpoint};
use crate::limits::LEAST_RETRY;
use crate::model::TimeLimits;
use crate::server::{EmbeddedFolder, Purpose, ServerError, open_cassandra, open_embedded};
use crate::storage::cassandra::{LeftOut, Role};
use crate::storage::{SharedStore, StoreError};

use crate::cli::client::{Access, NO_LOGIN, has_login, is_url};
use crate::cli::error::CliError;

/// A place as the argument names it.
pub(super) struct EndpointName {
    name: String,
    kind: Kind,
}

enum Kind {
    Embedded(PathBuf),
    Cassandra(Box<CassandraConfig>),
    Server(Access),
}

/// The role of a place in a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rank {
    /// It is read.
    Source,
    /// It is written to.
    Target,
    /// It is compared with the source, and only read.
    Compared,
}

impl EndpointName {
    /// The error about a place with a login, without repeating it; `None` = it has none.
    pub(super) fn login(text: &str) -> Option<&'static str> {
        match text {
            folder if folder.starts_with("embedded:") => None,
            hosts if hosts.starts_with("cassandra:") && has_login(hosts) => Some(
                "no user and no password may stand in a place: --cassandra-username and \
                 --cassandra-password-file log in",
            ),
            url => has_login(url).then_some(NO_LOGIN),
        }
    }

    /// Parses the place in `text`. Settings of Cassandra that it does not give come from
    /// `cassandra`, the login at a server from `access`.
    pub(super) fn parse(
        text: &str,
        cassandra: &CassandraConfig,
        access: &Access,
        rank: Rank,
    ) -> Result<Self, String> {
        let kind = if let Some(folder) = text.strip_prefix("embedded:").filter(|f| !f.is_empty()) {
            Kind::Embedded(folder.into())
        } else if let Some((hosts, keyspace)) =
            text.strip_prefix("cassandra:").and_then(|rest| rest.rsplit_once('/'))
        {
            Kind::Cassandra(Box::new(cassandra.elsewhere(hosts, keyspace)?))
        } else if rank == Rank::Source && is_url(text) {
            Kind::Server(access.clone())
        } else {
            return Err(match rank {
                Rank::Source => {
                    "must be embedded:DIR, cassandra:HOSTS/KEYSPACE or http://HOST:PORT".into()
                }
                Rank::Target | Rank::Compared => {
                    "must be embedded:DIR or cassandra:HOSTS/KEYSPACE".into()
                }
            });
        };
        Ok(Self { name: text.to_owned(), kind })
    }

    /// Whether it is a running server.
    pub(super) fn is_server(&self) -> bool {
        matches!(self.kind, Kind::Server(_))
    }

    /// The allowed times of samples there.
    pub(super) fn sample_times(&self, config: &Config) -> TimeLimits {
        let is_embedded = matches!(self.kind, Kind::Embedded(_));
        let retention = config.retention.filter(|_| is_embedded);
        TimeLimits { retention, ..config.limits.writes.sample_times }
    }

    /// Whether both are the same folder, under any path.
    pub(super) fn is_same_folder(&self, other: &Self) -> bool {
        let (Kind::Embedded(one), Kind::Embedded(other)) = (&self.kind, &other.kind) else {
            return false;
        };
        one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
    }

    /// Opens it. Retries for `patience` if a cluster is unavailable.
    pub(super) async fn open(
        &self,
        config: &Config,
        patience: Duration,
        rank: Rank,
    ) -> Result<Opened, CliError> {
        let left_out = Arc::<LeftOut>::default();
        let (store, starts, folder) = match &self.kind {
            Kind::Server(Access { tls, authorization }) => {
                let remote = Remote::new(&self.name, tls.clone(), authorization.clone());
                let side = Endpoint::Remote(remote);
                return Ok(Opened { side, left_out: None, _folder: None });
            }
            Kind::Embedded(folder) => {
                let purpose = match rank {
                    Rank::Source | Rank::Compared => Purpose::Reading,
                    Rank::Target => Purpose::Writing,
                };
                let opened = open_embedded(config, folder, purpose).await;
                let opened = opened.map_err(|error| Self::not_opened(error, rank))?;
                (opened.store.clone(), Starts::All, Some(opened))
            }
            Kind::Cassandra(cassandra) => {
                let store =
                    self.open_keyspace(config, cassandra, patience, (rank, &left_out)).await?;
                (store, Starts::Histograms, None)
            }
        };
        let side = Endpoint::Store(StoreEndpoint { name: self.name.clone(), store, starts });
        Ok(Opened { side, left_out: Some(left_out), _folder: folder })
    }

    async fn open_keyspace(
        &self,
        config: &Config,
        cassandra: &CassandraConfig,
        patience: Duration,
        (rank, left_out): (Rank, &Arc<LeftOut>),
    ) -> Result<SharedStore, CliError> {
        let role = match rank {
            Rank::Source | Rank::Compared => Role::Read,
            Rank::Target => Role::Write,
        };
        let begun = Instant::now();
        loop {
            match open_cassandra(config, cassandra, role, left_out.clone()).await {
                Err(StoreError::Unavailable { what, .. }) if begun.elapsed() < patience => {
                    tracing::warn!("{}: tried again: {what}", self.name);
                    tokio::time::sleep(LEAST_RETRY * 5).await;
                }
                opened => {
                    return opened.map_err(|error| CliError::of_store(&self.name, &error));
                }
            }
        }
    }

    /// The error if a server has the folder open.
    fn not_opened(error: ServerError, rank: Rank) -> CliError {
        match (&error, rank) {
            (ServerError::Locked { .. }, Rank::Source) => CliError::Command(format!(
                "{error}; copy from it while it runs: --from http://HOST:PORT or https://HOST:PORT, the \
                 address at which that server listens"
            )),
            (ServerError::Locked { .. }, Rank::Target) => CliError::Command(format!(
                "{error}; end that one first, or copy into another folder"
            )),
            (ServerError::Locked { .. }, Rank::Compared) => {
                CliError::Command(format!("{error}; end that one first"))
            }
            _ => CliError::Server(error),
        }
    }
}

/// An open place.
pub(super) struct Opened {
    pub(super) side: Endpoint,
    /// Counts data read there that promkairos cannot represent; `None` for a running server.
    pub(super) left_out: Option<Arc<LeftOut>>,
    /// Its lock.
    _folder: Option<EmbeddedFolder>,
}

impl Opened {
    /// Closes it.
    pub(super) async fn close(self) -> Result<(), CliError> {
        let Endpoint::Store(StoreEndpoint { name, store, .. }) = &self.side else { return Ok(()) };
        let closed = store.close().await;
        closed.map_err(|error| CliError::Command(format!("{name}: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::client::access_arguments;
    use crate::config::arguments;

    #[test]
    fn places() {
        let command = clap::Command::new("copy").args(arguments()).args(access_arguments());
        let matches = command.get_matches_from(["copy", "--cassandra-compression=lz4"]);
        let cassandra = CassandraConfig::load(&matches).expect("valid");
        let access = Access::of(&matches).expect("nothing is said");
        let parse = |text: &str, rank| {
            EndpointName::parse(text, &cassandra, &access, rank).map(|place| place.kind)
        };
        let Ok(Kind::Cassandra(there)) = parse("cassandra:a,b:1,/k", Rank::Target) else {
            panic!("not a keyspace");
        };
        assert_eq!(
            (there.contact_points, &*there.keyspace),
            (vec!["a:9042".into(), "b:1".into()], "k")
        );
        assert_eq!(there.compression, cassandra.compression);
        let Ok(Kind::Embedded(folder)) = parse("embedded:./a:b", Rank::Source) else {
            panic!("not a folder");
        };
        assert_eq!(folder, PathBuf::from("./a:b"));
        assert!(matches!(parse("http://a:9201", Rank::Source), Ok(Kind::Server(_))));
        for bad in
            ["", "embedded:", "data", "cassandra:a", "cassandra:/k", "cassandra:a/1", "http:a"]
        {
            assert!(parse(bad, Rank::Source).is_err(), "{bad}");
        }
        for login in ["http://u:p@a:1", "u:p@a:1", "cassandra:u:p@a/k"] {
            assert!(
                EndpointName::login(login).is_some_and(|why| why.contains("-password-file")),
                "{login}"
            );
        }
        for place in ["embedded:a@b", "cassandra:a/k", "http://a:1"] {
            assert_eq!(EndpointName::login(place), None, "{place}");
        }
        let error = parse("http://a:9201", Rank::Target).err();
        assert_eq!(error.as_deref(), Some("must be embedded:DIR or cassandra:HOSTS/KEYSPACE"));
    }
}
