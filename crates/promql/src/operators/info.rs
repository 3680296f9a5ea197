//! `info`: adds to each series the labels of the info series that describe its target.
//!
//! Only points show which info series is the newest. So the info series are read before the label
//! sets of the result are known, and the series of the first argument after that.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use super::merged::Merged;
use super::{BoxOperator, Operator, Scope, Series};
use crate::budget::{Budget, Held};
use crate::context::Context;
use crate::error::QueryError;
use crate::labelset::{METADATA_LABELS, keep};
use crate::plan::ResetHints;
use crate::points::{KeptPoints, Points};
use crate::series_list::{SeriesList, made_bytes};
use promkairos_model::{Labels, METRIC_NAME, MatchOp, Matcher};

/// The labels that identify the target of a series.
pub(crate) const IDENTIFYING: [&str; 2] = ["instance", "job"];

/// The conditions of the second argument.
pub(crate) struct Wanted {
    /// Conditions on the name of the info metric.
    pub names: Vec<Matcher>,
    /// Conditions on the added labels. If there are any, only labels that they name are added.
    pub data: Vec<Matcher>,
}

impl Wanted {
    /// Parses the second argument; without one, all labels of `target_info`.
    pub(crate) fn new(matchers: Option<&[Matcher]>) -> Self {
        let (mut names, data): (Vec<_>, Vec<_>) =
            matchers.unwrap_or_default().iter().cloned().partition(|m| m.name() == METRIC_NAME);
        let positive = |m: &Matcher| matches!(m.op(), MatchOp::Equal | MatchOp::Regex);
        if names.is_empty() {
            names.push(Matcher::equal(METRIC_NAME, "target_info"));
        } else if !names.iter().any(positive) {
            let any = Matcher::new(MatchOp::Regex, METRIC_NAME, ".+_info");
            names.insert(0, any.expect("a valid pattern"));
        }
        Self { names, data }
    }

    /// The matchers that select the info series.
    pub(crate) fn matchers(&self) -> Vec<Matcher> {
        self.data.iter().chain(&self.names).cloned().collect()
    }

    /// Whether a series is an info series itself; it is not changed.
    fn is_info(&self, labels: &Labels) -> bool {
        let name = labels.as_ref().metric_name();
        self.names.iter().all(|matcher| matcher.matches(name))
    }

    fn wants_label(&self, name: &str) -> bool {
        !METADATA_LABELS.contains(&name)
            && (self.data.is_empty() || self.data.iter().any(|matcher| matcher.name() == name))
    }
}

/// The targets that need info series, grouped by which identifying labels they have.
pub(crate) struct Targets<'a> {
    /// For each set of identifying labels, the values of each label.
    groups: BTreeMap<[bool; IDENTIFYING.len()], [BTreeSet<&'a str>; IDENTIFYING.len()]>,
}

impl<'a> Targets<'a> {
    /// The targets of these series.
    pub(crate) fn of(base: &'a [Series], wanted: &Wanted) -> Self {
        let mut groups = BTreeMap::new();
        for series in base.iter().filter(|series| !wanted.is_info(&series.labels)) {
            let values = IDENTIFYING.map(|label| series.labels.get(label));
            let present = values.map(|value| !value.is_empty());
            if present.contains(&true) {
                let group: &mut [BTreeSet<&str>; IDENTIFYING.len()] =
                    groups.entry(present).or_default();
                for (known, value) in group.iter_mut().zip(values) {
                    known.insert(value);
                }
            }
        }
        Self { groups }
    }

    /// Whether there are no targets.
    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Whether an info series may describe a target: each of its identifying labels has a known value.
    fn may_have(&self, info: &Labels) -> bool {
        let values = IDENTIFYING.map(|label| info.get(label));
        let group = self.groups.get(&values.map(|value| !value.is_empty()));
        group.is_some_and(|known| known.iter().zip(values).all(|(known, v)| known.contains(v)))
    }
}

/// Bytes of a variant in addition to its labels and steps.
const VARIANT_BYTES: usize = size_of::<Variant>() + 64;

impl Variant {
    /// Bytes of memory that the variant takes.
    fn bytes(&self, steps: usize) -> usize {
        let labels = match &self.labels {
            Some(Ok(labels)) => made_bytes(labels),
            _ => 0,
        };
        labels + steps + VARIANT_BYTES
    }
}

