//! The fields of one metric of a body.
//!
//! All of a metric is read before any of it is used, as in KairosDB: a fault at its end leaves nothing of it. Points
//! are only checked to be JSON then; their place is kept, and they are read once more if the metric is valid. This
//! takes no memory however many they are. The last of several fields of a name holds.

use std::borrow::Cow;

use promkairos_kairos_json::{Fault, Kind, Reader, Token};

use crate::element::Element;
use crate::point::{MAX_TAGS, Tag};

/// What a metric says.
#[derive(Debug, Default)]
pub(crate) struct Fields<'a> {
    pub(crate) name: Option<Cow<'a, str>>,
    pub(crate) timestamp: Option<i64>,
    pub(crate) time: Option<i64>,
    pub(crate) value: Option<Element<'a>>,
    pub(crate) tags: Tags<'a>,
    /// Where the array is.
    pub(crate) datapoints: Option<Reader<'a>>,
    pub(crate) skip_validate: bool,
    pub(crate) kind: Option<Cow<'a, str>>,
    pub(crate) ttl: i32,
}

/// The tags of a metric. Names are unique.
#[derive(Debug, Default)]
pub(crate) struct Tags<'a> {
    /// A tag whose value is null has an empty one here.
    pub(crate) list: Vec<Tag<'a>>,
    /// Positions of the tags whose value is null.
    nulls: Vec<usize>,
    /// Whether there are more than [`MAX_TAGS`]; the further ones are not kept.
    pub(crate) are_too_many: bool,
}

impl<'a> Fields<'a> {
    /// Reads a metric; none if it is null. `tags` is reused.
    pub(crate) fn read(reader: &mut Reader<'a>, tags: Vec<Tag<'a>>) -> Result<Option<Self>, Fault> {
        if reader.peek()? == Token::Null {
            reader.skip_value()?;
            return Ok(None);
        }
        let mut fields = Self { tags: Tags { list: tags, ..Tags::default() }, ..Self::default() };
        fields.tags.clear();
        reader.begin_object()?;
        while reader.has_next()? {
            let name = reader.name()?;
            fields.read_field(&name, reader)?;
        }
        reader.end_object()?;
        Ok(Some(fields))
    }

    fn read_field(&mut self, name: &str, reader: &mut Reader<'a>) -> Result<(), Fault> {
        match name {
            "name" => self.name = reader.text_field()?,
            "timestamp" => self.timestamp = reader.long_field()?,
            "time" => self.time = reader.long_field()?,
            "value" => self.value = Some(Element::read(reader)?),
            "tags" => self.tags.read(reader)?,
            "datapoints" => self.datapoints = find_datapoints(reader)?,
            "skip_validate" => {
                self.skip_validate = reader.bool_field()?.unwrap_or(self.skip_validate);
            }
            "type" => self.kind = reader.text_field()?,
            "ttl" => self.ttl = reader.int_field()?.unwrap_or(self.ttl),
            _ => reader.skip_value()?,
        }
        Ok(())
    }

    /// The time of the single point.
    pub(crate) fn time(&self) -> Option<i64> {
        self.time.or(self.timestamp)
    }
}

impl<'a> Tags<'a> {
    pub(crate) fn is_null(&self, at: usize) -> bool {
        self.nulls.contains(&at)
    }

    /// The name of the first tag without a value.
    pub(crate) fn first_null(&self) -> Option<&str> {
        let at = self.nulls.iter().min()?;
        Some(&self.list[*at].name)
    }

    fn clear(&mut self) {
        self.list.clear();
        self.nulls.clear();
        self.are_too_many = false;
    }

    /// An object, or an array of arrays of a name and a value.
    fn read(&mut self, reader: &mut Reader<'a>) -> Result<(), Fault> {
        self.clear();
        match reader.peek()? {
            Token::Null => reader.skip_value(),
            Token::BeginArray => {
                reader.begin_array()?;
                while reader.has_next()? {
                    reader.begin_array()?;
                    let name = reader.text_field()?;
                    let value = reader.text_field()?;
                    let name = name.ok_or_else(|| Fault::new(Kind::Null, "key == null"))?;
                    self.put(name, value)?;
                    reader.end_array()?;
                }
                reader.end_array()
            }
            _ => {
                reader.begin_object()?;
                while reader.has_next()? {
                    let name = reader.name()?;
                    let value = reader.text_field()?;
                    self.put(name, value)?;
                }
                reader.end_object()
            }
        }
    }

    fn put(&mut self, name: Cow<'a, str>, value: Option<Cow<'a, str>>) -> Result<(), Fault> {
        // The metric is refused: more tags need not be looked at.
        if self.are_too_many {
            return Ok(());
        }
        let known = self.list.iter().position(|tag| tag.name == name);
        let at = match known {
            Some(at) if !self.is_null(at) => {
                return Err(Fault::new(Kind::Syntax, format!("duplicate key: {name}")));
            }
            Some(at) => at,
            None if self.list.len() == MAX_TAGS => {
                self.are_too_many = true;
                return Ok(());
            }
            None => {
                self.list.push(Tag { name, value: Cow::Borrowed("") });
                self.list.len() - 1
            }
        };
        self.nulls.retain(|null| *null != at);
        match value {
            Some(value) => self.list[at].value = value,
            None => self.nulls.push(at),
        }
        Ok(())
    }
}

