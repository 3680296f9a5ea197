//! The engine: takes a query, waits for its turn, plans it, opens its selections, evaluates it.
//!
//! Selections are opened before anything is evaluated; evaluation runs on threads that may block
//! and waits for nothing but reads of these selections. A query whose future is dropped is
//! canceled.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::timeout_at;
use tracing::{Instrument, Span, info_span};

use super::ast::Expr;
use super::budget::{Budget, Held};
use super::collect::collect;
use super::context::Context;
use super::counts::{Counting, SampleCounts};
use super::error::{EVALUATION, QUEUE, QueryError, TimeLimit, joined};
use super::operators::build::{Builder, Scope};
use super::patterns::Patience;
use super::plan::{Node, Plan, Query, plan};
use super::settings::{MAX_DEPTH, MAX_QUEUE, Settings};
use super::source::select_all;
use super::steps::Steps;
use super::unsent::{Room, Unsent};
use super::value::{QueryResult, QueryValue, Stats};
use super::value_type::ValueType;
use crate::model::sorted_by_labels;
use crate::storage::Store;

/// Evaluates queries.
pub struct Engine {
    settings: Settings,
    turns: Arc<Semaphore>,
    waiting: AtomicUsize,
    unsent: Unsent,
}

/// What one query may set for itself.
#[derive(Debug, Clone, Default)]
pub struct QueryOptions {
    /// How long it may take; not longer than the setting says.
    pub timeout: Option<Duration>,
    /// How long a point counts as the newest one of its series.
    pub lookback: Option<Duration>,
    /// How its samples are counted.
    pub counting: Counting,
    /// Where it says what it cost, whatever becomes of it.
    pub cost: Arc<Cost>,
    /// When its time began, where that is not when it is given to the engine.
    pub began: Option<Instant>,
}

/// What a query has cost, known when it has ended. One that failed may still count a little more.
#[derive(Debug, Default)]
pub struct Cost {
    read: AtomicU64,
    queryable: AtomicU64,
    /// Nanoseconds.
    queued: AtomicU64,
}

impl Cost {
    /// Points read from the store.
    pub fn samples_read(&self) -> u64 {
        self.read.load(Relaxed)
    }

    /// Points that its steps saw.
    pub fn queryable_samples(&self) -> u64 {
        self.queryable.load(Relaxed)
    }

    /// How long it waited for its turn.
    pub fn queued(&self) -> Duration {
        Duration::from_nanos(self.queued.load(Relaxed))
    }

