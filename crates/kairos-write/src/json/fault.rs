//! Why gson does not read on. The kinds are the exceptions of Java, since KairosDB answers each in its own way.

use std::fmt;

/// Why reading ends, with the text of the exception.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

/// The exceptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `EOFException`
    End,
    /// `MalformedJsonException`
    Malformed,
    /// `IllegalStateException`: another type than the field has.
    State,
    /// `NumberFormatException`, of an escape or of a number.
    Number,
    /// `JsonSyntaxException`, whose text is complete.
    Syntax,
    /// `NullPointerException`, which gson does not expect.
    Null,
}

impl Fault {
    pub(crate) fn new(kind: Kind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }
}

/// What KairosDB says of a fault within a metric: gson wraps most exceptions in one of its own.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exception = match self.kind {
            Kind::End => "java.io.EOFException: ",
            Kind::Malformed => "com.google.gson.stream.MalformedJsonException: ",
            Kind::State => "java.lang.IllegalStateException: ",
            Kind::Number => return f.write_str("Invalid JSON"),
            Kind::Syntax | Kind::Null => "",
        };
        write!(f, "{exception}{}", self.text)
    }
}