/// Bytes of a label value of a target.
const TARGET_BYTES: usize = 64;

/// Bytes of the label values of targets; the texts themselves are borrowed.
fn targets_bytes(targets: &Targets<'_>) -> usize {
    targets.groups.values().flatten().map(BTreeSet::len).sum::<usize>() * TARGET_BYTES
}

/// Adds the labels of info series.
pub(crate) struct Info {
    base: BoxOperator,
    series: SeriesList,
    /// For each series of the base, its results.
    variants: VecDeque<Vec<Variant>>,
    ready: VecDeque<KeptPoints>,
    /// The steps at which two info series are equally new, and the error.
    collisions: HashMap<usize, String>,
    steps: usize,
    given: usize,
    budget: Arc<Budget>,
    /// The memory of `variants` and `collisions`.
    _held: Held,
}

/// Steps at which a series gets the same labels.
struct Variant {
    /// `None` if the series is dropped at these steps.
    labels: Option<Result<Labels, String>>,
    steps: Vec<bool>,
}

impl Info {
    /// Adds to `base` the labels of `infos`, whose values are the times of their points. Counts the
    /// info series that are used here.
    pub(crate) fn boxed(
        base: BoxOperator,
        mut infos: BoxOperator,
        wanted: &Wanted,
        scope: &Scope,
        context: &Context,
    ) -> Result<BoxOperator, QueryError> {
        let steps = scope.steps.count();
        let targets = Targets::of(base.series(), wanted);
        let mut newest = Newest::default();
        let mut points = Points::default();
        let mut held = context.budget.hold(0, targets_bytes(&targets))?;
        let mut tally = scope.counted.tally();
        for position in 0..infos.series().len() {
            infos.next(&mut points)?;
            let labels = &infos.series()[position].labels;
            if targets.may_have(labels) {
                context.add_series(1)?;
                // The target, the metric and the steps may be new; each collision has a text.
                let label_bytes = 4 * made_bytes(labels);
                held.take(steps, label_bytes + steps * size_of::<Option<(f64, usize)>>())?;
                let collisions = newest.collisions.len();
                newest.add(labels, &points);
                let collisions = newest.collisions.len() - collisions;
                held.take(0, collisions * label_bytes)?;
                tally.add_points(&points, ResetHints::AsStored);
            }
        }
        context.counts.add(&tally);
        let mut variants = VecDeque::with_capacity(base.series().len());
        let mut series = SeriesList::new(base.series().len(), &context.budget)?;
        for one in base.series() {
            let found = if wanted.is_info(&one.labels) {
                let labels = Some(Ok(one.labels.clone()));
                vec![Variant { labels, steps: vec![true; steps] }]
            } else {
                newest.variants(&one.labels, wanted, steps)
            };
            context.check()?;
            held.take(0, found.iter().map(|variant| variant.bytes(steps)).sum())?;
            for labels in found.iter().filter_map(|variant| variant.labels.as_ref()) {
                let labels = labels.clone().unwrap_or_else(|_| one.labels.clone());
                series.push_shared(Series { labels, drop_name: one.drop_name })?;
            }
            variants.push_back(found);
        }
        let collisions = newest.collisions;
        let ready = VecDeque::new();
        let budget = Arc::clone(&context.budget);
        let mut info = Self {
            base,
            series,
            variants,
            ready,
            collisions,
            steps,
            given: 0,
            budget,
            _held: held,
        };
        if info.series.is_empty() {
            info.finish()?;
        }
        Merged::of(Box::new(info), &context.budget)
    }

    /// Reads the remaining series; a series that is dropped at all steps can still have an error.
    fn finish(&mut self) -> Result<(), QueryError> {
        while let Some(variants) = self.variants.pop_front() {
            self.read_one(variants)?;
        }
        Ok(())
    }