    fn set(&self, counts: &SampleCounts, queued: Duration) {
        self.queued.store(u64::try_from(queued.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        self.read.store(counts.read(), Relaxed);
        self.queryable.store(counts.queryable(), Relaxed);
    }
}

/// When a query is evaluated.
#[derive(Debug, Clone, Copy)]
enum When {
    Instant,
    Range,
}

impl Engine {
    /// An engine with these settings.
    pub fn new(settings: Settings) -> Self {
        let most = settings.max_concurrent.clamp(1, Semaphore::MAX_PERMITS);
        let turns = Arc::new(Semaphore::new(most));
        let unsent = Unsent::new(&settings);
        Self { settings, turns, waiting: AtomicUsize::new(0), unsent }
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether a result waits for room that others hold.
    pub fn wants_room(&self) -> bool {
        self.unsent.is_wanted()
    }

    /// Evaluates `expr` at `time`, in milliseconds.
    pub async fn instant(
        &self,
        store: Arc<dyn Store>,
        expr: &Expr,
        time: i64,
        options: &QueryOptions,
    ) -> Result<QueryResult, QueryError> {
        let query = self.query(Steps::instant(time), 0, options);
        self.run(store, expr, query, When::Instant, options).await
    }

    /// Evaluates `expr` at these steps.
    pub async fn range(
        &self,
        store: Arc<dyn Store>,
        expr: &Expr,
        steps: Steps,
        options: &QueryOptions,
    ) -> Result<QueryResult, QueryError> {
        let kind = expr.value_type();
        if !matches!(kind, ValueType::Vector | ValueType::Scalar) {
            return Err(QueryError::Invalid(format!(
                "invalid expression type \"{}\" for range query, must be Scalar or instant Vector",
                kind.documented()
            )));
        }
        if steps.interval <= 0 {
            return Err(QueryError::Invalid(
                "zero or negative query resolution step widths are not accepted. Try a positive \
                 integer"
                    .to_owned(),
            ));
        }
        let query = self.query(steps, steps.interval, options);
        self.run(store, expr, query, When::Range, options).await
    }

    /// For what is as a query: holds nothing yet of a budget of its own.
    pub(crate) fn nothing(&self) -> Held {
        Budget::new(&self.settings).nothing()
    }

    /// How long a query may take, patterns that have to be compiled included.
    pub fn patience(&self, options: &QueryOptions) -> Patience {
        let most = self.settings.timeout;
        let limit = options.timeout.unwrap_or(most).min(most);
        Patience {
            began: options.began.unwrap_or_else(Instant::now),
            limit,
            of: if limit < most { TimeLimit::Request } else { TimeLimit::Setting },
            max_queue: self.settings.max_queue,
        }
    }

    fn query(&self, steps: Steps, interval: i64, options: &QueryOptions) -> Query {
        let lookback = options.lookback.filter(|lookback| !lookback.is_zero());
        Query {
            steps,
            interval,
            lookback: millis(lookback.unwrap_or(self.settings.lookback)),
            subquery_step: millis(self.settings.subquery_step).max(1),
        }
    }

    async fn run(
        &self,
        store: Arc<dyn Store>,
        expr: &Expr,
        query: Query,
        when: When,
        options: &QueryOptions,
    ) -> Result<QueryResult, QueryError> {
        let begin = options.began.unwrap_or_else(Instant::now);
        if depth(expr, self.settings.max_depth) > self.settings.max_depth {
            let what = format!(
                "expression is nested deeper than {}, which is the setting {MAX_DEPTH}",
                self.settings.max_depth
            );
            return Err(QueryError::Limit { what, setting: MAX_DEPTH });
        }
        let timeout = self.patience(options).limit;
        let counts = SampleCounts::new(options.counting, query.steps);
        let context = Context::new(&self.settings, query.lookback, counts, timeout, begin);
        let context = Arc::new(context);
        let guard = CancelOnDrop::new(Arc::clone(&context), Arc::clone(&options.cost), begin);
        let deadline = tokio::time::Instant::from_std(context.deadline());
        let mut place = QUEUE;
        let work = async {
            let _turn = self.turn().instrument(info_span!("wait")).await?;
            place = EVALUATION;
            let queued = begin.elapsed();
            let _ = guard.queued.set(queued);
            let Plan { root, selections } = plan(expr, &query)?;
            let selections = select_all(&*store, &selections, &context.budget);
            let selections = selections.instrument(info_span!("select")).await?;
            let preparation = begin.elapsed() - queued;
            let evaluation =
                Evaluation { selections, store, context: Arc::clone(&context), query, when };
            let kind = expr.value_type();
            let evaluated = evaluation.run(root, kind);
            let mut result = evaluated.instrument(info_span!("evaluate")).await?;
            result.room = self.unsent.room(&result.value, result.room.into_held()).await?;
            result.stats.queued = queued;
            result.stats.preparation = preparation;
            result.stats.total = begin.elapsed();
            Ok(result)
        };
        let result = timeout_at(deadline, work).await;
        let result = result.unwrap_or_else(|_| Err(context.late(place)));
        drop(guard);
        result.map_err(|error| error.after_waiting(options.cost.queued()))
    }

    /// Waits until the query may begin.
    async fn turn(&self) -> Result<tokio::sync::OwnedSemaphorePermit, QueryError> {
        if let Ok(turn) = Arc::clone(&self.turns).try_acquire_owned() {
            return Ok(turn);
        }
        let waiting = Waiting::new(&self.waiting);
        if waiting.before >= self.settings.max_queue {
            let most = self.settings.max_queue;
            let what = format!(
                "too many queries wait: more than {most}, which is the setting {MAX_QUEUE}"
            );
            return Err(QueryError::Busy { what, setting: MAX_QUEUE });
        }
        Arc::clone(&self.turns).acquire_owned().await.map_err(|_| QueryError::Canceled)
    }
}

/// Counts a query that waits.
struct Waiting<'a> {
    count: &'a AtomicUsize,
    before: usize,
}

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        Self { count, before: count.fetch_add(1, Relaxed) }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Relaxed);
    }
}

