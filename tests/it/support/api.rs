//! A client of the query API, for promkairos and Prometheus.

use reqwest::Method;
use serde_json::Value as Json;

/// Status and JSON of a GET with parameters in the URL.
pub(crate) async fn get(url: &str, parameters: &[(&str, &str)]) -> (u16, Json) {
    let (status, text) = send(Method::GET, url, parameters, None).await;
    (status, json(&text))
}

/// Status and JSON of a POST of a form.
pub(crate) async fn post(url: &str, form: &[(&str, &str)]) -> (u16, Json) {
    let (status, text) = send(Method::POST, url, &[], Some(form)).await;
    (status, json(&text))
}

/// Status and text of any request.
pub(crate) async fn send(
    method: Method,
    url: &str,
    parameters: &[(&str, &str)],
    form: Option<&[(&str, &str)]>,
) -> (u16, String) {
    let mut url = reqwest::Url::parse(url).expect("a URL");
    if !parameters.is_empty() {
        url.query_pairs_mut().extend_pairs(parameters);
    }
    let mut request = reqwest::Client::new().request(method, url);
    if let Some(form) = form {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        request = request.header("Content-Type", "application/x-www-form-urlencoded").body(body);
    }
    let response = request.send().await.expect("an answer");
    let status = response.status().as_u16();
    (status, response.text().await.expect("a body"))
}

fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}
