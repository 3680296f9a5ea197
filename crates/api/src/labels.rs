//! `/api/v1/labels`, `/api/v1/label/<name>/values` and `/api/v1/series`.
//!
//! Answered from the store's index, never from points; limited in time, number and bytes. Several
//! selectors give the sorted union.

use std::future::Future;

use axum::extract::State;
use axum::http::Uri;
use axum::response::{IntoResponse, Response};

use super::answer_room::holding;
use super::matches::Selectors;
use super::parameters::Parameters;
use super::query_result::TRUNCATED;
use super::settings::ListLimits;
use super::slow::Watch;
use super::state::SharedState;
use super::{ApiError, AppState, json, label_name, matches};
use promkairos_model::{Labels, ShownSize, TimeRange};
use promkairos_promql::annotations::Shown;
use promkairos_promql::quoted_bytes;
use promkairos_storage::{Limited, ListSize, Listed, SeriesQuery, SharedStore, StoreError};

/// The setting that limits the number of results.
pub(super) const RESULTS: &str = "max-label-results";
/// The setting that limits their bytes.
pub(super) const SIZE: &str = "max-label-results-size";
/// Approximate memory of a list item without its text.
pub(super) const ITEM_BYTES: usize = 48;

/// `/api/v1/labels`, parameters `match[]`, `start`, `end`, `limit`.
pub(super) async fn names(State(state): State<SharedState>, parameters: Parameters) -> Response {
    let _watch = Watch::new(&state, "/api/v1/labels", parameters.shown());
    json::respond(names_answer(&state, &parameters).await)
}

/// `/api/v1/label/<name>/values`; parameters like `labels`.
pub(super) async fn values(
    State(state): State<SharedState>,
    uri: Uri,
    parameters: Parameters,
) -> Response {
    let segment = uri.path().split('/').nth_back(1).unwrap_or_default();
    let bytes = label_name::percent_decoded(segment);
    if bytes.contains(&b'/') {
        return super::clean_path::unknown_path().await.into_response();
    }
    let _watch = Watch::new(&state, uri.path(), parameters.shown());
    json::respond(values_answer(&state, &bytes, &parameters).await)
}

/// `/api/v1/series`; parameters like `labels`, but `match[]` is required.
pub(super) async fn series(State(state): State<SharedState>, parameters: Parameters) -> Response {
    let _watch = Watch::new(&state, "/api/v1/series", parameters.shown());
    json::respond(series_answer(&state, &parameters).await)
}

async fn names_answer(state: &AppState, parameters: &Parameters) -> Result<Response, ApiError> {
    let names = |store: SharedStore, query| async move { store.label_names(&query).await };
    Question::read(state, parameters).await?.answer(state, names, write_text).await
}

async fn values_answer(
    state: &AppState,
    name: &[u8],
    parameters: &Parameters,
) -> Result<Response, ApiError> {
    let unescaped = std::str::from_utf8(name).map(label_name::unescaped).ok();
    let Some(name) = unescaped.as_deref().filter(|name| !name.is_empty()) else {
        let shown = quoted_bytes(unescaped.as_deref().map_or(name, str::as_bytes));
        return Err(ApiError::BadRequest(format!("invalid label name: {shown}")));
    };
    let values = |store: SharedStore, query| {
        let name = name.to_owned();
        async move { store.label_values(&name, &query).await }
    };
    Question::read(state, parameters).await?.answer(state, values, write_text).await
}

async fn series_answer(state: &AppState, parameters: &Parameters) -> Result<Response, ApiError> {
    if let Some(why) = &parameters.malformed {
        return Err(ApiError::BadRequest(format!("error parsing form values: {why}")));
    }
    let (limit, range) = Question::bounds(state, parameters)?;
    let question =
        Question { selectors: matches::required(state, parameters).await?, limit, range };
    let series = |store: SharedStore, query| async move { store.series(&query).await };
    question.answer(state, series, |out, labels: Labels| json::labels(out, &labels)).await
}

/// The parameters of a request for a list.
struct Question {
    selectors: Selectors,
    range: TimeRange,
    limit: Limit,
}

/// The limits of a list.
#[derive(Clone, Copy)]
pub(super) struct Limit {
    pub(super) most: ListSize,
    /// Whether `most` comes from the setting, not from the client's `limit`.
    of_setting: bool,
}

impl Limit {
    /// The smaller of the settings and the client's `limit`.
    pub(super) fn of(state: &AppState, asked: Option<usize>) -> Self {
        let ListLimits { results, bytes, .. } = state.turns().limits;
        let asked = asked.unwrap_or(usize::MAX);
        let most = ListSize { items: asked.min(results), bytes };
        Self { most, of_setting: asked > results }
    }

    /// The warnings about a truncated list; counts it if a setting is the reason.
    pub(super) fn warnings<T>(self, state: &AppState, found: &Limited<T>) -> Vec<String> {
        if !found.truncated {
            return Vec::new();
        }
        let ListSize { items, bytes } = self.most;
        let (most, setting) = match found.items.len() == items {
            true if !self.of_setting => return vec![TRUNCATED.to_owned()],
            true => (items.to_string(), RESULTS),
            false => (ShownSize::of(bytes).to_string(), SIZE),
        };
        state.metrics.http.limits.reached(setting);
        vec![format!("{TRUNCATED}: more than {most}, which is the setting {setting}")]
    }
}

impl Question {
    /// Reads the parameters where selectors are optional; errors in a selector do not name its parameter.
    async fn read(state: &AppState, parameters: &Parameters) -> Result<Self, ApiError> {
        let (limit, range) = Self::bounds(state, parameters)?;
        let selectors = matches::parse(state, parameters.list("match[]")).await?;
        let mut selectors = selectors.map_err(ApiError::BadRequest)?;
        if selectors.0.is_empty() {
            selectors.0.push(Vec::new());
        }
        Ok(Self { selectors, range, limit })
    }

    fn bounds(state: &AppState, parameters: &Parameters) -> Result<(Limit, TimeRange), ApiError> {
        Ok((Limit::of(state, parameters.limit()?), parameters.range()?))
    }

    /// The union of what the store returns to `ask` for each selector, as an answer.
    async fn answer<T: Listed + Clone + Send + 'static, A>(
        self,
        state: &AppState,
        ask: impl Fn(SharedStore, SeriesQuery) -> A,
        write: impl Fn(&mut String, T) + Send + 'static,
    ) -> Result<Response, ApiError>
    where
        A: Future<Output = Result<Limited<T>, StoreError>>,
    {
        let Self { selectors: (selectors, _room), range, limit } = self;
        let store = state.store()?;
        let union = async {
            let mut all = Limited { items: Vec::new(), truncated: false };
            for matchers in selectors {
                let query = SeriesQuery { matchers, range, limit: limit.most };
                let found = ask(store.clone(), query).await?;
                all = Limited::union(vec![all, found], limit.most);
            }
            Ok(all)
        };
        let (found, turn) = state.in_turn(union).await?;
        let shown = Shown { warnings: limit.warnings(state, &found), ..Shown::default() };
        let bytes = found.items.iter().map(|item| item.bytes() + ITEM_BYTES).sum();
        Ok(holding(json::list("", found.items, write, &json::tail(&shown)), turn, bytes))
    }
}

fn write_text(out: &mut String, text: String) {
    out.push_str(&json::text(&text));
}
