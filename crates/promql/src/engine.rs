//! The engine: waits for a permit, plans a query, opens its selections and evaluates it.
//!
//! All selections of the plan are opened before the evaluation. The evaluation runs on a blocking
//! thread; it waits only for the store and for permits to compile regular expressions. A query
//! whose future is dropped is canceled.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::time::timeout_at;
use tracing::{Instrument, Span, info_span};

use super::ast::Expr;
use super::budget::Held;
use super::collect::collect;
use super::context::Context;
use super::cost::{CostLimits, Limits};
use super::counts::{Counting, SampleCounts};
use super::error::{EVALUATION, QUEUE, QueryError, joined};
use super::estimate::{Estimate, estimate};
use super::operators::Scope;
use super::operators::build::Builder;
use super::plan::{Node, Plan, Query, plan};
use super::queue::Queue;
use super::regex_compiler::CompileDeadline;
use super::response_budget::{ResponseBudget, Room};
use super::setting_names::{MAX_CONCURRENCY, MAX_DEPTH};
use super::settings::{Settings, StartTimestamps};
use super::source::{Selected, select_all};
use super::steps::Steps;
use super::value::{QueryResult, QueryValue, Stats};
use super::value_type::ValueType;
use promkairos_model::sorted_by_labels;
use promkairos_storage::{Permit, Permits, Store};

/// Evaluates queries.
pub struct Engine {
    settings: Settings,
    permits: Permits,
    waiting: Queue,
    unsent: ResponseBudget,
}

/// Options of one query.
#[derive(Debug, Clone, Default)]
pub struct QueryOptions {
    /// Longest time; it can only lower the limit of the setting.
    pub timeout: Option<Duration>,
    /// The lookback delta; `None` or 0 = the setting.
    pub lookback: Option<Duration>,
    /// Whether start timestamps are used; `None` = the setting.
    pub start_timestamps: Option<StartTimestamps>,
    /// How its samples are counted.
    pub counting: Counting,
    /// Limits on its cost.
    pub limits: CostLimits,
    /// Whether its cost is estimated before it is evaluated.
    pub estimate: Estimating,
    /// Receives the cost of the query, even if the query fails.
    pub cost: Arc<Cost>,
    /// When its time began; `None` = when the engine receives it.
    pub began: Option<Instant>,
}

/// Whether the cost of a query is estimated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Estimating {
    /// No estimate.
    #[default]
    Off,
    /// Estimated before the query is evaluated.
    On,
}

/// The cost of a query, set when it ends. What a failed query still reads afterwards is not included.
#[derive(Debug, Default)]
pub struct Cost {
    read: AtomicU64,
    series: AtomicU64,
    queryable: AtomicU64,
    /// Nanoseconds in the queue.
    queued: AtomicU64,
}

impl Cost {
    /// Points read from the store.
    pub fn samples_read(&self) -> u64 {
        self.read.load(Relaxed)
    }

    /// Series that its selectors read, summed over the selectors.
    pub fn series_touched(&self) -> u64 {
        self.series.load(Relaxed)
    }

    /// Points seen at the steps; a point counts at every step that sees it.
    pub fn queryable_samples(&self) -> u64 {
        self.queryable.load(Relaxed)
    }

    /// Time in the queue.
    pub fn queued(&self) -> Duration {
        Duration::from_nanos(self.queued.load(Relaxed))
    }

