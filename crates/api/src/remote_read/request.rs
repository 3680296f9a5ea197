//! Decodes a read request to matchers and ranges, and chooses the type of the answer.
//!
//! Every error here is the client's and is answered with 400. Prost would allocate a struct for
//! every two bytes of a hostile body, so the fields are counted before the body is decoded.

use std::sync::Arc;

use prost::Message;
use prost::encoding::{WireType, decode_key, decode_varint};

use crate::ApiError;
use crate::patterns::MatcherReader;
use crate::proto::v1::{self, label_matcher::Type, read_request::ResponseType};
use crate::workers::Caller;
use promkairos_model::limits::{MAX_READ_FIELDS, MAX_READ_MATCHERS, MAX_READ_QUERIES, NO_SETTING};
use promkairos_model::{Labels, MatchOp, Matcher, PatternSet, TimeRange};
use promkairos_storage::QueryHints;
use promkairos_wire::{WireError, snappy};

/// Most bytes of the texts in the hints of a query. Larger hints are dropped: they would be kept until the answer is
/// sent, and a store needs none.
const MAX_HINT_BYTES: usize = 4 << 10;

/// A valid request.
#[derive(Debug)]
pub(super) struct ReadRequest {
    /// The queries, in their order.
    pub(super) queries: Vec<Query>,
    /// The type of the answer.
    pub(super) response: ResponseType,
}

/// One query. Hints are only advice to the store: the range is the one of the query.
#[derive(Debug)]
pub(super) struct Query {
    /// All must match. A query without matchers has an empty answer, as in Prometheus; a store would select everything.
    pub(super) matchers: Vec<Matcher>,
    /// Inclusive at both ends; the end may be before the start.
    pub(super) range: TimeRange,
    /// What the client does with the points, if it says so.
    pub(super) hints: Option<Arc<QueryHints>>,
    /// External labels; a series in the answer gets each one whose name it does not have.
    pub(super) external: Labels,
}

