//! Why gson does not read on. The kinds are the exceptions of Java, since KairosDB answers each in its own way.

use std::fmt;

/// Why reading ends, with the text of the exception.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Which exception.
    pub kind: Kind,
    /// What it says.
    pub text: String,
}

/// The exceptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `EOFException`
    End,
    /// `MalformedJsonException`
    Malformed,
    /// `IllegalStateException`: another type than the one that is wanted.
    State,
    /// `NumberFormatException`, of an escape.
    Number,
    /// `JsonSyntaxException`, whose text is complete.
    Syntax,
    /// `NullPointerException`, which gson does not expect.
    Null,
    /// None of gson: arrays and objects are nested deeper than the caller allows.
    Depth,
}

impl Fault {
    /// A fault with a text.
    pub fn new(kind: Kind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }
}

/// The text of the exception in which gson wraps it.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exception = match self.kind {
            Kind::End => "java.io.EOFException: ",
            Kind::Malformed => "com.google.gson.stream.MalformedJsonException: ",
            Kind::State => "java.lang.IllegalStateException: ",
            Kind::Number => "java.lang.NumberFormatException: ",
            Kind::Syntax | Kind::Null | Kind::Depth => "",
        };
        write!(f, "{exception}{}", self.text)
    }
}

impl std::error::Error for Fault {}
