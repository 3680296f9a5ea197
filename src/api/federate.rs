//! `GET /federate`: the newest sample of every series that matches, in the text format.
//!
//! Names that the format knows only in quotes are escaped as the client asks (`escaping`). Native histograms, which
//! the format cannot write, are left out.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};

use super::escaping::{Escaping, is_plain};
use super::parameters::Parameters;
use super::selected::{Points, of_each_series};
use super::slow::Watch;
use super::turns::Turn;
use super::unsent::holding;
use super::workers::Caller;
use super::{ApiError, AppState, matches};
use crate::model::{Labels, METRIC_NAME, TimeRange, Value, is_stale};
use crate::promql::format::general;

/// A series' newest sample.
struct Newest {
    labels: Labels,
    time: i64,
    value: f64,
}

/// Bytes of a line of the page beside its labels.
const LINE_BYTES: usize = 64;
/// How many times as long as they are labels may be on the page: a character of a name may be escaped by its number.
const ESCAPED: usize = 8;

/// `GET /federate`, parameter `match[]`. Errors are plain text.
pub(super) async fn federate(
    State(state): State<Arc<AppState>>,
    headers: HeaderMap,
    parameters: Parameters,
) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let escaping = Escaping::asked_for(accept.unwrap_or_default());
    let _watch = Watch::new(&state, "/federate", parameters.shown());
    match written(&state, &parameters, escaping).await {
        Ok((page, turn)) => {
            let escaping = escaping.name();
            let kind = format!("text/plain; version=0.0.4; charset=utf-8; escaping={escaping}");
            holding(([(header::CONTENT_TYPE, kind)], page).into_response(), turn, 0)
        }
        Err(error) => error.into_response(),
    }
}

/// The page, and the turn in which it was made.
async fn written(
    state: &AppState,
    parameters: &Parameters,
    escaping: Escaping,
) -> Result<(String, Turn), ApiError> {
    let selectors = matches::parse_any(state, parameters.list("match[]")).await?;
    let selectors = selectors.map_err(ApiError::BadRequest)?;
    let now = state.clock.now_ms();
    let lookback = state.evaluator().engine.settings().lookback.as_millis() as i64;
    let range = TimeRange::new(now.saturating_sub(lookback), now);
    let page = async {
        let (mut found, mut all_held) = (Vec::new(), Vec::new());
        for matchers in selectors.iter() {
            let (more, held) = of_each_series(state, matchers, range, newest_of).await?;
            found.extend(more);
            all_held.push(held);
            // At once: the same selector may be given many times.
            found = state.workers.run(move |_: &Caller<'_>| Ok(each_once(found))).await?;
        }
        let bytes =
            found.iter().map(|one: &Newest| ESCAPED * one.labels.as_bytes().len() + LINE_BYTES);
        let mut page_held = state.evaluator().engine.nothing();
        page_held.take(0, bytes.sum())?;
        let page = state.workers.run(move |_: &Caller<'_>| Ok(page(found, escaping))).await;
        drop((all_held, page_held));
        page
    };
    state.in_turn(page).await
}

/// By metric and then by labels.
fn each_once(mut found: Vec<Newest>) -> Vec<Newest> {
    found.sort_by(|a, b| metric(a).cmp(metric(b)).then_with(|| a.labels.cmp(&b.labels)));
    found.dedup_by(|a, b| a.labels == b.labels);
    found
}

/// A series' last sample in the range, unless it is stale or a histogram.
fn newest_of(labels: &Labels, points: Points<'_>) -> Result<Option<Newest>, ApiError> {
    let mut last = None;
    for point in points {
        last = Some(point?);
    }
    Ok(last.and_then(|point| match point.value {
        Value::Float(value) if !is_stale(value) => {
            Some(Newest { labels: labels.clone(), time: point.timestamp, value })
        }
        _ => None,
    }))
}

fn metric(sample: &Newest) -> &str {
    sample.labels.get(METRIC_NAME)
}

fn page(found: Vec<Newest>, escaping: Escaping) -> String {
    let mut out = String::new();
    let mut family = None;
    for sample in &found {
        let metric = metric(sample);
        // Without a name it cannot be scraped.
        if metric.is_empty() {
            continue;
        }
        let name = escaping.escaped(metric);
        let quoted = !is_plain(&name);
        let name = if quoted { Cow::Owned(quote(&name)) } else { name };
        if family != Some(metric) {
            let _ = writeln!(out, "# TYPE {name} untyped");
            family = Some(metric);
        }
        let mut pairs = Vec::new();
        if quoted {
            pairs.push(name.into_owned());
        } else {
            out.push_str(&name);
        }
        for (label, value) in sample.labels.iter().filter(|(label, _)| *label != METRIC_NAME) {
            let label = escaping.escaped(label);
            let label = if is_plain(&label) { label } else { Cow::Owned(quote(&label)) };
            pairs.push(format!("{label}={}", quote(value)));
        }
        // So that a scrape does not put its own target's there.
        if sample.labels.get("instance").is_empty() {
            pairs.push("instance=\"\"".to_owned());
        }
        let value = if sample.value == 0.0 { "0".to_owned() } else { general(sample.value) };
        let _ = writeln!(out, "{{{}}} {value} {}", pairs.join(","), sample.time);
    }
    out
}

fn quote(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{escaped}\"")
}
