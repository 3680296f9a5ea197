//! `/api/v1/features`: the features of Prometheus that this server has, under their names in Prometheus 3.16.
//!
//! The list omits scraping, rules and service discovery, which do not apply here.

use axum::extract::State;
use axum::response::Response;
use serde_json::{Map, Value, json};

use super::settings::{AdminApi, TypeAndUnitLabels};
use super::state::SharedState;
use super::{AppState, json as envelope};
use promkairos_promql::{
    Aggregator, BinaryOp, Features, Function, NameRemoval, Names, StartTimestamps,
};

/// Language features that are always enabled.
const WORDS: &[&str] = &[
    "anchored",
    "at_modifier",
    "bool",
    "by",
    "duration_expr",
    "group_left",
    "group_right",
    "ignoring",
    "negative_offset",
    "offset",
    "on",
    "per_query_lookback_delta",
    "smoothed",
    "subqueries",
    "without",
];

/// Operators that occur only in selectors.
const OF_SELECTORS: [&str; 3] = ["=~", "!~", "@"];

/// `GET /api/v1/features`
pub(super) async fn features(State(state): State<SharedState>) -> Response {
    envelope::answer(Ok(json!({
        "api": api(&state),
        "otlp_receiver": { "delta_conversion": false, "native_delta_ingestion": false },
        "prometheus": { "agent_mode": false, "server_mode": true },
        "promql": language(&state),
        "promql_functions": functions(experimental(&state)),
        "promql_operators": operators(experimental(&state)),
        "tsdb": { "exemplar_storage": true, "native_histograms": true, "st_storage": true },
    })))
}

fn experimental(state: &AppState) -> bool {
    state.evaluator().syntax.features == Features::Experimental
}

fn api(state: &AppState) -> Value {
    let admin = state.admin_api == AdminApi::Enabled;
    json!({
        "admin": admin,
        "exclude_alerts": true,
        "label_values_match": true,
        "lifecycle": admin,
        "openapi_3.1": true,
        "openapi_3.2": true,
        "otlp_write_receiver": false,
        "query_cost": true,
        "query_stats": true,
        "query_warnings": true,
        "remote_write_receiver": true,
        "search": false,
        "time_range_labels": true,
        "time_range_series": true,
    })
}

fn language(state: &AppState) -> Map<String, Value> {
    let (evaluator, experimental) = (state.evaluator(), experimental(state));
    let settings = evaluator.engine.settings();
    let set = [
        ("delayed_name_removal", settings.name_removal == NameRemoval::Delayed),
        ("fill", experimental),
        ("fill_left", experimental),
        ("fill_right", experimental),
        ("per_step_stats", experimental),
        ("type_and_unit_labels", state.type_and_unit_labels == TypeAndUnitLabels::Enabled),
        ("unquoted_utf8_names", evaluator.syntax.names == Names::Unicode),
        ("use_start_timestamps", settings.start_timestamps == StartTimestamps::Used),
    ];
    named(WORDS.iter().map(|word| (*word, true)).chain(set))
}

fn functions(experimental: bool) -> Map<String, Value> {
    let on = |function: &Function| experimental || !function.signature().experimental;
    named(Function::ALL.iter().map(|function| (function.name(), on(function))))
}

fn operators(experimental: bool) -> Map<String, Value> {
    let on = |aggregator: &Aggregator| experimental || !aggregator.is_experimental();
    let aggregators = Aggregator::ALL.iter().map(|one| (one.name(), on(one)));
    let operators = BinaryOp::ALL.iter().map(|op| op.name()).chain(OF_SELECTORS);
    named(operators.map(|name| (name, true)).chain(aggregators))
}

fn named<'a>(switches: impl Iterator<Item = (&'a str, bool)>) -> Map<String, Value> {
    switches.map(|(name, on)| (name.to_owned(), on.into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_experimental_is_on_or_off() {
        for on in [false, true] {
            assert_eq!(functions(on)["integral"], on);
            assert_eq!(functions(on)["rate"], true);
            assert_eq!(operators(on)["limitk"], on);
            assert_eq!(operators(on)[">/"], true);
        }
        assert_eq!(functions(false).len(), Function::ALL.len());
    }
}
