//! A value of any type, and its conversions: gson's `JsonElement`.
//!
//! Of objects, and of arrays without or with several elements, only the type is kept, since KairosDB can use none of
//! them. An array of one element converts as this element.

use std::borrow::Cow;

use promkairos_kairos_json::{Fault, Reader, Scalar, Token, java};

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Element<'a> {
    pub(crate) leaf: Leaf<'a>,
    /// Whether the leaf is the only element of an array, or of an array in an array, and so on.
    pub(crate) is_wrapped: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Leaf<'a> {
    Null,
    Bool(bool),
    Long(i64),
    /// Any other number.
    Number(&'a str),
    Text(Cow<'a, str>),
    Object,
    /// An array without elements.
    Empty,
    /// An array of several elements.
    Several,
}

/// Why a value cannot be converted: the text of Java's exception, or one of ours where that has none.
pub(crate) type Cause = Cow<'static, str>;

impl<'a> From<Leaf<'a>> for Element<'a> {
    fn from(leaf: Leaf<'a>) -> Self {
        Self { leaf, is_wrapped: false }
    }
}

impl<'a> Element<'a> {
    /// Reads the next value.
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, Fault> {
        let leaf = match reader.peek()? {
            Token::BeginArray => return Self::read_array(reader),
            Token::BeginObject => {
                reader.skip_value()?;
                Leaf::Object
            }
            _ => match reader.scalar()? {
                Scalar::Null => Leaf::Null,
                Scalar::Bool(value) => Leaf::Bool(value),
                Scalar::Number { long: Some(long), .. } => Leaf::Long(long),
                Scalar::Number { text, long: None } => Leaf::Number(text),
                Scalar::Text(text) => Leaf::Text(text),
            },
        };
        Ok(leaf.into())
    }

    fn read_array(reader: &mut Reader<'a>) -> Result<Self, Fault> {
        reader.begin_array()?;
        let mut element = Self::from(Leaf::Empty);
        let mut count = 0_u64;
        while reader.has_next()? {
            let next = Self::read(reader)?;
            count += 1;
            element = match count {
                1 => Self { is_wrapped: true, ..next },
                _ => Leaf::Several.into(),
            };
        }
        reader.end_array()?;
        Ok(element)
    }

    pub(crate) fn is_null(&self) -> bool {
        self.leaf == Leaf::Null && !self.is_wrapped
    }

    /// As a text.
    pub(crate) fn into_text(self) -> Result<Cow<'a, str>, Cause> {
        match self.leaf {
            Leaf::Bool(value) => Ok(Cow::Borrowed(shown(value))),
            Leaf::Long(long) => Ok(Cow::Owned(long.to_string())),
            Leaf::Number(number) => Ok(Cow::Borrowed(number)),
            Leaf::Text(text) => Ok(text),
            other => Err(no_value(&other)),
        }
    }

    /// Whether the text of the value is empty.
    pub(crate) fn is_empty_text(&self) -> Result<bool, Cause> {
        match &self.leaf {
            Leaf::Bool(_) | Leaf::Long(_) | Leaf::Number(_) => Ok(false),
            Leaf::Text(text) => Ok(text.is_empty()),
            other => Err(no_value(other)),
        }
    }

    /// As a long: numbers are cut off and wrap, texts must be integers.
    pub(crate) fn long(&self) -> Result<i64, Cause> {
        let long = match &self.leaf {
            Leaf::Long(long) => Ok(*long),
            Leaf::Number(number) => java::wrapped_long(number),
            Leaf::Text(text) => java::parse_long(text),
            Leaf::Bool(value) => java::parse_long(shown(*value)),
            other => return Err(no_value(other)),
        };
        long.map_err(Cow::Owned)
    }

    /// As a double.
    pub(crate) fn double(&self) -> Result<f64, Cause> {
        let double = match &self.leaf {
            Leaf::Long(long) => Ok(*long as f64),
            Leaf::Number(number) => java::parse_double(number),
            Leaf::Text(text) => java::parse_double(text),
            Leaf::Bool(value) => java::parse_double(shown(*value)),
            other => return Err(no_value(other)),
        };
        double.map_err(Cow::Owned)
    }
}

fn shown(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

fn no_value(leaf: &Leaf<'_>) -> Cause {
    Cow::Borrowed(match leaf {
        Leaf::Null => "JsonNull",
        Leaf::Object => "JsonObject",
        _ => "an array has to have one element",
    })
}