/// The place of an array of arrays of any values, which is passed.
fn find_datapoints<'a>(reader: &mut Reader<'a>) -> Result<Option<Reader<'a>>, Fault> {
    if reader.peek()? == Token::Null {
        reader.skip_value()?;
        return Ok(None);
    }
    let place = reader.clone();
    reader.begin_array()?;
    while reader.has_next()? {
        if reader.peek()? == Token::Null {
            reader.skip_value()?;
            continue;
        }
        reader.begin_array()?;
        while reader.has_next()? {
            Element::read(reader)?;
        }
        reader.end_array()?;
    }
    reader.end_array()?;
    Ok(Some(place))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{fails, metric, parse, partly, refuses, stores};
    use super::super::{NO_CONTENT, Status};
    use crate::MAX_DEPTH;

    #[test]
    fn of_repeated_fields_the_last_holds() {
        stores(
            r#"{"tags":{"x":"y"},"datapoints":[[1,1]],"name":"n","value":5,"timestamp":9,"datapoints":[[2,2]],
                "tags":[["a","b"],[true,5.0]],"name":"m","timestamp":null}"#
                .replace(r#""value":5,"#, "")
                .as_str(),
            "m{a=b,true=5.0}\n2 2",
        );
        // A null may be replaced, a value not.
        stores(
            r#"{"name":"m","tags":{"a":null,"b":1,"a":2},"time":1,"value":1}"#,
            "m{a=2,b=1}\n1 1",
        );
        refuses(r#"{"name":"m","tags":{"a":1,"a":1},"time":1,"value":1}"#, &["duplicate key: a"]);
        fails(r#"[{"tags":[[null,1]]}]"#, "", "key == null");
    }

    #[test]
    fn lenient_json_is_read() {
        stores(
            "\u{feff} {name = m; # a comment\n 'tags' => {a: b}, // another\r 'other': [{x: [1, 'y\\u0041']}],\n \
             /* * / */ datapoints: [[1, 2]; [3, nullsoft], [4; TRUE]]} what follows",
            "m{a=b}\n1 2\n3 'nullsoft'\n4 'true'",
        );
        stores(r#"[] []"#, "");
        stores(
            "{\"name\":\"\u{e9}\",\"tags\":{\"a\":\"\\u00e9\"},\"time\":1,\"value\":1}",
            "\u{e9}{a=\u{e9}}\n1 1",
        );
        let (text, _) = parse(b"{name:m,tags:{a:'b\xff\xe2\x82'},time:1,value:1}");
        assert_eq!(text, "m{a=b\u{fffd}\u{fffd}}\n1 1\n");
    }

    #[test]
    fn faults_have_the_texts_and_places_of_gson() {
        let malformed = "com.google.gson.stream.MalformedJsonException: ";
        let state = "java.lang.IllegalStateException: Expected ";
        let number = "java.lang.NumberFormatException: ";
        let lenient = "Use JsonReader.setLenient(true) to accept malformed JSON";
        for (body, before, text) in [
            // Between metrics JSON has to be strict.
            ("\"x\"", lenient, " at line 1 column 2"),
            ("]", "", "Unexpected value at line 1 column 2"),
            ("/**/[]", lenient, " at line 1 column 2"),
            ("[,]", lenient, " at line 1 column 3"),
            ("[{},]", lenient, " at line 1 column 6"),
            ("[{};", lenient, " at line 1 column 5"),
            ("[{} #", lenient, " at line 1 column 6"),
            ("[1;", lenient, " at line 1 column 2"),
            ("[x]", lenient, " at line 1 column 2"),
            ("[}", "", "Expected value at line 1 column 2"),
            ("[{}{}]", "", "Unterminated array at line 1 column 5"),
            ("[5]", state, "BEGIN_OBJECT but was NUMBER at line 1 column 3"),
            ("[5.5]", state, "BEGIN_OBJECT but was NUMBER at line 1 column 2"),
            ("[\"x\"]", state, "BEGIN_OBJECT but was STRING at line 1 column 3"),
            ("[[", state, "BEGIN_OBJECT but was BEGIN_ARRAY at line 1 column 3"),
            ("[true]", state, "BEGIN_OBJECT but was BOOLEAN at line 1 column 6"),
            // Within them it has not, and exceptions are wrapped.
            ("{", "java.io.EOFException: ", "End of input at line 1 column 2"),
            ("{\"name\":\"a\"]", malformed, "Unterminated object at line 1 column 13"),
            ("{\"name\":\"a\",}", malformed, "Expected name at line 1 column 14"),
            ("{[", malformed, "Expected name at line 1 column 2"),
            ("{\"name\" \"a\"}", malformed, "Expected ':' at line 1 column 10"),
            ("{\"name\":}", malformed, "Expected value at line 1 column 9"),
            ("{\"name\":,", malformed, "Unexpected value at line 1 column 10"),
            ("{\"name\":\"a", malformed, "Unterminated string at line 1 column 11"),
            ("{\"name\":\"a\\", malformed, "Unterminated escape sequence at line 1 column 12"),
            ("{\"name\":\"\\u12", malformed, "Unterminated escape sequence at line 1 column 12"),
            ("{\"x\":\"\\u12\"", malformed, "Unterminated escape sequence at line 1 column 9"),
            ("{\"name\":\"\\u12g4\"}", "", "Invalid JSON"),
            ("{\"x\":[\"\\u12g4\"]}", "", "Invalid JSON"),
            ("{/*\n *", malformed, "Unterminated comment at line 2 column 2"),
            ("{\n \"name\" 5}", malformed, "Expected ':' at line 2 column 10"),
            ("{\"é😀\" 5}", malformed, "Expected ':' at line 1 column 9"),
            ("\u{feff}{\"a\" 5}", malformed, "Expected ':' at line 1 column 7"),
            ("{\"value\":[1", "java.io.EOFException: ", "End of input at line 1 column 12"),
            ("{\"value\":[1}", malformed, "Unterminated array at line 1 column 13"),
            ("{\"name\":{}}", state, "a string but was BEGIN_OBJECT at line 1 column 10"),
            ("{\"tags\":5}", state, "BEGIN_OBJECT but was NUMBER at line 1 column 10"),
            ("{\"tags\":[[\"a\"]]}", state, "a string but was END_ARRAY at line 1 column 15"),
            ("{\"tags\":[[1,2,3]]}", state, "END_ARRAY but was NUMBER at line 1 column 16"),
            ("{\"datapoints\":{}}", state, "BEGIN_ARRAY but was BEGIN_OBJECT at line 1 column 16"),
            ("{\"datapoints\":[5]}", state, "BEGIN_ARRAY but was NUMBER at line 1 column 17"),
            ("{\"skip_validate\":1}", state, "a boolean but was NUMBER at line 1 column 19"),
            ("{\"timestamp\":abc}", state, "a long but was STRING at line 1 column 14"),
            ("{\"timestamp\":true}", state, "a long but was BOOLEAN at line 1 column 18"),
            ("{\"timestamp\":1.5}", number, "Expected a long but was 1.5 at line 1 column 17"),
            ("{\"time\":\"1.5\"}", number, "Expected a long but was 1.5 at line 1 column 14"),
            ("{\"time\":\"abc\"}", number, "For input string: \"abc\""),
            ("{\"time\":\"\"}", number, "empty String"),
            ("{\"time\":\"\\u12g4\"}", number, "\\u12g4"),
            ("{\"time\":1e19}", number, "Expected a long but was 1e19 at line 1 column 13"),
            (
                "{\"ttl\":3000000000}",
                number,
                "Expected an int but was 3000000000 at line 1 column 18",
            ),
            ("{\"ttl\":0.5}", number, "Expected an int but was 0.5 at line 1 column 11"),
        ] {
            refuses(body, &[&format!("{before}{text}")]);
        }
        fails("[null]", "", "metric[0] may not be null.");
        refuses("[", &[NO_CONTENT, NO_CONTENT]);
        refuses(
            "[ {} ",
            &[
                "metric[0].name may not be null.",
                "metric[0].tags count must be greater than or equal to 1.",
                NO_CONTENT,
                NO_CONTENT,
            ],
        );
        // Integers may be written as doubles, in these fields too.
        let stored = "m{a=b} ttl 60\n9223372036854775807 1";
        stores(&metric(r#""time":9223372036854775808,"ttl":"6e1","value":1"#), stored);
        stores(&metric(r#""time":"9223372036854775807","ttl":60.0,"value":1"#), stored);
    }

    #[test]
    fn a_fault_in_a_metric_leaves_nothing_of_it() {
        let before = r#"[{"name":"ok","tags":{"a":"b"},"time":1,"value":1},{"name":"no"},"#;
        let last = r#"{"name":"m","tags":{"a":"b"},"datapoints":[[1,2]],"x":}]"#;
        let text =
            "com.google.gson.stream.MalformedJsonException: Expected value at line 2 column 55";
        partly(&format!("{before}\n{last}"), "ok{a=b}\n1 1", &[text]);
    }

    #[test]
    fn nesting_has_a_limit() {
        for (before, levels) in [(r#"{"value":"#, 1), (r#"{"x":"#, 1), (r#"[{"datapoints":[["#, 4)]
        {
            for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
                let text =
                    |more: usize| format!("{before}{}", open.repeat(MAX_DEPTH - levels + more));
                let (_, answer) =
                    parse(format!("{}1{}", text(0), close.repeat(MAX_DEPTH)).as_bytes());
                assert!(!answer.errors.texts().concat().contains("nesting"), "{:?}", answer.errors);
                for more in [1, 1_000_000] {
                    let (_, answer) = parse(text(more).as_bytes());
                    assert_eq!(answer.status, Status::Refused);
                    assert!(
                        answer.errors.texts()[0]
                            .starts_with("More than 64 levels of nesting at line 1")
                    );
                }
            }
        }
    }
}
