//! The body of `POST /api/v1/datapoints`: a metric, or an array of metrics.
//!
//! Metrics are independent: a refused metric or point leaves its texts in the answer, and the others are stored. A body
//! that is not JSON ends the parsing. The metrics before that place are given to the visitor all the same, and its text
//! replaces the errors before it.
//! Differences to KairosDB: limits ([`MAX_TAGS`], [`MAX_DEPTH`], [`Errors`]), texts of our own
//! where KairosDB has only the text of a virtual machine, and what the module of Java's numbers says: digits of ASCII
//! alone, and no hexadecimal doubles. Names and values are not limited here, and with `skip_validate` they may be
//! empty, as in KairosDB.

mod fields;
mod values;

use std::borrow::Cow;
use std::fmt;
use std::ops::ControlFlow;

use promkairos_kairos_json::{Fault, Kind, Leniency, Reader, Token};

use self::fields::Fields;
use self::values::{Datapoint, NotTyped, typed};
use crate::element::{Cause, Element, Leaf};
use crate::errors::Errors;
use crate::point::{MAX_TAGS, Metric, Value, Visitor};

/// How deep arrays and objects of a body may be nested. KairosDB fails some thousand levels deep.
pub const MAX_DEPTH: usize = 64;
const NO_CONTENT: &str = "Invalid json. No content due to end of input.";

/// How a body ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Everything was given to the visitor: KairosDB answers 204.
    Stored,
    /// KairosDB answers 400 with the errors.
    Refused,
    /// A value that KairosDB does not expect ended the parsing: it answers 500 with the error.
    Failed,
    /// The visitor ended the parsing.
    Stopped,
}

/// What a body came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// How it ended.
    pub status: Status,
    /// Points that were given to the visitor, in every status.
    pub points: u64,
    /// Why not all were.
    pub errors: Errors,
}

/// Gives the valid points of a body to a visitor.
pub fn parse_datapoints<'a>(body: &'a [u8], visitor: &mut impl Visitor<'a>) -> Answer {
    let (reader, metric) = (Reader::new(body, MAX_DEPTH), Metric::default());
    let mut parser = Parser { reader, metric, visitor, points: 0, errors: Errors::default() };
    let ended = parser.body();
    let Parser { points, mut errors, .. } = parser;
    let status = match ended {
        Ok(()) if errors.count() == 0 => Status::Stored,
        Ok(()) => Status::Refused,
        Err(End::Stopped) => Status::Stopped,
        Err(End::Refused(text)) => {
            errors.replace(&text);
            Status::Refused
        }
        Err(End::Failed(text)) => {
            errors.replace(&text);
            Status::Failed
        }
    };
    Answer { status, points, errors }
}

/// Why parsing ends before the end of the body.
enum End {
    Refused(String),
    Failed(Cause),
    Stopped,
}

struct Parser<'a, 'v, V> {
    reader: Reader<'a>,
    /// Of the points that are read.
    metric: Metric<'a>,
    visitor: &'v mut V,
    points: u64,
    errors: Errors,
}

/// A metric in texts of errors.
#[derive(Clone, Copy)]
struct Context<'c> {
    index: usize,
    /// Unless it is not valid, or not validated.
    name: Option<&'c str>,
}

impl fmt::Display for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "metric[{}]", self.index)?;
        self.name.map_or(Ok(()), |name| write!(f, "(name={name})"))
    }
}

/// A point of a metric in texts of errors.
#[derive(Clone, Copy)]
struct Place<'c> {
    context: Context<'c>,
    index: usize,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.datapoints[{}]", self.context, self.index)
    }
}

impl<'a, V: Visitor<'a>> Parser<'a, '_, V> {
    fn body(&mut self) -> Result<(), End> {
        match self.reader.peek() {
            Err(fault) => self.outside(Err(fault)),
            Ok(Token::BeginArray) => {
                let metrics = self.metrics()?;
                self.outside(metrics)?;
                let end = self.reader.end_array();
                self.outside(end)
            }
            Ok(Token::BeginObject) => self.next_metric(0),
            Ok(_) => {
                self.errors.add(format_args!("Invalid start of json."));
                Ok(())
            }
        }
    }

