//! promkairos: a Prometheus remote-storage adapter over the KairosDB Cassandra schema, or over an
//! embedded store.
//!
//! ```text
//! main -> cli -> server -> api -> storage -> { kairos, chunk, wire } -> model
//! ```
//!
//! Modules in reading order: [`model`] is the vocabulary; [`chunk`], [`wire`] and [`kairos`] are
//! pure bytes; [`storage`] is the [`storage::Store`] trait and the stores behind it; [`api`] is
//! HTTP; [`server`] puts it together. [`limits`], [`telemetry`] and [`config`] are leaves.

pub mod api;
pub mod chunk;
pub mod cli;
pub mod config;
pub mod kairos;
pub mod limits;
pub mod model;
pub mod server;
pub mod storage;
pub mod telemetry;
pub mod wire;
