//! Reads a request whose regular expressions may be costly to compile.
//!
//! The request is read once; if patterns are missing, they are compiled and it is read again: see
//! [`PatternSet`]. Short requests are read on the current thread, long ones on the workers.

use std::time::Instant;

use super::workers::Caller;
use super::{ApiError, AppState};
use promkairos_model::limits::{MAX_READ_PATTERN_BYTES, NO_SETTING};
use promkairos_model::{MatchOp, Matcher, PatternSet, ShownSize};
use promkairos_promql::{CompileDeadline, LimitSource, PatternRoom};

/// Most bytes of a request that is read on the current thread.
const SHORT: usize = 4 << 10;

/// The value, with the memory of its patterns, which has to live as long as they do.
pub(super) type Read<T> = (T, PatternRoom);

/// The deadline to compile the patterns of a request that starts now and has no timeout of its own.
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

/// The result of `read` on a request of `bytes` bytes. `read` may be called repeatedly.
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

/// Reads the matchers of a request that is not PromQL text.
pub(super) struct MatcherReader<'a> {
    /// Bytes of patterns so far.
    bytes: usize,
    /// Most bytes of one compiled pattern.
    share: usize,
    set: &'a mut PatternSet,
    caller: &'a Caller<'a>,
}

impl<'a> MatcherReader<'a> {
    /// A reader for a request with `count` regular expressions.
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