    /// The metrics of an array. The inner error is of what is between them, which has to be strict JSON.
    fn metrics(&mut self) -> Result<Result<(), Fault>, End> {
        if let Err(fault) = self.reader.begin_array() {
            return Ok(Err(fault));
        }
        for index in 0.. {
            match self.reader.has_next() {
                Ok(true) => self.next_metric(index)?,
                Ok(false) => break,
                Err(fault) => return Ok(Err(fault)),
            }
        }
        Ok(Ok(()))
    }

    /// A fault outside of the metrics. The end of the input is an error as those of metrics are.
    fn outside(&mut self, read: Result<(), Fault>) -> Result<(), End> {
        match read {
            Err(Fault { kind: Kind::End, .. }) => self.errors.add(format_args!("{NO_CONTENT}")),
            Err(fault) => return Err(End::Refused(fault.text)),
            Ok(()) => {}
        }
        Ok(())
    }

    fn next_metric(&mut self, index: usize) -> Result<(), End> {
        self.reader.set_leniency(Leniency::Lenient);
        let tags = std::mem::take(&mut self.metric.tags);
        let fields = Fields::read(&mut self.reader, tags).map_err(|fault| match fault.kind {
            Kind::Null => End::Failed(Cow::Owned(fault.text)),
            Kind::Number => End::Refused("Invalid JSON".to_owned()),
            _ => End::Refused(fault.to_string()),
        })?;
        self.reader.set_leniency(Leniency::Strict);
        match fields {
            Some(fields) => self.store(fields, index),
            None => Err(failed(format_args!("metric[{index}] may not be null."))),
        }
    }

    fn store(&mut self, mut fields: Fields<'a>, index: usize) -> Result<(), End> {
        let name = fields.name.take();
        let shown = name.as_deref().filter(|name| !name.is_empty() && !fields.skip_validate);
        let context = Context { index, name: shown };
        let errors = self.errors.count();
        if fields.skip_validate {
            if let Some(tag) = fields.tags.first_null() {
                return Err(failed(format_args!("null value in entry: {tag}=null")));
            }
        } else {
            self.validate(&fields, name.as_deref(), context)?;
        }
        if fields.tags.are_too_many {
            let most = format_args!("must be less than or equal to {MAX_TAGS}.");
            self.errors.add(format_args!("{context}.tags count {most}"));
        }
        let tags = std::mem::take(&mut fields.tags.list);
        self.metric = Metric { name: name.clone().unwrap_or_default(), tags, ttl: fields.ttl };
        if self.errors.count() > errors {
            return Ok(());
        }
        self.points(fields, context)
    }

    fn validate(
        &mut self,
        fields: &Fields<'a>,
        name: Option<&str>,
        context: Context<'_>,
    ) -> Result<(), End> {
        self.check_text(format_args!("{context}.name"), name);
        let value = fields.value.as_ref();
        if fields.time().is_some() {
            self.check_value(format_args!("{context}.value"), value)?;
        } else if value.is_some_and(|value| !value.is_null()) {
            self.errors.add(format_args!("{context}.timestamp may not be null."));
        }
        let tags = &fields.tags;
        if tags.list.is_empty() {
            let least = "must be greater than or equal to 1.";
            self.errors.add(format_args!("{context}.tags count {least}"));
        }
        for (at, tag) in tags.list.iter().enumerate() {
            self.check_text(format_args!("{context}.tag[{at}].name"), Some(&tag.name));
            let value = (!tags.is_null(at)).then_some(&*tag.value);
            match &*tag.name {
                "" => self.check_text(format_args!("{context}.tag[{at}].value"), value),
                name => self.check_text(format_args!("{context}.tag[{name}].value"), value),
            }
        }
        Ok(())
    }

    fn check_text(&mut self, what: fmt::Arguments<'_>, text: Option<&str>) {
        match text {
            None => self.errors.add(format_args!("{what} may not be null.")),
            Some("") => self.errors.add(format_args!("{what} may not be empty.")),
            Some(_) => {}
        }
    }

    /// Whether there is a value that is not empty.
    fn check_value(
        &mut self,
        what: fmt::Arguments<'_>,
        value: Option<&Element<'a>>,
    ) -> Result<bool, End> {
        let wrong = match value {
            None => "null",
            Some(value) if value.is_null() => "empty",
            Some(Element { leaf: Leaf::Empty, is_wrapped: false }) => "an empty array",
            Some(Element { leaf: Leaf::Object, is_wrapped: false }) => return Ok(true),
            Some(value) if value.is_empty_text().map_err(End::Failed)? => "empty",
            Some(_) => return Ok(true),
        };
        self.errors.add(format_args!("{what} may not be {wrong}."));
        Ok(false)
    }

