//! The array of a point, and its value as a value of its type.
//!
//! Without a type the text decides: numbers, and texts that look like numbers, are long, or double if they have a
//! point. So `1e5` is the long 100000, and `"1e5"` a text.

use promkairos_kairos_json::{Fault, Reader, Token};

use crate::element::{Cause, Element, Leaf};
use crate::point::Value;

/// An array of a time, a value and a type. What follows is ignored.
#[derive(Debug, Default)]
pub(crate) struct Datapoint<'a> {
    pub(crate) time: Option<Element<'a>>,
    pub(crate) value: Option<Element<'a>>,
    pub(crate) kind: Option<Element<'a>>,
}

impl<'a> Datapoint<'a> {
    /// Reads a point; none if it is null.
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Option<Self>, Fault> {
        if reader.peek()? == Token::Null {
            reader.skip_value()?;
            return Ok(None);
        }
        reader.begin_array()?;
        let mut datapoint = Self::default();
        for part in [&mut datapoint.time, &mut datapoint.value, &mut datapoint.kind] {
            if reader.has_next()? {
                *part = Some(Element::read(reader)?);
            }
        }
        while reader.has_next()? {
            Element::read(reader)?;
        }
        reader.end_array()?;
        Ok(Some(datapoint))
    }
}

/// Why a value has no type, or cannot be of its type.
pub(crate) enum NotTyped<'k> {
    /// No type is said, and the value is neither a number nor a text.
    Invalid,
    /// KairosDB does not know the type.
    Unregistered(&'k str),
    /// The value cannot be converted.
    Failed(Cause),
}

/// The value as one of a type.
pub(crate) fn typed<'a, 'k>(
    value: Element<'a>,
    kind: Option<&'k str>,
) -> Result<Value<'a>, NotTyped<'k>> {
    let kind = match kind {
        Some(kind) => kind,
        None => own_kind(&value).ok_or(NotTyped::Invalid)?,
    };
    let typed = match kind {
        "long" if value.is_null() => Ok(Value::Long(0)),
        "long" => value.long().map(Value::Long),
        "double" if value.is_null() => Ok(Value::Double(0.0)),
        "double" => value.double().map(Value::Double),
        "string" => value.into_text().map(Value::String),
        kind => return Err(NotTyped::Unregistered(kind)),
    };
    typed.map_err(NotTyped::Failed)
}

