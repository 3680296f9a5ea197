//! Reads a request whose regular expressions may be costly to compile.
//!
//! It is read at once, and where patterns are missing again when they are compiled: see [`PatternSet`]. Short
//! requests are read where they come, as nothing that takes long is done then; long ones by the workers.

use std::time::Instant;

use super::workers::Caller;
use super::{ApiError, AppState};
use crate::limits::{MAX_READ_PATTERN_BYTES, NO_SETTING};
use crate::model::{MatchOp, Matcher, PatternSet, ShownSize};
use crate::promql::{CompileDeadline, LimitSource, PatternRoom};

/// Bytes of a request that is read where it comes.
const SHORT: usize = 4 << 10;

/// What was read, and the memory of its patterns, to be kept as long as they are.
pub(super) type Read<T> = (T, PatternRoom);

/// Until when the patterns of a request have to be compiled that begins now and has no time of its own.
pub(super) fn compile_deadline(state: &AppState) -> CompileDeadline {
    let evaluator = state.evaluator();
    let settings = evaluator.engine.settings();
    let (limit, setting) = settings.longest();
    CompileDeadline {
        began: Instant::now(),
        limit,
        of: LimitSource::Setting(setting),
        max_queue: settings.max_queue,
    }
}

/// What `read` makes of a request of `bytes` bytes. `read` may be called twice.
pub(super) async fn read<T: Send + 'static>(
    state: &AppState,
    deadline: &CompileDeadline,
    bytes: usize,
    read: impl Fn(&mut PatternSet, &Caller<'_>) -> Result<T, ApiError> + Clone + Send + 'static,
) -> Result<Read<T>, ApiError> {
    let compiler = state.evaluator().engine.settings().regex_compiler.clone();
    let (mut set, mut room) = (compiler.set(), PatternRoom::default());
    loop {
        let read = read.clone();
        let once = move |caller: &Caller<'_>| {
            let found = read(&mut set, caller)?;
            Ok((found, set))
        };
        let (found, mut after) = match bytes <= SHORT {
            true => once(&Caller(&|| false))?,
            false => state.workers.run(once).await?,
        };
        let missing = after.take_missing();
        if missing.is_empty() {
            return Ok((found, room));
        }
        let (compiled, more) = compiler.compile(after, missing, deadline).await?;
        (set, room) = (compiled, room.and(more));
    }
}

/// Reads the matchers of a request that is no text of PromQL.
pub(super) struct MatcherReader<'a> {
    /// Bytes of patterns so far.
    bytes: usize,
    /// Bytes that each may compile to.
    share: usize,
    set: &'a mut PatternSet,
    caller: &'a Caller<'a>,
}

impl<'a> MatcherReader<'a> {
    /// For a request with `count` regular expressions.
    pub(super) fn new(count: usize, set: &'a mut PatternSet, caller: &'a Caller<'a>) -> Self {
        Self { bytes: 0, share: set.share(count), set, caller }
    }

    /// The next matcher.
    pub(super) fn matcher(
        &mut self,
        op: MatchOp,
        name: &str,
        value: &str,
    ) -> Result<Matcher, ApiError> {
        if matches!(op, MatchOp::Regex | MatchOp::NotRegex) {
            self.caller.check()?;
            self.bytes += value.len();
            if self.bytes > MAX_READ_PATTERN_BYTES {
                return Err(ApiError::BadRequest(format!(
                    "more than {} of regular expressions in a request; {NO_SETTING}",
                    ShownSize::of(MAX_READ_PATTERN_BYTES)
                )));
            }
        }
        let matcher = self.set.matcher(self.share, op, name, value);
        matcher.map_err(|error| ApiError::BadRequest(error.to_string()))
    }
}