    fn points(&mut self, mut fields: Fields<'a>, context: Context<'_>) -> Result<(), End> {
        let kind = fields.kind.as_deref();
        let mut is_first = true;
        if let (Some(time), Some(value)) = (fields.time(), fields.value.take())
            && let Some(value) = self.typed(value, kind, context)?
        {
            self.visit(time, value, &mut is_first)?;
        }
        let Some(mut reader) = fields.datapoints.take() else { return Ok(()) };
        // The array was read before, so there is no fault in it.
        let no_fault = |fault: Fault| End::Refused(fault.to_string());
        reader.begin_array().map_err(no_fault)?;
        // As in KairosDB, only points that are stored count.
        let mut index = 0;
        while reader.has_next().map_err(no_fault)? {
            let place = Place { context, index };
            match Datapoint::read(&mut reader).map_err(no_fault)? {
                None => return Err(failed(format_args!("{place} may not be null."))),
                Some(datapoint) => {
                    let Some((time, value)) = self.checked(datapoint, &fields, place)? else {
                        continue;
                    };
                    self.visit(time, value, &mut is_first)?;
                    index += 1;
                }
            }
        }
        Ok(())
    }

    /// The time and value of a point, if it is valid.
    fn checked(
        &mut self,
        datapoint: Datapoint<'a>,
        fields: &Fields<'a>,
        place: Place<'_>,
    ) -> Result<Option<(i64, Value<'a>)>, End> {
        let Some(time) = datapoint.time else {
            self.errors.add(format_args!("{place}.timestamp cannot be null or empty."));
            return Ok(None);
        };
        let Some(value) = datapoint.value else {
            self.errors.add(format_args!("{place}.value cannot be null or empty."));
            return Ok(None);
        };
        let time = if time.is_null() { None } else { Some(time.long().map_err(End::Failed)?) };
        if time.is_none() && !fields.skip_validate {
            self.errors.add(format_args!("{place}.timestamp may not be null."));
            return Ok(None);
        }
        let own_kind = datapoint.kind.map(Element::into_text).transpose().map_err(End::Failed)?;
        if !self.check_value(format_args!("{place}.value"), Some(&value))? {
            return Ok(None);
        }
        let kind = own_kind.as_deref().or(fields.kind.as_deref());
        let Some(value) = self.typed(value, kind, place.context)? else { return Ok(None) };
        let time = time.ok_or_else(|| failed(format_args!("{place}.timestamp may not be null.")));
        Ok(Some((time?, value)))
    }

    fn typed(
        &mut self,
        value: Element<'a>,
        kind: Option<&str>,
        context: Context<'_>,
    ) -> Result<Option<Value<'a>>, End> {
        match typed(value, kind) {
            Ok(value) => return Ok(Some(value)),
            Err(NotTyped::Invalid) => {
                self.errors.add(format_args!("{context} value is an invalid type"));
            }
            Err(NotTyped::Unregistered(kind)) => {
                self.errors.add(format_args!("Unregistered data point type '{kind}'"));
            }
            Err(NotTyped::Failed(cause)) => return Err(End::Failed(cause)),
        }
        Ok(None)
    }

    fn visit(&mut self, time: i64, value: Value<'a>, is_first: &mut bool) -> Result<(), End> {
        if std::mem::take(is_first) {
            if self.metric.name.is_empty() {
                return Err(failed(format_args!("The name of a metric may not be empty.")));
            }
            going_on(self.visitor.metric(&self.metric))?;
        }
        going_on(self.visitor.point(time, value))?;
        self.points += 1;
        Ok(())
    }
}

fn going_on(flow: ControlFlow<()>) -> Result<(), End> {
    if flow.is_break() { Err(End::Stopped) } else { Ok(()) }
}

fn failed(text: fmt::Arguments<'_>) -> End {
    End::Failed(Cow::Owned(text.to_string()))
}

#[cfg(test)]
mod tests {
    //! Bodies of the probes of a real KairosDB 1.3.0-1, some with fewer points; limits; random bodies.
    //!
    //! What it stored, and most of its texts, are on record. The answers to `5` and to an array that ends early are by
    //! its source.