    fn set(&self, counts: &SampleCounts, queued: Duration) {
        self.queued.store(u64::try_from(queued.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        self.read.store(counts.read(), Relaxed);
        self.series.store(counts.series(), Relaxed);
        self.queryable.store(counts.queryable(), Relaxed);
    }
}

/// The kind of a query.
#[derive(Debug, Clone, Copy)]
enum When {
    Instant,
    Range,
}

impl Engine {
    /// An engine with these settings.
    pub fn new(settings: Settings) -> Self {
        let permits = Permits::new(MAX_CONCURRENCY, settings.max_concurrent);
        let unsent = ResponseBudget::new(&settings);
        Self { settings, permits, waiting: Queue::default(), unsent }
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether a result waits for room that other results hold.
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
        check_range(expr, steps)?;
        let query = self.query(steps, steps.interval, options);
        self.run(store, expr, query, When::Range, options).await
    }

    /// A `Held` with a budget of its own, for work that is limited like a query.
    pub fn nothing(&self) -> Held {
        self.settings.budget().nothing()
    }

    /// The deadline for compiling the regular expressions of a query. Compiling counts as time of the query.
    pub fn compile_deadline(&self, options: &QueryOptions) -> CompileDeadline {
        let limits = Limits::new(&self.settings, options.timeout, &options.limits);
        CompileDeadline {
            began: options.began.unwrap_or_else(Instant::now),
            limit: limits.duration.most,
            of: limits.duration.of,
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

    /// Estimates the cost of evaluating `expr` at `time`.
    pub async fn estimate_instant(
        &self,
        store: Arc<dyn Store>,
        expr: &Expr,
        time: i64,
        options: &QueryOptions,
    ) -> Result<Estimate, QueryError> {
        self.estimate(store, expr, self.query(Steps::instant(time), 0, options), options).await
    }

    /// Estimates the cost of evaluating `expr` at these steps.
    pub async fn estimate_range(
        &self,
        store: Arc<dyn Store>,
        expr: &Expr,
        steps: Steps,
        options: &QueryOptions,
    ) -> Result<Estimate, QueryError> {
        check_range(expr, steps)?;
        self.estimate(store, expr, self.query(steps, steps.interval, options), options).await
    }

    async fn estimate(
        &self,
        store: Arc<dyn Store>,
        expr: &Expr,
        query: Query,
        options: &QueryOptions,
    ) -> Result<Estimate, QueryError> {
        let guard = self.begin(expr, &query, options)?;
        let work = async {
            let opened = self.open(&guard, &*store, expr, &query).await?;
            opened.estimate(&query, &guard.context).await
        };
        guard.in_time(work).await
    }

    async fn run(
        &self,
        store: Arc<dyn Store>,
        expr: &Expr,
        query: Query,
        when: When,
        options: &QueryOptions,
    ) -> Result<QueryResult, QueryError> {
        let guard = self.begin(expr, &query, options)?;
        let (context, begin) = (&guard.context, guard.begin);
        let work = async {
            let opened = self.open(&guard, &*store, expr, &query).await?;
            let (queued, preparation) = (guard.waited(), begin.elapsed() - guard.waited());
            let estimate = match options.estimate {
                Estimating::Off => None,
                Estimating::On => Some(opened.estimate(&query, context).await),
            };
            let Opened { root, selections, _permit } = opened;
            let context = Arc::clone(context);
            let evaluation = Evaluation { selections, store, context, query, when };
            let kind = expr.value_type();
            let evaluated = evaluation.run(root, kind);
            let mut result = evaluated.instrument(info_span!("evaluate")).await?;
            result.room = self.unsent.room(result.value.bytes(), result.room.into_held()).await?;
            result.stats.queued = queued;
            result.stats.preparation = preparation;
            result.stats.total = begin.elapsed();
            result.estimate = estimate;
            Ok(result)
        };
        guard.in_time(work).await
    }

    /// Begins a query. Fails if it is nested too deep.
    fn begin(
        &self,
        expr: &Expr,
        query: &Query,
        options: &QueryOptions,
    ) -> Result<CancelOnDrop, QueryError> {
        let begin = options.began.unwrap_or_else(Instant::now);
        if depth(expr, self.settings.max_depth) > self.settings.max_depth {
            let what = format!(
                "expression is nested deeper than {}, which is the setting {MAX_DEPTH}",
                self.settings.max_depth
            );
            return Err(QueryError::Limit { what, setting: MAX_DEPTH });
        }
        Ok(self.watched(query.steps, query.lookback, begin, options))
    }

    /// What a query with these steps shares, watched from `begin`.
    pub(super) fn watched(
        &self,
        steps: Steps,
        lookback: i64,
        begin: Instant,
        options: &QueryOptions,
    ) -> CancelOnDrop {
        let limits = Limits::new(&self.settings, options.timeout, &options.limits);
        let counts = SampleCounts::new(options.counting, steps);
        let mut context = Context::new(&self.settings, lookback, counts, limits, begin);
        context.start_timestamps =
            options.start_timestamps.unwrap_or(self.settings.start_timestamps);
        CancelOnDrop::new(Arc::new(context), Arc::clone(&options.cost), begin)
    }

    /// Waits for a permit, plans the query and opens its selections.
    async fn open(
        &self,
        guard: &CancelOnDrop,
        store: &dyn Store,
        expr: &Expr,
        query: &Query,
    ) -> Result<Opened, QueryError> {
        let permit = self.admit(guard).await?;
        let Plan { root, selections } = plan(expr, query)?;
        let selections = select_all(store, &selections, &guard.context.budget);
        let selections = selections.instrument(info_span!("select")).await?;
        Ok(Opened { root, selections, _permit: permit })
    }

    /// Waits for a permit to evaluate a query, and notes how long.
    pub(super) async fn admit(&self, guard: &CancelOnDrop) -> Result<Permit, QueryError> {
        let permit = self.permit(&guard.context).instrument(info_span!("wait")).await?;
        let _ = guard.queued.set(guard.begin.elapsed());
        Ok(permit)
    }

    async fn permit(&self, context: &Context) -> Result<Permit, QueryError> {
        if let Ok(permit) = self.permits.try_take(1) {
            return Ok(permit);
        }
        let _waiting = self.waiting.join_within(self.settings.max_queue, "")?;
        self.permits.take(1, context.deadline().into()).await.map_err(|_| context.late(QUEUE))
    }
}

/// Cancels the query and records its cost when its future is dropped.
pub(super) struct CancelOnDrop {
    pub(super) context: Arc<Context>,
    cost: Arc<Cost>,
    begin: Instant,
    /// Time in the queue; unset while the query waits.
    queued: OnceLock<Duration>,
}

impl CancelOnDrop {
    fn new(context: Arc<Context>, cost: Arc<Cost>, begin: Instant) -> Self {
        Self { context, cost, begin, queued: OnceLock::new() }
    }

    /// Time in the queue of a query that has its permit.
    fn waited(&self) -> Duration {
        self.queued.get().copied().unwrap_or_default()
    }

    /// The result of `work`, or a time-out.
    pub(super) async fn in_time<T>(
        &self,
        work: impl Future<Output = Result<T, QueryError>>,
    ) -> Result<T, QueryError> {
        let deadline = tokio::time::Instant::from_std(self.context.deadline());
        let late = |_| {
            let place = if self.queued.get().is_some() { EVALUATION } else { QUEUE };
            Err(self.context.late(place))
        };
        let result = timeout_at(deadline, work).await.unwrap_or_else(late);
        let queued = self.queued.get().copied();
        result.map_err(|error| error.after_waiting(queued.unwrap_or_else(|| self.begin.elapsed())))
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.context.cancel();
        let queued = self.queued.get_or_init(|| self.begin.elapsed());
        self.cost.set(&self.context.counts, *queued);
    }
}

/// A planned query with its permit and its open selections.
struct Opened {
    root: Node,
    selections: Vec<Arc<Selected>>,
    _permit: Permit,
}

impl Opened {
    /// Estimates the cost.
    async fn estimate(&self, query: &Query, context: &Context) -> Result<Estimate, QueryError> {
        let Query { steps, lookback, .. } = *query;
        let estimate = estimate(&self.root, &self.selections, steps, lookback, &context.budget);
        estimate.instrument(info_span!("estimate")).await
    }
}

/// A planned query with its open selections.
struct Evaluation {
    selections: Vec<Arc<Selected>>,
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
        if matches!(root, Node::Range(_)) {
            builder.touch(root)?;
        }
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
        // Limits that were exceeded in code that cannot fail, or by the last series.
        self.context.check()?;
        let room = Room::holding(collected.into_held());
        let counts = &self.context.counts;
        let stats = Stats {
            total_queryable_samples: counts.queryable(),
            samples_read: counts.read(),
            samples_taken: counts.taken(),
            series_touched: counts.series(),
            by_step: counts.by_step(),
            peak_samples: self.context.budget.peak_samples() as u64,
            evaluation: begin.elapsed(),
            sorting,
            ..Stats::default()
        };
        let annotations = self.context.take_annotations();
        Ok(QueryResult { value, annotations, stats, estimate: None, room })
    }
}

/// Refuses an expression or a step that is not valid in a range query.
fn check_range(expr: &Expr, steps: Steps) -> Result<(), QueryError> {
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
    Ok(())
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// The nesting depth of an expression, at most `most` + 1.
fn depth(expr: &Expr, most: usize) -> usize {
    if most == 0 {
        return 1;
    }
    1 + expr.children().into_iter().map(|child| depth(child, most - 1)).max().unwrap_or(0)
}
