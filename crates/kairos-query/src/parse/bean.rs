//! Values of properties, as Gson converts them for KairosDB: strings of digits are numbers, numbers are strings.
//!
//! `None` is null. Where KairosDB answers 500, the text here names the property.

use promkairos_kairos_json::java;

use crate::error::QueryError;
use crate::json::Json;
use crate::time::{Sampling, TimeUnit, Zone};

/// A property of an object, and where it is.
#[derive(Clone, Copy)]
pub(super) struct Bean<'a> {
    /// The object, such as `query.metric[0].aggregators[0]`.
    pub(super) context: &'a str,
    /// The property.
    pub(super) property: &'a str,
    /// Its value.
    pub(super) value: &'a Json,
}

/// A length of time whose rules are not checked.
#[derive(Debug)]
pub(super) struct Length {
    value: i64,
    unit: Option<TimeUnit>,
}

impl Length {
    /// What is wrong with it.
    pub(super) fn violations(&self) -> Vec<&'static str> {
        let mut violations = Vec::new();
        if self.value < 0 {
            violations.push("value must be greater than or equal to 0");
        }
        if self.unit.is_none() {
            violations.push("unit may not be null");
        }
        violations
    }

    /// `None` without a unit.
    pub(super) fn sampling(&self) -> Option<Sampling> {
        self.unit.map(|unit| Sampling { value: self.value, unit })
    }
}

impl<'a> Bean<'a> {
    /// `long`.
    pub(super) fn long(self) -> Result<Option<i64>, QueryError> {
        match self.value {
            Json::Null => Ok(None),
            // Java refuses the exponents that are beyond an `int`.
            Json::Number(text) => Ok(Some(java::wrapped_long(text).unwrap_or_default())),
            Json::Text(text) => java::parse_long(text).map(Some).map_err(no_number),
            _ => Err(self.expected("NUMBER")),
        }
    }

    /// `int`.
    pub(super) fn int(self) -> Result<Option<i32>, QueryError> {
        match self.value {
            Json::Text(text) => java::parse_int(text).map(Some).map_err(no_number),
            // Java takes the low bits too.
            _ => Ok(self.long()?.map(|value| value as i32)),
        }
    }

    /// `double`.
    pub(super) fn double(self) -> Result<Option<f64>, QueryError> {
        match self.value {
            Json::Null => Ok(None),
            Json::Number(text) | Json::Text(text) => {
                java::parse_double(text).map(Some).map_err(|message| self.invalid(&message))
            }
            _ => Err(self.expected("NUMBER")),
        }
    }

    /// `boolean`. Strings but `true` are false.
    pub(super) fn boolean(self) -> Result<Option<bool>, QueryError> {
        match self.value {
            Json::Null => Ok(None),
            Json::Bool(value) => Ok(Some(*value)),
            Json::Text(text) => Ok(Some(text.eq_ignore_ascii_case("true"))),
            _ => Err(self.expected("BOOLEAN")),
        }
    }

    /// `String`.
    pub(super) fn text(self) -> Result<Option<String>, QueryError> {
        match self.value {
            Json::Null => Ok(None),
            Json::List(_) | Json::Object(_) => Err(self.expected("STRING")),
            value => Ok(value.as_text()),
        }
    }

    /// `List<String>`.
    pub(super) fn texts(self) -> Result<Option<Vec<String>>, QueryError> {
        self.list(|value| match value {
            Json::Text(text) => Ok(text.clone()),
            _ => Err(self.invalid("must be a list of strings")),
        })
    }

    /// `double[]`.
    pub(super) fn doubles(self) -> Result<Option<Vec<f64>>, QueryError> {
        self.list(|value| {
            let number = Self { value, ..self }.double()?.filter(|number| number.is_finite());
            number.ok_or_else(|| self.invalid("must be a list of finite numbers"))
        })
    }

    /// A list.
    pub(super) fn list<T>(
        self,
        read: impl FnMut(&'a Json) -> Result<T, QueryError>,
    ) -> Result<Option<Vec<T>>, QueryError> {
        match self.value {
            Json::Null => Ok(None),
            Json::List(list) => list.iter().map(read).collect::<Result<_, _>>().map(Some),
            _ => Err(self.expected("BEGIN_ARRAY")),
        }
    }

    /// `Map<String, String>`.
    pub(super) fn map(self) -> Result<Option<Vec<(String, String)>>, QueryError> {
        let Some(members) = self.object()? else { return Ok(None) };
        let text = |(name, value): &(String, Json)| match value {
            Json::Text(text) => Ok((name.clone(), text.clone())),
            _ => Err(self.invalid("must be an object of strings")),
        };
        members.iter().map(text).collect::<Result<_, _>>().map(Some)
    }

    /// Members of an object.
    pub(super) fn object(self) -> Result<Option<&'a [(String, Json)]>, QueryError> {
        match self.value {
            Json::Null => Ok(None),
            Json::Object(members) => Ok(Some(members)),
            _ => Err(self.expected("BEGIN_OBJECT")),
        }
    }