    fn read_one(&mut self, variants: Vec<Variant>) -> Result<(), QueryError> {
        let mut points = Points::default();
        self.base.next(&mut points)?;
        for (step, _) in points.iter() {
            if let Some(collision) = self.collisions.get(&step) {
                return Err(QueryError::execution(collision.as_str()));
            }
        }
        for variant in variants {
            let Some(labels) = variant.labels else { continue };
            let mut result = KeptPoints::absent(self.steps, &self.budget)?;
            for (step, value) in points.iter().filter(|(step, _)| variant.steps[*step]) {
                if let Err(conflict) = &labels {
                    return Err(QueryError::execution(conflict.as_str()));
                }
                result.set(step, value.to_owned(), &self.budget)?;
            }
            self.ready.push_back(result);
        }
        Ok(())
    }
}

impl Operator for Info {
    fn series(&self) -> &[Series] {
        &self.series
    }

    fn next(&mut self, points: &mut Points) -> Result<(), QueryError> {
        while self.ready.is_empty() {
            let Some(variants) = self.variants.pop_front() else { break };
            self.read_one(variants)?;
        }
        *points = self.ready.pop_front().map(KeptPoints::into_points).unwrap_or_default();
        self.given += 1;
        if self.given == self.series.len() {
            self.finish()?;
        }
        Ok(())
    }
}

/// For each step, the time and the position of the newest info series.
type NewestByStep = Vec<Option<(f64, usize)>>;

/// For each target and info metric, the newest info series at each step.
#[derive(Default)]
struct Newest {
    infos: Vec<Labels>,
    /// By target, then by metric.
    targets: HashMap<Labels, BTreeMap<String, NewestByStep>>,
    collisions: HashMap<usize, String>,
}

fn target(labels: &Labels) -> Labels {
    keep(labels, &IDENTIFYING.map(str::to_owned))
}

impl Newest {
    fn add(&mut self, labels: &Labels, points: &Points) {
        let position = self.infos.len();
        self.infos.push(labels.clone());
        let metrics = self.targets.entry(target(labels)).or_default();
        let name = labels.as_ref().metric_name().to_owned();
        let newest = metrics.entry(name).or_insert_with(|| vec![None; points.steps()]);
        for (step, newest) in newest.iter_mut().enumerate() {
            let Some(time) = points.float(step) else { continue };
            match newest {
                Some((known, _)) if *known > time => {}
                Some((known, other)) if *known == time => {
                    let text = format!(
                        "found duplicate series for info metric: existing {} @ {time}, new {} @ \
                         {time}",
                        self.infos[*other], labels
                    );
                    self.collisions.entry(step).or_insert(text);
                }
                _ => *newest = Some((time, position)),
            }
        }
    }

    /// The variants of a series.
    fn variants(&self, base: &Labels, wanted: &Wanted, steps: usize) -> Vec<Variant> {
        let metrics = self.targets.get(&target(base));
        let mut found: Vec<(Vec<usize>, Variant)> = Vec::new();
        for step in 0..steps {
            let newest = metrics.into_iter().flatten().filter_map(|(_, newest)| newest[step]);
            let chosen: Vec<usize> = newest.map(|(_, position)| position).collect();
            let at = found.iter().position(|(known, _)| *known == chosen).unwrap_or_else(|| {
                let labels = self.enriched(base, &chosen, wanted);
                found.push((chosen, Variant { labels, steps: vec![false; steps] }));
                found.len() - 1
            });
            found[at].1.steps[step] = true;
        }
        found.into_iter().map(|(_, variant)| variant).collect()
    }

    /// The labels of a series plus the labels of these info series.
    fn enriched(
        &self,
        base: &Labels,
        chosen: &[usize],
        wanted: &Wanted,
    ) -> Option<Result<Labels, String>> {
        if chosen.is_empty() {
            let stays = wanted.data.iter().all(Matcher::matches_empty);
            return stays.then(|| Ok(base.clone()));
        }
        let mut added: BTreeMap<&str, &str> = BTreeMap::new();
        for (name, value) in chosen.iter().flat_map(|&position| self.infos[position].iter()) {
            if !wanted.wants_label(name) {
                continue;
            }
            if added.get(name).is_some_and(|known| *known != value) {
                return Some(Err(format!("conflicting label: {name}")));
            }
            if base.get(name).is_empty() {
                added.insert(name, value);
            }
        }
        let pairs: BTreeMap<&str, &str> = base.iter().chain(added).collect();
        Some(Labels::from_pairs(pairs).map_err(|error| error.to_string()))
    }
}