fn own_kind(value: &Element<'_>) -> Option<&'static str> {
    let of_number = |number: &str| if number.contains('.') { "double" } else { "long" };
    match &value.leaf {
        _ if value.is_wrapped => None,
        Leaf::Long(_) => Some("long"),
        Leaf::Number(number) => Some(of_number(number)),
        Leaf::Text(text) if is_number(text) => Some(of_number(text)),
        Leaf::Text(_) | Leaf::Bool(_) => Some("string"),
        Leaf::Null | Leaf::Object | Leaf::Empty | Leaf::Several => None,
    }
}

/// Whether KairosDB sees a number in a text.
fn is_number(text: &str) -> bool {
    let rest = text.strip_prefix(['+', '-', '.']).unwrap_or(text);
    // A first point does not count, so `.1.2` is a number, which the parser of doubles refuses.
    !rest.is_empty()
        && !rest.ends_with('.')
        && rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        && rest.bytes().filter(|byte| *byte == b'.').count() <= 1
}

#[cfg(test)]
mod tests {
    use super::super::tests::{fails, metric, refuses, stores};
    use super::is_number;

    #[test]
    fn texts_of_digits_are_numbers() {
        for text in ["7", "-7", "+7", "7.5", ".5", "-.5", ".1.2"] {
            assert!(is_number(text), "{text}");
        }
        for text in ["", "+", "-", ".", "7.", "1.2.3", "1e5", "NaN", " 7", "7 ", "--7", "٣"] {
            assert!(!is_number(text), "{text}");
        }
    }

    /// What of a value is stored, as a point of a metric.
    #[track_caller]
    fn value(value: &str, stored: &str) {
        stores(
            &metric(&format!(r#""datapoints":[[1,{value}]]"#)),
            &format!("m{{a=b}}\n1 {stored}"),
        );
        stores(
            &metric(&format!(r#""timestamp":1,"value":{value}"#)),
            &format!("m{{a=b}}\n1 {stored}"),
        );
    }

    #[test]
    fn the_text_decides_the_type_of_a_value() {
        for (text, stored) in [
            ("5", "5"),
            ("-0", "0"),
            ("-0.0", "-0.0"),
            ("1e5", "100000"),
            ("1.5e-1", "0.15"),
            ("1.0e400", "inf"),
            ("9223372036854775807", "9223372036854775807"),
            ("9223372036854775808", "-9223372036854775808"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("1e63", "-9223372036854775808"),
            ("1e2000000000", "0"),
            ("\"+7\"", "7"),
            ("\".5\"", "0.5"),
            ("\"5.\"", "'5.'"),
            ("\"NaN\"", "'NaN'"),
            ("NaN", "'NaN'"),
            ("Infinity", "'Infinity'"),
            ("true", "'true'"),
            ("FALSE", "'false'"),
            ("nullable", "'nullable'"),
            // No numbers of JSON, so texts without quotes; some look like numbers all the same.
            ("007", "7"),
            ("00.5", "0.5"),
            ("+7", "7"),
            ("5.", "'5.'"),
            ("1e", "'1e'"),
            ("-", "'-'"),
            ("0x1F", "'0x1F'"),
            ("\"\\ud83d\\ude00 \\u00e9\\t\\x\\/\"", "'😀 é\tx/'"),
            ("\"\\ud83d \\ude00\\ud83d\"", "'? ??'"),
            ("'a\\'b\\é'", "'a'bé'"),
        ] {
            value(text, stored);
        }
        // From the length of gson's buffer on, digits are a text.
        let digits = "1".repeat(1023);
        let long = digits.bytes().fold(0_i64, |long, _| long.wrapping_mul(10).wrapping_add(1));
        value(&digits, &long.to_string());
        let cause = format!("For input string: \"1{digits}\"");
        fails(&metric(&format!(r#""datapoints":[[1,1{digits}]]"#)), "", &cause);
    }

    #[test]
    fn a_type_converts_the_value() {
        let typed =
            |datapoint: &str| metric(&format!(r#""type":"string","datapoints":[{datapoint}]"#));
        for (datapoint, stored) in [
            ("[1,5]", "'5'"),
            ("[1,-0]", "'0'"),
            ("[1,5.50]", "'5.50'"),
            ("[1,true]", "'true'"),
            ("[1,[\"x\"]]", "'x'"),
            ("[1,5.9,\"long\"]", "5"),
            ("[1,[[5.9]],\"long\"]", "5"),
            ("[1,\"5\",\"double\"]", "5.0"),
            ("[1,\" NaN\",\"double\"]", "NaN"),
            ("[1,-Infinity,\"double\"]", "-inf"),
            ("[1,7,double]", "7.0"),
            ("[1,7,[\"long\"],8,{}]", "7"),
            ("[[1],7,\"long\"]", "7"),
        ] {
            stores(&typed(datapoint), &format!("m{{a=b}}\n1 {stored}"));
        }
        for (datapoint, cause) in [
            ("[1,\"5.5\",\"long\"]", "For input string: \"5.5\""),
            ("[1,true,\"long\"]", "For input string: \"true\""),
            ("[1,\"99999999999999999999\",\"long\"]", "For input string: \"99999999999999999999\""),
            ("[1,\"x\",\"double\"]", "For input string: \"x\""),
            ("[1,{},\"long\"]", "JsonObject"),
            ("[1,{}]", "JsonObject"),
            ("[1,[null]]", "JsonNull"),
            ("[1,[1,2]]", "an array has to have one element"),
            ("[1,[[]]]", "an array has to have one element"),
            ("[\"x\",1]", "For input string: \"x\""),
            ("[{},1]", "JsonObject"),
            ("[true,1]", "For input string: \"true\""),
            ("[1,2,null]", "JsonNull"),
            ("null", "metric[0](name=m).datapoints[0] may not be null."),
        ] {
            fails(&typed(datapoint), "", cause);
        }
        refuses(&typed("[1,2,\"null\"]"), &["Unregistered data point type 'null'"]);
        refuses(
            &typed("[1,[]]"),
            &["metric[0](name=m).datapoints[0].value may not be an empty array."],
        );
        refuses(
            &typed("[]"),
            &["metric[0](name=m).datapoints[0].timestamp cannot be null or empty."],
        );
        fails(&metric(r#""datapoints":[[1,".1.2"]]"#), "", "multiple points");
        // What was stored before stays.
        fails(
            &metric(r#""datapoints":[[1,2],]"#),
            "m{a=b}\n1 2",
            "metric[0](name=m).datapoints[1] may not be null.",
        );
        refuses(
            &metric(r#""datapoints":[[1,[5]]]"#),
            &["metric[0](name=m) value is an invalid type"],
        );
    }
}
