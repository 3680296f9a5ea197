//! promkairos: a Prometheus remote-storage adapter over the KairosDB Cassandra schema, or over an
//! embedded store.
//!
//! ```text
//! main -> cli -> server -> config -> api -> kairos-query, kairos-write -> kairos-json
//!                                    api -> promql, ingest -> storage -> chunk -> model
//!         cli -> copy                    -> promql
//!                          config, api   -> storage-cassandra
//!                storage-embedded, storage-cassandra -> storage, telemetry, { kairos, wire } -> model
//! ```
//!
//! [`cli`], [`config`], [`copy`] and [`server`] are modules of this crate. All other names are those of crates in
//! `crates/`. In reading order: [`model`] is the vocabulary; [`chunk`], [`wire`] and [`kairos`] are pure bytes;
//! [`storage`] is the [`storage::Store`] trait and the stores behind it; [`promql`] is the query language and its
//! evaluation, [`kairos_query`] that of KairosDB; [`ingest`] is what every way in shares; [`api`] is HTTP; [`server`]
//! puts it together; [`copy`] copies data from one store to another; [`cli`] is the command line. Others share
//! [`limits`], a part of [`model`]; [`config`], whose parts are passed down; and [`telemetry`]: log, metrics, traces.

pub mod cli;
pub mod config;
pub mod copy;
pub mod server;
pub mod storage;

pub use promkairos_api as api;
pub use promkairos_chunk as chunk;
pub use promkairos_ingest as ingest;
pub use promkairos_kairos as kairos;
pub use promkairos_kairos_query as kairos_query;
pub use promkairos_model::{self as model, limits};
pub use promkairos_promql as promql;
pub use promkairos_telemetry as telemetry;
pub use promkairos_wire as wire;
