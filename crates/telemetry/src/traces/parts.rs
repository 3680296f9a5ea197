//! Decides which spans are made: spans that begin a trace, and spans inside a trace.
//!
//! A span outside a traced request or flush is not made at all. A trace has only the first
//! statements to Cassandra: their number may be the number of series read.

use std::sync::atomic::{AtomicUsize, Ordering};

use opentelemetry::Context;
use opentelemetry::trace::TraceContextExt;
use tracing::Metadata;
use tracing::subscriber::Interest;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context as LayerContext, Filter};

/// Prefix of the targets of this program's events and spans.
pub(crate) const OURS: &str = "promkairos";
/// The name of the span of a statement to Cassandra.
pub const CASSANDRA_STATEMENT: &str = "cassandra statement";

/// Spans that begin a trace.
const ROOTS: [&str; 2] = ["request", "flush"];

/// Most statements that have a span in one trace.
const MOST_STATEMENTS: usize = 64;

/// Whether it describes a span of this program, whose spans are only for traces.
pub(crate) fn is_span_of_ours(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && metadata.target().starts_with(OURS)
}

/// Number of statements of a trace so far, in the context of each of its spans.
#[derive(Debug, Default)]
pub(super) struct Statements(AtomicUsize);

impl Statements {
    /// Whether one more statement gets a span.
    fn take(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) < MOST_STATEMENTS
    }
}

/// The filter for spans of traces.
pub(super) struct Parts;

impl<S> Filter<S> for Parts {
    fn enabled(&self, metadata: &Metadata<'_>, _: &LayerContext<'_, S>) -> bool {
        is_span_of_ours(metadata) && (ROOTS.contains(&metadata.name()) || is_part(metadata.name()))
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        match is_span_of_ours(metadata) {
            true => Interest::sometimes(),
            false => Interest::never(),
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::INFO)
    }
}

/// Whether a span of this name, made now, would be part of a trace.
fn is_part(name: &str) -> bool {
    Context::map_current(|context| {
        let has_room = || context.get::<Statements>().is_some_and(Statements::take);
        context.has_active_span() && (name != CASSANDRA_STATEMENT || has_room())
    })
}
