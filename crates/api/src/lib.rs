//! The HTTP API: parsers and renderers of protocols.
//!
//! ```text
//! request -> layers of the router (head, rate, login, right, limits) -> handler -> store, query engine, ingest
//!         <- layers (headers, room in memory, compression)           <- handler <-
//! ```
//!
//! A handler decodes, calls and encodes; it decides nothing about samples. Start at [`router()`], which is made from
//! the table [`ROUTES`], over the [`AppState`] that all handlers share.
//!
//! Every route has a right in the table, or is marked `OPEN` there. Every answer that is held in memory has room in a
//! budget. The variant of an error decides the status, never its text.
//!
//! Absent here: connections, TLS and files. Whoever serves the router opens the store, reads the settings and passes
//! both to the state. This is the only user of prost.

mod access;
mod admin;
mod admission;
mod allowed_origins;
mod answer_room;
mod body;
mod cardinality;
mod clean_path;
mod concurrency;
mod config_yaml;
mod cors;
mod delete_preview;
mod encodings;
mod endpoints;
mod error;
mod escaping;
mod evaluator;
mod exemplars;
mod exposition;
mod features;
mod federate;
mod heads;
mod json;
mod kairosdb;
mod label_name;
mod labels;
mod matches;
mod metadata;
mod multipart;
mod openapi;
mod origin;
mod pages;
mod parameters;
mod parse_query;
mod patterns;
mod pieces;
pub mod proto;
mod query;
mod query_cost;
mod query_request;
mod query_result;
mod remote_read;
mod remote_write;
mod request_error;
mod request_limit;
mod response_budget;
mod route;
mod router;
mod routes;
mod selected;
mod settings;
mod slow;
mod state;
mod status;
mod tag_index;
mod time_param;
mod traced;
mod unsupported;
mod workers;
mod write_request;

pub use access::Login;
pub use access::settings::{RateLimit, Right, Rights, Token, TokenDigest, User, WebSettings};
pub use allowed_origins::AllowedOrigins;
pub use error::ApiError;
pub use heads::{LongQuery, RefusedHead, head_too_large, target_too_long};
pub use kairosdb::{KAIROSDB_ROUTES, TELNET_CONNECTION_BYTES, serve_telnet};
pub use pieces::BodyPieces;
pub use query_request::MAX_POINTS;
pub use request_limit::{SharedConnection, SpareConnection};
pub use response_budget::{AnswerTo, Taker};
pub use route::{Methods, Route};
pub use router::{kairosdb_router, router};
pub use routes::ROUTES;
pub use settings::{
    AdminApi, GlobalConfig, Language, LimitsConfig, ListLimits, QueryConfig, RequestMemory,
    TypeAndUnitLabels,
};
pub use state::{AppState, Reload};
pub use time_param::parse_time;
