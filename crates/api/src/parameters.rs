//! The parameters of a request: first those of a form in its body, then those of its URL; a multipart form comes last,
//! as in Prometheus. If a parameter is repeated, the first value counts, unless it is a list.
//!
//! Values that cannot be decoded are left out, as in Prometheus; most endpoints answer anyway. Only the three
//! parameters that many endpoints share are interpreted here. Reading a parameter that the table of `endpoints` does
//! not have for the path panics in builds with debug assertions.

use std::sync::Arc;

use axum::extract::{FromRequest, MatchedPath, Request};
use axum::http::{HeaderMap, Method, header};
use axum::response::{IntoResponse, Response};

use super::body::receive;
use super::endpoints::may_have;
use super::heads::query_of;
use super::multipart;
use super::time_param::{TimeParam, parse_time};
use super::{ApiError, AppState};
use promkairos_model::TimeRange;
use promkairos_promql::quoted;

/// The error if `end` is before `start`.
pub(super) const BACKWARDS: &str = "end timestamp must not be before start time";

/// The parameters, in order.
#[derive(Debug, Default)]
pub(super) struct Parameters {
    pairs: Vec<(String, String)>,
    /// The route of the request; `None` if there is no request.
    route: Option<MatchedPath>,
    /// Why the first undecodable parameter was left out.
    pub(super) malformed: Option<String>,
}

impl FromRequest<Arc<AppState>> for Parameters {
    type Rejection = Response;

    async fn from_request(request: Request, state: &Arc<AppState>) -> Result<Self, Response> {
        let (parts, body) = request.into_parts();
        let route = parts.extensions.get::<MatchedPath>().cloned();
        let mut parameters = Self { route, ..Self::default() };
        let multipart = multipart::boundary(&parts.headers);
        let query = query_of(&parts.uri, &parts.extensions).unwrap_or_default();
        if parts.method == Method::GET || !(multipart.is_some() || is_form(&parts.headers)) {
            parameters.add(query.as_bytes());
            return Ok(parameters);
        }
        let (most, http) = (state.body_bytes(), &state.metrics.http);
        let body = receive(&state.forms, &parts.headers, body, most, http).await;
        let body = body.map_err(IntoResponse::into_response)?;
        match multipart {
            None => {
                parameters.add(&body.bytes);
                parameters.add(query.as_bytes());
            }
            Some(boundary) => {
                parameters.add(query.as_bytes());
                parameters.add_multipart(&body.bytes, &boundary);
            }
        }
        Ok(parameters)
    }
}

fn is_form(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/x-www-form-urlencoded")
}

impl Parameters {
    /// Adds URL-encoded parameters.
    fn add(&mut self, encoded: &[u8]) {
        for piece in encoded.split(|byte| *byte == b'&').filter(|piece| !piece.is_empty()) {
            match pair(piece) {
                Ok(pair) => self.pairs.push(pair),
                Err(why) => drop(self.malformed.get_or_insert(why)),
            }
        }
    }

    /// Adds the fields of a multipart form.
    fn add_multipart(&mut self, body: &[u8], boundary: &str) {
        match multipart::fields(body, boundary) {
            Ok(fields) => self.pairs.extend(fields),
            Err(why) => drop(self.malformed.get_or_insert_with(|| why.to_owned())),
        }
    }

    /// The first value; empty if there is none.
    pub(super) fn first(&self, name: &str) -> &str {
        self.all(name).next().unwrap_or_default()
    }

    /// All values.
    pub(super) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        debug_assert!(
            self.route.as_ref().is_none_or(|route| may_have(route.as_str(), name)),
            "the table of endpoints has no parameter {name} of this path"
        );
        let found = self.pairs.iter().filter(move |(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// All parameters, for the log.
    pub(super) fn shown(&self) -> impl Iterator<Item = String> {
        self.pairs.iter().map(|(name, value)| format!("{name}={value}"))
    }

    /// All values, owned.
    pub(super) fn list(&self, name: &str) -> Vec<String> {
        self.all(name).map(str::to_owned).collect()
    }

    /// An optional time.
    pub(super) fn time(&self, name: &str) -> Result<Option<TimeParam>, ApiError> {
        self.time_by(name, TimeParam::parse)
    }

    /// The range from `start` to `end`; each is unbounded if it is missing.
    pub(super) fn range(&self) -> Result<TimeRange, ApiError> {
        self.range_by(|text| TimeParam::parse(text).map(TimeParam::millis))
    }

    /// Like [`Self::range`], but refuses a time that does not fit into 64 bits, instead of taking the earliest.
    pub(super) fn strict_range(&self) -> Result<TimeRange, ApiError> {
        self.range_by(parse_time)
    }

    fn range_by(&self, parse: impl Fn(&str) -> Result<i64, String>) -> Result<TimeRange, ApiError> {
        let TimeRange { start, end } = TimeRange::ALL;
        let start = self.time_by("start", &parse)?.unwrap_or(start);
        Ok(TimeRange::new(start, self.time_by("end", &parse)?.unwrap_or(end)))
    }

    fn time_by<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, ApiError> {
        let text = self.first(name);
        if text.is_empty() {
            return Ok(None);
        }
        let why = |error| format!("invalid time value for '{name}': {error}");
        parse(text).map(Some).map_err(|error| invalid(name, why(error)))
    }

    /// The most results; `None` = no limit.
    pub(super) fn limit(&self) -> Result<Option<usize>, ApiError> {
        let text = self.first("limit");
        if text.is_empty() {
            return Ok(None);
        }
        let limit = integer(text).map_err(|why| {
            invalid("limit", format!("strconv.Atoi: parsing {}: {why}", quoted(text)))
        })?;
        match usize::try_from(limit) {
            Ok(0) => Ok(None),
            Ok(limit) => Ok(Some(limit)),
            Err(_) => Err(invalid("limit", "limit must be non-negative")),
        }
    }
}

/// An error about a parameter.
pub(super) fn invalid(name: &str, why: impl std::fmt::Display) -> ApiError {
    ApiError::BadRequest(format!("invalid parameter \"{name}\": {why}"))
}

/// Parses a boolean like Go.
pub(super) fn truth(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        _ => Err(format!("strconv.ParseBool: parsing {}: invalid syntax", quoted(text))),
    }
}

/// Parses a whole number like Go.
pub(super) fn integer(text: &str) -> Result<i64, &'static str> {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    text.parse().map_err(|error: std::num::ParseIntError| match error.kind() {
        PosOverflow | NegOverflow => "value out of range",
        _ => "invalid syntax",
    })
}

