//! Turns raw settings into one validated [`Config`]: the only reader of the environment and of settings
//! files.
//!
//! The tables in `settings` define the settings. `raw` holds each text and its origin, `readers` parse texts, each part
//! of the program has a file with its part of the result, and `root` makes the whole.

mod arguments;
mod bounds;
mod cassandra;
mod changes;
mod clusters;
mod digest;
mod environment;
mod error;
mod exposed;
mod file;
mod global;
mod http;
mod kairosdb_conf;
mod key_tables;
mod keys;
mod limits;
mod listen;
mod log;
mod memory;
mod pem;
mod queries;
mod raw;
mod read_cache;
mod readers;
mod root;
mod setting;
mod settings;
mod table;
mod tag_index;
#[cfg(test)]
mod testing;
mod traces;
mod ttl_by_metric;
mod units;
mod web;

pub use arguments::arguments;
pub use cassandra::{CassandraConfig, Credentials, ReadClusterConfig, TlsConfig};
pub use changes::changed;
pub use error::{ConfigError, Origin, Shown};
pub(crate) use file::read_secret;
pub use http::HttpConfig;
pub use kairosdb_conf::KairosDbConf;
pub use key_tables::key_tables;
pub use keys::{Key, KeyTable};
pub use limits::METADATA_COPIES;
pub use listen::{is_local, listen_address};
pub use memory::{MemoryConfig, available as memory_of_machine};
pub use raw::Said;
pub use read_cache::{FIRST_CACHE_AGE, ReadCacheConfig};
pub use root::{Ack, Cluster, Config, HeadConfig, StoreConfig};
pub use setting::{Form, Group, Setting};
pub use settings::{GROUPS, SETTINGS, is_live};
pub use traces::parse_trace_headers;
pub use units::{UnitError, parse_duration, parse_size};
pub use web::{WebConfig, certificate_names};