    /// A length of time: of `RelativeTime`, `Sampling` and `Duration`.
    pub(super) fn length(self) -> Result<Option<Length>, QueryError> {
        let Some(members) = self.object()? else { return Ok(None) };
        let mut length = Length { value: 0, unit: None };
        for (name, value) in members {
            let member = Self { value, ..self };
            match name.as_str() {
                "value" => length.value = member.long()?.unwrap_or(0),
                "unit" => length.unit = member.unit()?,
                _ => {}
            }
        }
        Ok(Some(length))
    }

    /// A length of time that keeps its rules.
    pub(super) fn sampling(self) -> Result<Option<Sampling>, QueryError> {
        let Some(length) = self.length()? else { return Ok(None) };
        let context = format!("{}.{}", self.context, self.property);
        let messages: Vec<String> =
            length.violations().into_iter().map(|text| format!("{context}.{text}")).collect();
        match length.sampling() {
            Some(sampling) if messages.is_empty() => Ok(Some(sampling)),
            _ => Err(QueryError::Invalid(messages)),
        }
    }

    /// A unit of time.
    pub(super) fn unit(self) -> Result<Option<TimeUnit>, QueryError> {
        if *self.value == Json::Null {
            return Ok(None);
        }
        let name = self.as_text()?;
        let unit = TimeUnit::parse(&name);
        let names = TimeUnit::ALL.map(TimeUnit::name).join(",");
        let message = format!("is not a valid time unit, must be one of {names}");
        unit.map(Some).ok_or_else(|| QueryError::invalid(self.context, &name, &message))
    }

    /// A time zone.
    pub(super) fn zone(self) -> Result<Option<Zone>, QueryError> {
        if *self.value == Json::Null {
            return Ok(None);
        }
        let id = self.as_text()?;
        if id.is_empty() {
            return Ok(Some(Zone::UTC));
        }
        let message =
            || format!("is not a valid time zone, must be one of [{}]", Zone::names().join(", "));
        let zone = Zone::parse(&id);
        zone.map(Some).ok_or_else(|| QueryError::invalid(self.context, &id, &message()))
    }

    /// One of a few names, which KairosDB compares without case.
    pub(super) fn one_of<T: Copy>(self, values: &[(&str, T)]) -> Result<Option<T>, QueryError> {
        if *self.value == Json::Null {
            return Ok(None);
        }
        let name = self.as_text()?;
        let found = values.iter().find(|(known, _)| known.eq_ignore_ascii_case(&name));
        let message = || {
            let names: Vec<String> = values.iter().map(|(name, _)| format!("'{name}'")).collect();
            let (last, first) = names.split_last().map_or(("", &[][..]), |(l, f)| (l.as_str(), f));
            format!("is not a valid trim type, must be {} or {last}.", first.join(", "))
        };
        let found = found.map(|(_, value)| Some(*value));
        found.ok_or_else(|| QueryError::invalid(self.context, &name, &message()))
    }

    /// One of a few names in lower case, of which KairosDB takes all others as null.
    pub(super) fn lowercase<T: Copy>(self, values: &[(&str, T)]) -> Result<Option<T>, QueryError> {
        let Some(name) = self.text()? else { return Ok(None) };
        let found = values.iter().find(|(known, _)| *known == name).map(|(_, value)| Some(*value));
        found.ok_or_else(|| {
            let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
            self.invalid(&format!("must be one of {}", names.join(", ")))
        })
    }

    /// A value that may not be null.
    pub(super) fn required<T>(self, value: Option<T>) -> Result<T, QueryError> {
        value.ok_or_else(|| self.invalid("may not be null"))
    }

    /// The text of anything that has one.
    fn as_text(self) -> Result<String, QueryError> {
        self.value.as_text().ok_or_else(|| self.invalid("must be a string"))
    }

    pub(super) fn invalid(self, message: &str) -> QueryError {
        QueryError::invalid(self.context, self.property, message)
    }

    fn expected(self, what: &str) -> QueryError {
        let is = match self.value {
            Json::Null => "NULL",
            Json::Bool(_) => "BOOLEAN",
            Json::Number(_) => "NUMBER",
            Json::Text(_) => "STRING",
            Json::List(_) => "BEGIN_ARRAY",
            Json::Object(_) => "BEGIN_OBJECT",
        };
        QueryError::Json(format!("java.lang.IllegalStateException: Expected {what} but was {is}"))
    }
}

/// Where gson reads a number, the text names the class of the exception that it wraps.
const NO_NUMBER: &str = "java.lang.NumberFormatException: ";

fn no_number(message: String) -> QueryError {
    QueryError::Json(format!("{NO_NUMBER}{message}"))
}

impl QueryError {
    /// Where KairosDB takes a number out of the tree itself, nothing wraps the exception.
    pub(super) fn without_class(self) -> Self {
        match self {
            Self::Json(text) => Self::Json(text.replacen(NO_NUMBER, "", 1)),
            other => other,
        }
    }
}
