//! What every way in shares: from the bytes of a request to [`Store::write`], with all limits and metrics.
//!
//! ```text
//! body -> admission -> parser -> WriteBatch -> request limits -> series limiter -> metadata limit -> Store::write
//! ```
//!
//! A protocol is one [`Parser`], one renderer of [`WriteOutcome`] and [`Refusal`], and one route: see [`Pipeline`].
//! Nothing here knows HTTP.
//!
//! [`Store::write`]: promkairos_storage::Store::write
//! [`WriteOutcome`]: promkairos_model::WriteOutcome

mod active;
mod families;
mod ingest_limits;
mod intake;
mod limiter_warmup;
mod parser;
mod pipeline;
mod rate;
mod refusal;
mod series_limiter;
mod settings;
mod throttled_log;

pub use intake::{IncomingBody, Intake, ReceivedBody, Room, run_long};
pub use parser::{EXPANSION, ParseError, Parser, Scratch, Within};
pub use pipeline::Pipeline;
pub use refusal::{BODY_SIZE, DECODED_SIZE, Refusal};
pub use series_limiter::is_series_limit;
pub use settings::{SeriesAnswer, WriteLimits};