    use std::fmt::Write;

    use proptest::prelude::*;

    use super::*;
    use crate::errors::{MAX_ERROR_BYTES, MAX_ERRORS};

    /// A line for each metric, and one for each point.
    #[derive(Default)]
    struct Lines {
        text: String,
        /// Points after which it ends the parsing.
        most: Option<usize>,
    }

    impl<'a> Visitor<'a> for Lines {
        fn metric(&mut self, metric: &Metric<'a>) -> ControlFlow<()> {
            let tags: Vec<String> =
                metric.pairs().map(|(name, value)| format!("{name}={value}")).collect();
            let ttl = if metric.ttl == 0 { String::new() } else { format!(" ttl {}", metric.ttl) };
            self.text += &format!("{}{{{}}}{ttl}\n", metric.name, tags.join(","));
            ControlFlow::Continue(())
        }

        fn point(&mut self, time: i64, value: Value<'a>) -> ControlFlow<()> {
            if self.most == Some(0) {
                return ControlFlow::Break(());
            }
            self.most = self.most.map(|most| most - 1);
            let value = match value {
                Value::Long(value) => format!("{value}"),
                Value::Double(value) => format!("{value:?}"),
                Value::String(value) => format!("'{value}'"),
            };
            self.text += &format!("{time} {value}\n");
            ControlFlow::Continue(())
        }
    }

    pub(super) fn parse(body: &[u8]) -> (String, Answer) {
        let mut lines = Lines::default();
        let answer = parse_datapoints(body, &mut lines);
        (lines.text, answer)
    }

    #[track_caller]
    pub(super) fn stores(body: &str, stored: &str) {
        let (text, answer) = parse(body.as_bytes());
        assert_eq!(text.trim_end(), stored, "{body}: {:?}", answer.errors);
        assert_eq!((answer.status, answer.errors.count()), (Status::Stored, 0), "{body}");
        let points = text.lines().filter(|line| !line.contains('{')).count();
        assert_eq!(answer.points, points as u64);
    }

    #[track_caller]
    pub(super) fn refuses(body: &str, texts: &[&str]) {
        partly(body, "", texts);
    }

    #[track_caller]
    pub(super) fn partly(body: &str, stored: &str, texts: &[&str]) {
        let (text, answer) = parse(body.as_bytes());
        assert_eq!(answer.errors.texts(), texts, "{body}");
        assert_eq!((text.trim_end(), answer.status), (stored, Status::Refused), "{body}");
    }

    #[track_caller]
    pub(super) fn fails(body: &str, stored: &str, cause: &str) {
        let (text, answer) = parse(body.as_bytes());
        assert_eq!(answer.errors.texts(), [cause], "{body}");
        assert_eq!((text.trim_end(), answer.status), (stored, Status::Failed), "{body}");
    }