impl ReadRequest {
    /// Decodes a body: a snappy block with a `prometheus.ReadRequest` in it.
    pub(super) fn decode(
        body: &[u8],
        set: &mut PatternSet,
        caller: &Caller<'_>,
    ) -> Result<Self, ApiError> {
        let mut buffer = Vec::new();
        let message = snappy::decompress(body, &mut buffer).map_err(|error| {
            ApiError::BadRequest(match error {
                WireError::TooLarge { declared, limit } => {
                    format!("snappy: decoded length {declared} exceeds limit {limit}")
                }
                _ => "snappy: corrupt input".into(),
            })
        })?;
        check_fields(message)?;
        let request = v1::ReadRequest::decode(message).map_err(malformed)?;
        if request.queries.len() > MAX_READ_QUERIES {
            return Err(too_many("queries", MAX_READ_QUERIES));
        }
        let matchers: usize = request.queries.iter().map(|query| query.matchers.len()).sum();
        if matchers > MAX_READ_MATCHERS {
            return Err(too_many("matchers", MAX_READ_MATCHERS));
        }
        let response = negotiate(&request.accepted_response_types)?;
        let all = request.queries.iter().flat_map(|query| &query.matchers);
        let count = all.filter(|m| matches!(m.r#type(), Type::Re | Type::Nre)).count();
        let mut reader = MatcherReader::new(count, set, caller);
        let queries: Result<Vec<Query>, ApiError> =
            request.queries.into_iter().map(|query| decode_query(query, &mut reader)).collect();
        Ok(Self { queries: queries?, response })
    }
}

impl Query {
    /// Adds external labels to the answer and to the matching: a matcher on one of these labels finds series that
    /// have the label and series that get it in the answer.
    pub(super) fn add_external(&mut self, external: &Labels) {
        for matcher in &mut self.matchers {
            let (name, value) = (matcher.name(), matcher.value());
            if matcher.op() == MatchOp::Equal && !value.is_empty() && external.get(name) == value {
                *matcher = Matcher::absent_or_equal(name, value);
            }
        }
        self.external = external.clone();
    }

    /// The query as text for the log.
    pub(super) fn shown(&self) -> String {
        let matchers: Vec<String> = self.matchers.iter().map(ToString::to_string).collect();
        format!("{{{}}} from {} to {}", matchers.join(","), self.range.start, self.range.end)
    }
}

fn decode_query(query: v1::Query, reader: &mut MatcherReader<'_>) -> Result<Query, ApiError> {
    let matchers: Result<Vec<Matcher>, ApiError> =
        query.matchers.iter().map(|one| decode_matcher(one, reader)).collect();
    let range = TimeRange::new(query.start_timestamp_ms, query.end_timestamp_ms);
    let hints = query.hints.and_then(decode_hints);
    Ok(Query { matchers: matchers?, range, hints, external: Labels::default() })
}

fn decode_hints(hints: v1::ReadHints) -> Option<Arc<QueryHints>> {
    let labels = hints.grouping.iter().map(|label| size_of::<String>() + label.len());
    if labels.sum::<usize>() + hints.func.len() > MAX_HINT_BYTES {
        return None;
    }
    Some(Arc::new(QueryHints {
        start: hints.start_ms,
        end: hints.end_ms,
        step: hints.step_ms,
        function: hints.func.into(),
        range: hints.range_ms,
        grouping: hints.grouping,
        by: hints.by,
    }))
}

fn decode_matcher(
    matcher: &v1::LabelMatcher,
    reader: &mut MatcherReader<'_>,
) -> Result<Matcher, ApiError> {
    let op = match Type::try_from(matcher.r#type) {
        Ok(Type::Eq) => MatchOp::Equal,
        Ok(Type::Neq) => MatchOp::NotEqual,
        Ok(Type::Re) => MatchOp::Regex,
        Ok(Type::Nre) => MatchOp::NotRegex,
        Err(_) => return Err(ApiError::BadRequest("invalid matcher type".into())),
    };
    reader.matcher(op, &matcher.name, &matcher.value)
}

/// The first type that this server supports; SAMPLES if the request names none.
fn negotiate(accepted: &[i32]) -> Result<ResponseType, ApiError> {
    if accepted.is_empty() {
        return Ok(ResponseType::Samples);
    }
    let known = accepted.iter().find_map(|number| ResponseType::try_from(*number).ok());
    known.ok_or_else(|| {
        let asked: Vec<String> = accepted.iter().take(16).map(i32::to_string).collect();
        ApiError::BadRequest(format!(
            "server does not support any of the requested response types: [{}]; supported: \
             map[SAMPLES:{{}} STREAMED_XOR_CHUNKS:{{}}]",
            asked.join(" ")
        ))
    })
}

/// Counts the fields of the request, of its queries and of their hints, and the packed response
/// types; fails beyond [`MAX_READ_FIELDS`].
fn check_fields(message: &[u8]) -> Result<(), ApiError> {
    let mut budget = MAX_READ_FIELDS;
    count_fields(message, &mut budget, &mut |field, query, budget| match field {
        1 => count_fields(query, budget, &mut |field, hints, budget| match field {
            4 => count_fields(hints, budget, &mut |_, _, _| Ok(())),
            _ => Ok(()),
        }),
        2 => spend(query.len(), budget),
        _ => Ok(()),
    })
}

/// Receives a field with a length: its number, its bytes and the rest of the budget.
type Inside<'a> = dyn FnMut(u32, &[u8], &mut usize) -> Result<(), ApiError> + 'a;

/// Walks one message and passes every field with a length to `inside`.
fn count_fields(
    mut message: &[u8],
    budget: &mut usize,
    inside: &mut Inside<'_>,
) -> Result<(), ApiError> {
    while !message.is_empty() {
        spend(1, budget)?;
        let (field, wire_type) = decode_key(&mut message).map_err(malformed)?;
        let skipped = match wire_type {
            WireType::Varint => {
                decode_varint(&mut message).map_err(malformed)?;
                0
            }
            WireType::SixtyFourBit => 8,
            WireType::ThirtyTwoBit => 4,
            WireType::LengthDelimited => decode_varint(&mut message).map_err(malformed)?,
            WireType::StartGroup | WireType::EndGroup => {
                return Err(malformed("groups are not supported"));
            }
        };
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        let (value, rest) =
            message.split_at_checked(skipped).ok_or_else(|| malformed("unexpected EOF"))?;
        if wire_type == WireType::LengthDelimited {
            inside(field, value, budget)?;
        }
        message = rest;
    }
    Ok(())
}

fn spend(count: usize, budget: &mut usize) -> Result<(), ApiError> {
    *budget = budget.checked_sub(count).ok_or_else(|| too_many("fields", MAX_READ_FIELDS))?;
    Ok(())
}

fn malformed(reason: impl std::fmt::Display) -> ApiError {
    ApiError::BadRequest(format!("malformed read request: {reason}"))
}

fn too_many(what: &str, limit: usize) -> ApiError {
    ApiError::BadRequest(format!("read request with more than {limit} {what}; {NO_SETTING}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use promkairos_model::limits::MAX_READ_PATTERN_BYTES;

    fn decode(message: &[u8]) -> Result<ReadRequest, String> {
        let body = snappy::compress(message).expect("small");
        let mut set = PatternSet::immediate();
        ReadRequest::decode(&body, &mut set, &HERE).map_err(|error| error.to_string())
    }

    /// A caller that still waits for the result.
    const HERE: Caller<'_> = Caller(&|| false);

    fn with_patterns<'a>(patterns: impl Iterator<Item = &'a str>) -> Vec<u8> {
        let matcher = |pattern: &str| v1::LabelMatcher {
            r#type: Type::Re.into(),
            name: "job".into(),
            value: pattern.into(),
        };
        let matchers = patterns.map(matcher).collect();
        let queries = vec![v1::Query { matchers, ..v1::Query::default() }];
        v1::ReadRequest { queries, ..v1::ReadRequest::default() }.encode_to_vec()
    }

    #[test]
    fn all_regular_expressions_of_a_request_have_one_budget() {
        let (large, small) = (r"(\pL{10}x*){20}", "a.*");
        decode(&with_patterns([large; 2].into_iter())).expect("two fit");
        decode(&with_patterns([small; MAX_READ_MATCHERS].into_iter())).expect("small ones fit");
        let error = decode(&with_patterns([large; MAX_READ_MATCHERS].into_iter()));
        let error = error.expect_err("over the budget");
        let want = "regular expression takes more than 512KiB compiled, its share of the 64MiB";
        assert!(error.starts_with(want) && error.contains("the setting memory-limit"), "{error}");
    }

    #[test]
    fn patterns_are_limited_before_they_are_read() {
        let half = "a".repeat(MAX_READ_PATTERN_BYTES / 2);
        let error = decode(&with_patterns([half.as_str(), &half, "b"].into_iter()));
        let want = "more than 1MiB of regular expressions in a request; no setting changes that";
        assert_eq!(error.expect_err("too long"), want);
    }

    #[test]
    fn nothing_is_compiled_for_a_client_that_went_away() {
        let body = snappy::compress(&with_patterns([".*"].into_iter())).expect("small");
        let mut set = PatternSet::immediate();
        let error = ReadRequest::decode(&body, &mut set, &Caller(&|| true));
        let error = error.expect_err("the caller has gone");
        assert!(matches!(error, ApiError::Aborted(_)), "{error}");
    }

    #[test]
    fn the_request_of_the_reference() {
        let message = b"\x0a\x49\x08\xa0\xa8\x83\xff\xbc\x31\x10\x80\xd0\x95\xff\xbc\x31\
            \x1a\x0e\x12\x08__name__\x1a\x02up\x1a\x0c\x08\x02\x12\x03job\x1a\x03a|b\
            \x22\x1b\x08\x98\x75\x12\x04rate\x18\xa1\xa8\x83\xff\xbc\x31\x20\x80\xd0\x95\xff\xbc\x31\
            \x38\xe0\xa7\x12\x12\x02\x01\x00";
        let request = decode(message).expect("valid");
        assert_eq!(request.response, ResponseType::StreamedXorChunks);
        assert_eq!(request.queries.len(), 1);
        let query = &request.queries[0];
        assert_eq!(query.range, TimeRange::new(1_699_999_700_000, 1_700_000_000_000));
        let matchers: Vec<String> = query.matchers.iter().map(ToString::to_string).collect();
        assert_eq!(matchers, ["__name__=\"up\"", "job=~\"a|b\""]);
        let want = QueryHints {
            start: 1_699_999_700_001,
            end: 1_700_000_000_000,
            step: 15_000,
            function: "rate".into(),
            range: 300_000,
            ..QueryHints::default()
        };
        assert_eq!(query.hints.as_deref(), Some(&want));
    }

    #[test]
    fn hints_are_advice() {
        let check = |hints: Option<v1::ReadHints>, want: Option<QueryHints>| {
            let queries = vec![v1::Query { hints, ..v1::Query::default() }];
            let message = v1::ReadRequest { queries, ..v1::ReadRequest::default() }.encode_to_vec();
            let request = decode(&message).expect("valid");
            assert_eq!(request.queries[0].hints.as_deref(), want.as_ref());
        };
        let grouping = vec!["b".to_owned(), "a".into()];
        let hints = v1::ReadHints { grouping: grouping.clone(), by: true, ..Default::default() };
        let want = QueryHints { grouping, by: true, ..QueryHints::default() };
        check(Some(hints.clone()), Some(want));
        check(Some(v1::ReadHints::default()), Some(QueryHints::default()));
        check(None, None);
        let func = "f".repeat(MAX_HINT_BYTES);
        check(Some(v1::ReadHints { func, ..hints }), None);
        let grouping = vec![String::new(); MAX_HINT_BYTES / size_of::<String>() + 1];
        check(Some(v1::ReadHints { grouping, ..Default::default() }), None);
    }

    #[test]
    fn who_asks_for_an_external_label_gets_series_without_it_too() {
        let external = [("cluster", "eu-1"), ("replica", "a")];
        let external = Labels::from_pairs(external).expect("valid");
        let check = |op, name: &str, value: &str, want: &str| {
            let matchers = vec![Matcher::new(op, name, value).expect("valid")];
            let (range, none) = (TimeRange::ALL, Labels::default());
            let mut query = Query { matchers, range, hints: None, external: none };
            query.add_external(&external);
            assert_eq!(
                (query.matchers[0].to_string(), query.external),
                (want.into(), external.clone())
            );
        };
        use MatchOp::{Equal, NotEqual, Regex};
        check(Equal, "cluster", "eu-1", r#"cluster=~"|eu\\-1""#);
        check(Equal, "cluster", "eu-2", "cluster=\"eu-2\"");
        check(Equal, "cluster", "", "cluster=\"\"");
        check(Equal, "job", "", "job=\"\"");
        check(Equal, "job", "eu-1", "job=\"eu-1\"");
        check(Regex, "cluster", "eu-1", "cluster=~\"eu-1\"");
        check(NotEqual, "cluster", "eu-1", "cluster!=\"eu-1\"");
    }

    #[test]
    fn the_first_known_response_type_wins() {
        let check = |accepted: &[i32], want: Option<ResponseType>| {
            assert_eq!(negotiate(accepted).ok(), want, "{accepted:?}");
        };
        check(&[], Some(ResponseType::Samples));
        check(&[0, 1], Some(ResponseType::Samples));
        check(&[1, 0], Some(ResponseType::StreamedXorChunks));
        check(&[7, 0], Some(ResponseType::Samples));
        check(&[7], None);
    }

    #[test]
    fn what_is_refused() {
        let check = |message: &[u8], want: &str| {
            let error = decode(message).expect_err("refused");
            assert!(error.contains(want), "{error}");
        };
        check(b"\x0a\xff", "malformed read request");
        check(b"\x0a\x05ab", "malformed read request");
        check(b"\x0a\x04\x1a\x02\x08\x09", "invalid matcher type");
        check(b"\x0a\x07\x1a\x05\x08\x02\x1a\x01[", "error parsing regexp");
        check(b"\x12\x01\x07", "server does not support any of the requested response types: [7]");
        // Two bytes for a query, two bytes for a matcher, one byte for a response type.
        check(&[0x0a, 0].repeat(MAX_READ_QUERIES + 1), "more than 256 queries");
        check(&[0x0a, 0].repeat(MAX_READ_FIELDS + 1), "fields");
        let mut matchers = vec![0x0a, 0x80, 0x80, 0x08];
        matchers.extend([0x1a, 0].repeat(MAX_READ_FIELDS));
        check(&matchers, "fields");
        let mut matchers = vec![0x0a, 0x82, 0x02];
        matchers.extend([0x1a, 0].repeat(MAX_READ_MATCHERS + 1));
        check(&matchers, "more than 128 matchers");
        let mut types = vec![0x12, 0x80, 0x80, 0x08];
        types.extend(vec![0; 1 << 17]);
        check(&types, "fields");
    }

    #[test]
    fn a_body_that_is_not_snappy_or_too_large() {
        let check = |body: &[u8], want: &str| {
            let mut set = PatternSet::immediate();
            let error =
                ReadRequest::decode(body, &mut set, &HERE).expect_err("refused").to_string();
            assert_eq!(error, want);
        };
        check(b"", "snappy: corrupt input");
        check(b"\xff\xff\xff\xff\xff", "snappy: corrupt input");
        let want = "snappy: decoded length 2147483648 exceeds limit 33554432";
        check(b"\x80\x80\x80\x80\x08\x00a", want);
    }
}
