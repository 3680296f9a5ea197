//! Compiles the costly regular expressions of requests: a few at a time, on blocking threads, within the deadline of
//! the request and a memory limit.
//!
//! Requests whose patterns are cheap or cached do not come here (see [`PatternSet`]). The form of a request is not
//! known here.

use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use regex::Regex;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio::time::timeout_at;

use super::budget::Held;
use super::error::{COMPILING, LimitSource, QueryError, joined};
use super::queue::Queue;
use super::setting_names::TIMEOUT;
use promkairos_model::limits::{MAX_REGEX_BYTES, MAX_REQUEST_REGEX_BYTES};
use promkairos_model::{
    CHEAP_BYTES, CHEAP_TEXT, Missing, PatternCache, PatternSet, RegexError, anchored_re2,
    compiled_bytes,
};
use promkairos_storage::{MEMORY_LIMIT, Permit, Permits};

/// The unit of `room`, in bytes.
const UNIT: usize = 1 << 10;
/// Memory for parsing and compiling a pattern, as a multiple of the size of its text.
const READING: usize = 100;

/// Compiles the regular expressions of all requests.
#[derive(Debug)]
pub struct RegexCompiler {
    cache: Arc<PatternCache>,
    /// Most bytes of the compiled patterns of a request.
    most_bytes: usize,
    /// Memory for compiled patterns that are not cached, until their requests end.
    room: Permits,
    /// Permits for half of the processors; the other half is left to other work.
    permits: Permits,
    waiting: Queue,
}

/// The deadline for compiling the patterns of a request, and the limit of the queue.
#[derive(Debug, Clone, Copy)]
pub struct CompileDeadline {
    /// When the request began.
    pub began: Instant,
    /// How long the request may take.
    pub limit: Duration,
    /// The source of that limit.
    pub of: LimitSource,
    /// Most requests that may wait.
    pub max_queue: usize,
}

impl CompileDeadline {
    fn end(&self) -> tokio::time::Instant {
        tokio::time::Instant::from_std(self.began + self.limit)
    }

    fn late(&self) -> QueryError {
        QueryError::TimedOut { place: COMPILING, limit: self.limit, of: self.of }
    }

    /// The result of `work`, or a time-out. After a time-out `work` goes on.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, QueryError> + Send + 'static,
    ) -> Result<T, QueryError> {
        let done = timeout_at(self.end(), spawn_blocking(work)).await;
        done.map_or_else(|_| Err(self.late()), joined)
    }

    async fn wait(&self, permits: &Permits, count: usize) -> Result<Permit, QueryError> {
        permits.take(count, self.end()).await.map_err(|_| self.late())
    }
}

/// Memory of the patterns of a request; given back on drop.
#[derive(Debug, Default)]
pub struct PatternRoom {
    _taken: Vec<Permit>,
}