    /// A metric `m` with the tag `a=b` and these further fields.
    pub(super) fn metric(fields: &str) -> String {
        format!(r#"{{"name":"m","tags":{{"a":"b"}},{fields}}}"#)
    }

    #[test]
    fn bodies_of_the_probes_are_stored() {
        stores(
            r#"[{"name": "m1", "datapoints": [[1700000000000, 0], [1700000001000, 1]],
              "tags": {"host": "a", "dc": "x"}},
                {"name": "m1", "datapoints": [[1700000000500, 0.5]], "tags": {"host": "b", "dc": "x"}}]"#,
            "m1{host=a,dc=x}\n1700000000000 0\n1700000001000 1\nm1{host=b,dc=x}\n1700000000500 0.5",
        );
        stores(
            r#"[{"name": "mix", "datapoints": [[1700000000000, 5], [1700000001000, 5.5], [1700000002000, "7"],
                [1700000003000, "7.5"], [1700000004000, "abc"], [1700000005000, 100000.0], [1700000006000, "1e5"],
                [1700000007000, -0.0], [1700000008000, 12345678901234567]], "tags": {"h": "1"}}]"#,
            "mix{h=1}\n1700000000000 5\n1700000001000 5.5\n1700000002000 7\n1700000003000 7.5\n1700000004000 'abc'\n\
             1700000005000 100000.0\n1700000006000 '1e5'\n1700000007000 -0.0\n1700000008000 12345678901234567",
        );
        stores(
            r#"[{"name": "sv", "skip_validate": true, "datapoints": [[1, 1]], "tags": {}}]"#,
            "sv{}\n1 1",
        );
        stores(
            r#"[{"name":"nan","datapoints":[[1,NaN],[2,"NaN"],[3,1.0]],"tags":{"a":"b"}}]"#,
            "nan{a=b}\n1 'NaN'\n2 'NaN'\n3 1.0",
        );
        stores(
            r#"[{"name":"ov","datapoints":[[1,99999999999999999999]],"tags":{"a":"b"}}]"#,
            "ov{a=b}\n1 7766279631452241919",
        );
        stores(
            r#"[{"name":"tsf","datapoints":[[1700000000000.7,1]],"tags":{"a":"b"}}]"#,
            "tsf{a=b}\n1700000000000 1",
        );
        stores(
            r#"[{"name":"tss","datapoints":[["1700000000000",1]],"tags":{"a":"b"}}]"#,
            "tss{a=b}\n1700000000000 1",
        );
        stores(
            r#"[{"name":"tagn","datapoints":[[1,1]],"tags":{"a":5,"b":true}}]"#,
            "tagn{a=5,b=true}\n1 1",
        );
        stores(
            r#"[{"name":"both","timestamp":1,"value":1,"datapoints":[[2,2]],"tags":{"a":"b"}}]"#,
            "both{a=b}\n1 1\n2 2",
        );
        stores(
            r#"[{"name":"ta","time":7,"timestamp":5,"value":1,"tags":{"a":"b"}}]"#,
            "ta{a=b}\n7 1",
        );
        stores(r#"{"name": "gz", "timestamp": 1, "value": 3, "tags": {"a": "b"}}"#, "gz{a=b}\n1 3");
    }

    #[test]
    fn bodies_of_the_probes_are_refused() {
        refuses(
            r#"[{"name": "nt", "timestamp": 1700000000000, "value": 1}]"#,
            &["metric[0](name=nt).tags count must be greater than or equal to 1."],
        );
        partly(
            r#"[{"name": "", "timestamp": 1, "value": 1, "tags": {"a": ""}},
                {"name": "ok2", "timestamp": 1, "value": 1, "tags": {"a": "b"}}]"#,
            "ok2{a=b}\n1 1",
            &["metric[0].name may not be empty.", "metric[0].tag[a].value may not be empty."],
        );
        refuses(
            r#"[{"name": "nv", "datapoints": [[1, null], [null, 1], [1]], "tags": {"a": "b"}}]"#,
            &[
                "metric[0](name=nv).datapoints[0].value may not be empty.",
                "metric[0](name=nv).datapoints[0].timestamp may not be null.",
                "metric[0](name=nv).datapoints[0].value cannot be null or empty.",
            ],
        );
        refuses(
            r#"[{"name": "bt", "type": "foo", "datapoints": [[1, 1]], "tags": {"a": "b"}}]"#,
            &["Unregistered data point type 'foo'"],
        );
        refuses("{nope", &["java.io.EOFException: End of input at line 1 column 6"]);
        refuses("", &[NO_CONTENT]);
        refuses(
            "5",
            &["Use JsonReader.setLenient(true) to accept malformed JSON at line 1 column 1"],
        );
        // Once for the element that is missing, and once for the end of the array.
        partly(
            r#"[{"name":"tr","timestamp":1,"value":1,"tags":{"a":"b"}},"#,
            "tr{a=b}\n1 1",
            &[NO_CONTENT, NO_CONTENT],
        );
        refuses(
            r#"[{"name":"vo","datapoints":[[1,{"a":1}]],"tags":{"a":"b"}}]"#,
            &["metric[0](name=vo) value is an invalid type"],
        );
        partly(
            r#"[{"name":"se","type":"string","datapoints":[[1,""],[2,"x"]],"tags":{"a":"b"}}]"#,
            "se{a=b}\n2 'x'",
            &["metric[0](name=se).datapoints[0].value may not be empty."],
        );
    }

    #[test]
    fn refused_metrics_do_not_hinder_others() {
        partly(
            r#"[{"timestamp":1},{"name":"b","value":2},
            {"name":"c","tags":{"":null,"x":null},"timestamp":1,"value":null},
                {"name":"d","tags":{"a":"b"},"timestamp":1,"value":[]},
                {"name":"e","tags":{"a":"b"},"datapoints":[[1,1],[2],[3,3],[4]],"ttl":"60"}]"#,
            "e{a=b} ttl 60\n1 1\n3 3",
            &[
                "metric[0].name may not be null.",
                "metric[0].value may not be null.",
                "metric[0].tags count must be greater than or equal to 1.",
                "metric[1](name=b).timestamp may not be null.",
                "metric[1](name=b).tags count must be greater than or equal to 1.",
                "metric[2](name=c).value may not be empty.",
                "metric[2](name=c).tag[0].name may not be empty.",
                "metric[2](name=c).tag[0].value may not be null.",
                "metric[2](name=c).tag[x].value may not be null.",
                "metric[3](name=d).value may not be an empty array.",
                "metric[4](name=e).datapoints[1].value cannot be null or empty.",
                "metric[4](name=e).datapoints[2].value cannot be null or empty.",
            ],
        );
        // A metric without points is valid.
        stores(&metric(r#""datapoints":[]"#), "");
        stores(
            &metric(
                r#""datapoints":null,"timestamp":null,"ttl":null,"skip_validate":null,"type":null"#,
            ),
            "",
        );
    }

    #[test]
    fn without_validation_almost_everything_is_stored() {
        let skipped = |fields: &str| format!(r#"{{"skip_validate":"TRUE",{fields}}}"#);
        stores(&skipped(r#""name":"m","tags":{"":""},"timestamp":1,"value":"""#), "m{=}\n1 ''");
        stores(&skipped(r#""name":"m","timestamp":1,"value":null,"type":"long""#), "m{}\n1 0");
        stores(&skipped(r#""name":"m","timestamp":1,"value":null,"type":"double""#), "m{}\n1 0.0");
        refuses(
            &skipped(r#""name":"m","timestamp":1,"value":null"#),
            &["metric[0] value is an invalid type"],
        );
        refuses(
            &skipped(r#""name":"m","datapoints":[[1,null]]"#),
            &["metric[0].datapoints[0].value may not be empty."],
        );
        fails(&skipped(r#""timestamp":1,"value":2"#), "", "The name of a metric may not be empty.");
        fails(
            &skipped(r#""name":"m","datapoints":[[1,2],[null,2]]"#),
            "m{}\n1 2",
            "metric[0].datapoints[1].timestamp may not be null.",
        );
        fails(&skipped(r#""name":"m","tags":{"a":null}"#), "", "null value in entry: a=null");
    }

    #[test]
    fn tags_and_errors_have_limits() {
        let body = |count: usize| {
            let tags: Vec<String> = (0..count).map(|at| format!(r#""t{at}":"v""#)).collect();
            format!(r#"{{"name":"m","time":1,"value":2,"tags":{{{}}}}}"#, tags.join(","))
        };
        assert_eq!(parse(body(MAX_TAGS).as_bytes()).1.status, Status::Stored);
        let text = "metric[0](name=m).tags count must be less than or equal to 256.";
        refuses(&body(MAX_TAGS + 1), &[text]);

        let (_, answer) =
            parse(metric(&format!(r#""datapoints":[{}[1,2]]"#, "[],".repeat(5000))).as_bytes());
        assert_eq!((answer.errors.count(), answer.points), (5000, 1));
        let bytes = |errors: &Errors| errors.texts().iter().map(String::len).sum::<usize>();
        assert!(answer.errors.texts().len() <= MAX_ERRORS);
        assert_eq!(bytes(&answer.errors), MAX_ERROR_BYTES);
        let name = "x".repeat(1 << 20);
        let (_, answer) =
            parse(format!("{{name:{name},tags:{{a:b}},datapoints:[[],[]]}}").as_bytes());
        assert_eq!(bytes(&answer.errors), MAX_ERROR_BYTES);
    }

    #[test]
    fn a_visitor_can_end_the_parsing() {
        let mut lines = Lines { most: Some(1), ..Lines::default() };
        let body = metric(r#""datapoints":[[1,2],[3,4],[5,6]]"#);
        let answer = parse_datapoints(body.as_bytes(), &mut lines);
        assert_eq!((answer.status, answer.points), (Status::Stopped, 1));
        assert_eq!(lines.text, "m{a=b}\n1 2\n");
    }

    /// A text in JSON, with escapes.
    fn quoted(text: &str) -> String {
        let mut json = String::from("\"");
        for c in text.chars() {
            match c {
                '"' | '\\' => json.extend(['\\', c]),
                'a'..='z' | ' ' | '\u{e0}'..='\u{ff}' => json.push(c),
                _ => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        write!(json, "\\u{unit:04x}").expect("a string takes everything");
                    }
                }
            }
        }
        json + "\""
    }

    fn any_value() -> impl Strategy<Value = (String, String)> {
        prop_oneof![
            any::<i64>().prop_map(|long| (long.to_string(), long.to_string())),
            any::<f64>()
                .prop_filter("JSON has no others", |value| value.is_finite())
                .prop_map(|value| (format!("{value:?},\"double\""), format!("{value:?}"))),
            "\\PC+".prop_map(|text| (format!("{},\"string\"", quoted(&text)), format!("'{text}'"))),
        ]
    }

    /// Pieces of bodies, in any order.
    fn soup() -> impl Strategy<Value = String> {
        let pieces = [
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            ";",
            "=",
            "=>",
            "\"",
            "'",
            "\\",
            "\\u12",
            "#",
            "/*",
            "*/",
            "//",
            "\n",
            "\r",
            " ",
            "null",
            "true",
            "-",
            "1",
            "0",
            ".",
            "e5",
            "1.5",
            "é",
            "😀",
            "\u{feff}",
            "\"name\":\"m\",",
            "\"tags\":{\"a\":\"b\"},",
            "\"datapoints\":[[1,2],[3,",
            "\"value\":",
            "\"time\":7,",
            "\"type\":",
            "\"ttl\":",
            "\"skip_validate\":true,",
            "[{\"name\":\"m\",\"tags\":{\"a\":\"b\"},",
        ];
        proptest::collection::vec(proptest::sample::select(pieces.to_vec()), 0..40)
            .prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            name in "\\PC+",
            tags in proptest::collection::btree_map("\\PC+", "\\PC+", 1..5),
            points in proptest::collection::vec((any::<i64>(), any_value()), 1..20),
            ttl in any::<i32>(),
        ) {
            let pair = |(tag, value): (&String, &String)| format!("{}:{}", quoted(tag), quoted(value));
            let pairs: Vec<String> = tags.iter().map(pair).collect();
            let written: Vec<String> = points.iter().map(|(time, (json, _))| format!("[{time},{json}]")).collect();
            let mut fields = [
                format!("\"name\":{}", quoted(&name)),
                format!("\"datapoints\":[{}]", written.join(",")),
                format!("\"tags\":{{{}}}", pairs.join(",")),
                format!("\"ttl\":{ttl}"),
            ];
            let shown: Vec<String> = tags.iter().map(|(tag, value)| format!("{tag}={value}")).collect();
            let ttl = if ttl == 0 { String::new() } else { format!(" ttl {ttl}") };
            let mut expected = format!("{name}{{{}}}{ttl}\n", shown.join(","));
            for (time, (_, value)) in &points {
                expected += &format!("{time} {value}\n");
            }
            for _ in 0..2 {
                let (text, answer) = parse(format!("[{{{}}}]", fields.join(",")).as_bytes());
                prop_assert_eq!(&text, &expected);
                prop_assert_eq!((answer.status, answer.points), (Status::Stored, points.len() as u64));
                fields.reverse();
            }
        }

        #[test]
        fn every_end_of_a_body_is_an_error(cut in 0_usize..1000) {
            let body = metric(r#""x":[{"é":'\u00e9'}],"datapoints":[[1,2],[3,"four"]] /* # */"#);
            let cut = body.floor_char_boundary(cut % body.len());
            let (text, answer) = parse(&body.as_bytes()[..cut]);
            prop_assert_eq!(text, "");
            prop_assert_eq!((answer.status, answer.errors.count()), (Status::Refused, 1));
        }

        #[test]
        fn no_body_panics(body in soup(), bytes in any::<Vec<u8>>()) {
            for body in [body.as_bytes(), &bytes] {
                let (text, answer) = parse(body);
                let points = text.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).count() as u64;
                prop_assert!(answer.points <= points);
                prop_assert_eq!(answer.status == Status::Stored, answer.errors.count() == 0);
                // The same twice: nothing depends on what is left of another body.
                prop_assert_eq!(parse(body), (text, answer));
            }
        }
    }
}