/// Parses an unsigned whole number like Go.
pub(super) fn unsigned(text: &str) -> Result<u64, &'static str> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("invalid syntax");
    }
    text.parse().map_err(|_| "value out of range")
}

/// `name=value`
fn pair(piece: &[u8]) -> Result<(String, String), String> {
    if piece.contains(&b';') {
        return Err("invalid semicolon separator in query".into());
    }
    let at = piece.iter().position(|byte| *byte == b'=').unwrap_or(piece.len());
    let value = piece.get(at + 1..).unwrap_or_default();
    Ok((decode(&piece[..at])?, decode(value)?))
}

fn decode(encoded: &[u8]) -> Result<String, String> {
    for (at, _) in encoded.iter().enumerate().filter(|(_, byte)| **byte == b'%') {
        let escape = &encoded[at..encoded.len().min(at + 3)];
        if escape.len() < 3 || !escape[1..].iter().all(u8::is_ascii_hexdigit) {
            let escape = String::from_utf8_lossy(escape);
            return Err(format!("invalid URL escape {}", quoted(&escape)));
        }
    }
    // `&` does not occur here, and `=` may be a part of the value.
    let escaped = String::from_utf8_lossy(encoded).replace('=', "%3D");
    let decoded = form_urlencoded::parse(escaped.as_bytes()).next();
    Ok(decoded.map(|(text, _)| text.into_owned()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use axum::routing::get;
    use tower::Service;

    use super::*;

    fn parameters(form: &str, url: &str) -> Parameters {
        let mut parameters = Parameters::default();
        parameters.add(form.as_bytes());
        parameters.add(url.as_bytes());
        parameters
    }

    #[test]
    fn the_body_comes_first() {
        let both = parameters("a=1&m[]=x", "a=2&b=3&m%5B%5D=y%20z&m[]=p+q=r");
        assert_eq!((both.first("a"), both.first("b"), both.first("c")), ("1", "3", ""));
        assert_eq!(both.list("m[]"), ["x", "y z", "p q=r"]);
        assert_eq!(both.malformed, None);
    }

    #[test]
    fn what_cannot_be_decoded_is_left_out_and_told() {
        let bad = parameters("%zz=1&a=%4&b=2&c", "d=1;e=2");
        assert_eq!(bad.pairs, [("b".into(), "2".into()), ("c".into(), String::new())]);
        assert_eq!(bad.malformed.as_deref(), Some("invalid URL escape \"%zz\""));
    }

    #[tokio::test]
    #[should_panic(expected = "no parameter step of this path")]
    async fn a_parameter_that_is_not_in_the_table_is_not_read() {
        async fn handler(parameters: Parameters) -> String {
            [parameters.first("start"), parameters.first("step")].concat()
        }
        let state = Arc::new(AppState::new(Arc::default()));
        let router = Router::new().route("/api/v1/series", get(handler));
        let mut router: Router = router.with_state(state);
        let request = Request::get("/api/v1/series?start=1&step=1").body(Body::empty());
        drop(router.call(request.expect("a request")).await);
    }

    #[test]
    fn limits() {
        let limit = |text: &str| {
            parameters("", &format!("limit={text}")).limit().map_err(|error| error.to_string())
        };
        assert_eq!(limit(""), Ok(None));
        assert_eq!(limit("0"), Ok(None));
        assert_eq!(limit("7"), Ok(Some(7)));
        let start = "invalid parameter \"limit\": ";
        assert_eq!(limit("-1"), Err(format!("{start}limit must be non-negative")));
        assert_eq!(
            limit("1.5"),
            Err(format!("{start}strconv.Atoi: parsing \"1.5\": invalid syntax"))
        );
        assert_eq!(
            limit("9999999999999999999"),
            Err(format!(
                "{start}strconv.Atoi: parsing \"9999999999999999999\": value out of range"
            ))
        );
    }
}