/// Cancels a query whose future is dropped, and says what it cost until then.
struct CancelOnDrop {
    context: Arc<Context>,
    cost: Arc<Cost>,
    begin: Instant,
    /// How long it waited; not there while it waits.
    queued: OnceLock<Duration>,
}

impl CancelOnDrop {
    fn new(context: Arc<Context>, cost: Arc<Cost>, begin: Instant) -> Self {
        Self { context, cost, begin, queued: OnceLock::new() }
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.context.cancel();
        let queued = self.queued.get_or_init(|| self.begin.elapsed());
        self.cost.set(&self.context.counts, *queued);
    }
}

/// A query that is planned and has its selections.
struct Evaluation {
    selections: Vec<Arc<super::source::Selected>>,
    store: Arc<dyn Store>,
    context: Arc<Context>,
    query: Query,
    when: When,
}

impl Evaluation {
    async fn run(self, root: Node, kind: ValueType) -> Result<QueryResult, QueryError> {
        let runtime = Handle::current();
        let (blocking, span) = (runtime.clone(), Span::current());
        let evaluate = move || span.in_scope(|| self.evaluate(&root, kind, blocking));
        joined(runtime.spawn_blocking(evaluate).await)
    }

    fn evaluate(
        self,
        root: &Node,
        kind: ValueType,
        runtime: Handle,
    ) -> Result<QueryResult, QueryError> {
        let begin = Instant::now();
        let steps = self.query.steps;
        let (context, selections) = (Arc::clone(&self.context), self.selections);
        let builder = Builder::new(selections, self.store, context, runtime);
        let scope = &Scope { steps, counted: self.context.counts.destination() };
        let (mut sorting, mut collected) = (Duration::ZERO, collect(&self.context));
        let value = match (root, self.when) {
            (Node::String(text), _) => QueryValue::String(steps.start, text.value.clone()),
            (Node::Range(range), _) => QueryValue::Matrix(collected.range(&builder, range, scope)?),
            (node, When::Range) => {
                let operator = builder.build(node, scope)?;
                let series = collected.matrix(operator, steps)?;
                let sort = Instant::now();
                let series = sorted_by_labels(series, |series| series.labels.as_ref());
                sorting = sort.elapsed();
                QueryValue::Matrix(series)
            }
            (node, When::Instant) => {
                let operator = builder.build(node, scope)?;
                if kind == ValueType::Scalar {
                    QueryValue::Scalar(steps.start, collected.scalar(operator)?)
                } else {
                    QueryValue::Vector(collected.vector(operator, steps.start)?)
                }
            }
        };
        // What was refused where nothing can fail.
        self.context.check()?;
        let room = Room::holding(collected.into_held());
        let counts = &self.context.counts;
        let stats = Stats {
            total_queryable_samples: counts.queryable(),
            samples_read: counts.read(),
            by_step: counts.by_step(),
            peak_samples: self.context.budget.peak_samples() as u64,
            evaluation: begin.elapsed(),
            sorting,
            ..Stats::default()
        };
        let annotations = self.context.take_annotations();
        Ok(QueryResult { value, annotations, stats, room })
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// How deep an expression is nested; no deeper than `most` is looked.
fn depth(expr: &Expr, most: usize) -> usize {
    if most == 0 {
        return 1;
    }
    1 + expr.children().into_iter().map(|child| depth(child, most - 1)).max().unwrap_or(0)
}