impl Default for RegexCompiler {
    /// With the largest limit, `MAX_REQUEST_REGEX_BYTES`.
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl PartialEq for RegexCompiler {
    /// Whether both are the same object.
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for RegexCompiler {}

impl RegexCompiler {
    /// `bytes` limits the patterns of all running requests together, and of a single request. The cache gets half of
    /// it.
    pub fn new(bytes: usize) -> Self {
        let most_bytes = bytes.clamp(UNIT, MAX_REQUEST_REGEX_BYTES);
        let processors = available_parallelism().map_or(1, NonZero::get);
        Self {
            cache: Arc::new(PatternCache::new(most_bytes / 2)),
            most_bytes,
            room: Permits::new(MEMORY_LIMIT, most_bytes / UNIT),
            permits: Permits::new(TIMEOUT, processors / 2),
            waiting: Queue::default(),
        }
    }

    /// A pattern set for a request.
    pub fn set(&self) -> PatternSet {
        PatternSet::new(&self.cache, self.most_bytes)
    }

    /// Compiles the missing patterns of a request.
    pub async fn compile(
        &self,
        mut set: PatternSet,
        missing: Vec<Missing>,
        deadline: &CompileDeadline,
    ) -> Result<(PatternSet, PatternRoom), QueryError> {
        self.check_texts(&missing)?;
        let until = " until their regular expressions are compiled";
        let waiting = self.waiting.join_within(deadline.max_queue, until)?;
        let permit = deadline.wait(&self.permits, 1).await?;
        let measured = missing.clone();
        let measure = move || {
            let _permit = permit;
            Ok(measured.iter().map(Missing::bytes).fold(0, usize::saturating_add))
        };
        let bytes: usize = deadline.run(measure).await?;
        let taken = deadline.wait(&self.room, (bytes / UNIT).max(1)).await?;
        let permit = deadline.wait(&self.permits, 1).await?;
        drop(waiting);
        // The caller may have gone; the permit is held until the compilation ends.
        let compile = move || {
            let _permit = permit;
            missing.iter().for_each(|one| set.compile(one));
            Ok((set, PatternRoom { _taken: vec![taken] }))
        };
        deadline.run(compile).await
    }

    /// Compiles a pattern with its groups, on the blocking thread of the caller. Its memory is added to `held`.
    pub(crate) fn groups(
        &self,
        pattern: &str,
        held: &mut Held,
        deadline: &CompileDeadline,
        runtime: &Handle,
    ) -> Result<Result<Regex, RegexError>, QueryError> {
        let most = self.most_bytes.min(MAX_REGEX_BYTES);
        let share = |regex: Result<Regex, RegexError>| regex.map_err(|e| e.among(self.most_bytes));
        let bytes = match pattern.len() <= CHEAP_TEXT {
            true => compiled_bytes(pattern).unwrap_or(0),
            false => usize::MAX,
        };
        if bytes <= CHEAP_BYTES {
            return Ok(share(anchored_re2(pattern, most)));
        }
        let _permit = runtime.block_on(deadline.wait(&self.permits, 1))?;
        let reading = pattern.len().saturating_mul(READING);
        held.take(0, compiled_bytes(pattern).unwrap_or(0).min(most).saturating_add(reading))?;
        let regex = share(anchored_re2(pattern, most));
        held.give(reading);
        Ok(regex)
    }

    /// Parsing takes memory that is not counted, so the length of all texts is limited.
    fn check_texts(&self, missing: &[Missing]) -> Result<(), QueryError> {
        let texts: usize = missing.iter().map(Missing::text_bytes).sum();
        let most = self.most_bytes * 2 / READING;
        if texts <= most {
            return Ok(());
        }
        let what = format!(
            "the regular expressions of the request have {texts} bytes of text; at most {most} bytes are allowed, \
             which follow from the setting {MEMORY_LIMIT}"
        );
        Err(QueryError::Limit { what, setting: MEMORY_LIMIT })
    }
}

impl PatternRoom {
    /// The memory of both.
    pub fn and(mut self, other: Self) -> Self {
        self._taken.extend(other._taken);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use promkairos_model::MatchOp;

    /// A pattern that is slow to compile: at most a second in a debug build.
    fn costly(number: usize) -> String {
        format!("{}{number}", "(a{1,9}b.*){1,9}".repeat(20))
    }

    fn deadline(limit: Duration, max_queue: usize) -> CompileDeadline {
        CompileDeadline {
            began: Instant::now(),
            limit,
            of: LimitSource::Setting("query-timeout"),
            max_queue,
        }
    }

    fn missing(compiler: &RegexCompiler, text: &str) -> (PatternSet, Vec<Missing>) {
        let mut set = compiler.set();
        let share = set.share(1);
        set.matcher(share, MatchOp::Regex, "l", text).expect("valid");
        let missing = set.take_missing();
        assert_eq!(missing.len(), 1);
        (set, missing)
    }

    #[tokio::test]
    async fn compiling_is_inside_the_time_and_the_queue() {
        let compiler = RegexCompiler::new(16 << 20);
        let taken = compiler.permits.try_take(compiler.permits.limit()).expect("all");
        let (set, texts) = missing(&compiler, &costly(1));
        let short = deadline(Duration::from_millis(5), 1);
        let error = compiler.compile(set, texts, &short).await.expect_err("no permit").to_string();
        let want = "query timed out in compiling of regular expressions: longer than 5ms, which is the setting \
                    query-timeout";
        assert_eq!(error, want);
        let (set, texts) = missing(&compiler, &costly(1));
        let long = deadline(Duration::from_secs(3600), 1);
        let mut waits = std::pin::pin!(compiler.compile(set, texts, &long));
        assert!(futures::poll!(waits.as_mut()).is_pending());
        let (set, texts) = missing(&compiler, &costly(2));
        let error = compiler.compile(set, texts, &long).await.expect_err("one waits").to_string();
        assert!(error.ends_with("more than 1, which is the setting query-max-queue"), "{error}");
        drop(taken);
        let (mut set, room) = waits.await.expect("it has a permit");
        let share = set.share(1);
        let matcher = set.matcher(share, MatchOp::Regex, "l", &costly(1)).expect("compiled");
        assert!(matcher.matches(&format!("{}1", "ab".repeat(20))));
        assert!(compiler.room.free() < compiler.most_bytes / UNIT);
        drop(room);
        assert_eq!(compiler.room.free(), compiler.most_bytes / UNIT);
        // The pattern is cached now.
        let mut set = compiler.set();
        set.matcher(share, MatchOp::Regex, "l", &costly(1)).expect("known");
        assert!(set.take_missing().is_empty());
    }

    #[tokio::test]
    async fn sizes_are_bounded_by_memory() {
        let compiler = RegexCompiler::new(1 << 20);
        let hour = deadline(Duration::from_secs(3600), 1);
        let text = "(a{1,9}b.*){1,9}".repeat(200);
        let (set, texts) = missing(&compiler, &text);
        let (mut set, _room) = compiler.compile(set, texts, &hour).await.expect("in time");
        let error = set.matcher(1 << 20, MatchOp::Regex, "l", &text).expect_err("too large");
        assert!(matches!(error, RegexError::TooLarge { most: 1_048_576, whole: 1_048_576 }));
        assert!(error.to_string().contains("setting memory-limit"), "{error}");
        let (set, texts) = missing(&compiler, &"a.*|".repeat(10_000));
        let error = compiler.compile(set, texts, &hour).await.expect_err("too long").to_string();
        assert!(error.contains("the setting memory-limit"), "{error}");
    }
}
