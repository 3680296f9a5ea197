//! Negotiates the format of the page and the escaping of names from the header `Accept`.
//!
//! The rules are those of Prometheus: clauses are read in falling weight, and the first clause that matches a format
//! decides. A bare `*/*` matches no format, so such a client gets text. The textual forms of protocol buffers
//! (`encoding=text` and `compact-text`), which are for people, are not supported.

use crate::escaping::Escaping;

/// The version of the text format.
const TEXT_VERSION: &str = "0.0.4";
/// The message of the format in protocol buffers.
const MESSAGE: &str = "io.prometheus.client.MetricFamily";
/// Most clauses that are read; no known client sends as many.
const MOST_CLAUSES: usize = 64;

/// The format of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) encoding: Encoding,
    pub(super) escaping: Escaping,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    /// The text format of Prometheus.
    Text,
    /// `MetricFamily` messages, each preceded by its length.
    Protobuf,
}

impl Format {
    /// What a header `Accept` asks for. The escaping comes from the last clause that names one, up to and including
    /// the clause that matches.
    pub(super) fn asked_for(accept: &str) -> Self {
        let mut escaping = Escaping::Underscores;
        for clause in in_order(accept) {
            let named = Escaping::ALL.into_iter().find(|scheme| scheme.name() == clause.escaping);
            escaping = named.unwrap_or(escaping);
            if let Some(encoding) = clause.encoding() {
                return Self { encoding, escaping };
            }
        }
        Self { encoding: Encoding::Text, escaping }
    }

    /// The header `Content-Type` of the page.
    pub(super) fn content_type(self) -> String {
        let escaping = self.escaping.name();
        match self.encoding {
            Encoding::Text => {
                format!("text/plain; version={TEXT_VERSION}; charset=utf-8; escaping={escaping}")
            }
            Encoding::Protobuf => format!(
                "application/vnd.google.protobuf; proto={MESSAGE}; encoding=delimited; escaping={escaping}"
            ),
        }
    }
}

/// The clauses of a header in the order of Prometheus. The order is not by weight alone: a clause with a concrete
/// type moves before a wildcard clause directly in front of it.
fn in_order(accept: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = Vec::new();
    for clause in accept.split(',').filter_map(Clause::parse).take(MOST_CLAUSES) {
        let before = clauses.iter().rposition(|other| !clause.passes(other));
        clauses.insert(before.map_or(0, |at| at + 1), clause);
    }
    clauses
}

/// A clause of a header `Accept`; missing parameters are empty.
#[derive(Default)]
struct Clause<'a> {
    kind: &'a str,
    subtype: &'a str,
    weight: f64,
    version: &'a str,
    escaping: &'a str,
    proto: &'a str,
    encoding: &'a str,
}

impl<'a> Clause<'a> {
    /// `None` if the clause names no type.
    fn parse(text: &'a str) -> Option<Self> {
        let blank = |text: &'a str| text.trim_matches(' ');
        let mut parts = blank(text).split(';');
        let range = parts.next().unwrap_or_default();
        let (kind, subtype) = match range.split_once('/') {
            Some((kind, subtype)) if !subtype.is_empty() => (blank(kind), blank(subtype)),
            _ if blank(range.trim_end_matches('/')) == "*" => ("*", "*"),
            _ => return None,
        };
        if subtype.contains('/') {
            return None;
        }
        let mut clause = Self { kind, subtype, weight: 1.0, ..Self::default() };
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            if value.is_empty() || value.contains('=') {
                continue;
            }
            match blank(key) {
                "q" => clause.weight = value.parse().unwrap_or(0.0),
                "version" => clause.version = blank(value),
                "escaping" => clause.escaping = blank(value),
                "proto" => clause.proto = blank(value),
                "encoding" => clause.encoding = blank(value),
                _ => {}
            }
        }
        Some(clause)
    }

    /// Whether this clause sorts before `other`, which is directly in front of it.
    fn passes(&self, other: &Self) -> bool {
        let names = |own: &str, others: &str| own != "*" && others == "*";
        self.weight > other.weight
            || names(self.kind, other.kind)
            || names(self.subtype, other.subtype)
    }

    /// The format that this clause matches.
    fn encoding(&self) -> Option<Encoding> {
        if self.takes("application", "vnd.google.protobuf")
            && (self.proto, self.encoding) == (MESSAGE, "delimited")
        {
            return Some(Encoding::Protobuf);
        }
        // The version is optional with a concrete type.
        let is_named = (self.kind, self.subtype) == ("text", "plain");
        let version = if is_named && self.version.is_empty() { TEXT_VERSION } else { self.version };
        (self.takes("text", "plain") && version == TEXT_VERSION).then_some(Encoding::Text)
    }

    fn takes(&self, kind: &str, subtype: &str) -> bool {
        ["*", kind].contains(&self.kind) && ["*", subtype].contains(&self.subtype)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_is_that_of_the_clause_that_is_answered() {
        use Escaping::{Dots, Underscores, Utf8, Values};
        let openmetrics = "application/openmetrics-text;version=1.0.0";
        let own = format!(
            "{openmetrics};escaping=dots;q=0.6,text/plain;version=1.0.0;escaping=values;q=0.5"
        );
        for (accept, want) in [
            ("", Underscores),
            ("text/plain", Underscores),
            ("text/plain;version=0.0.4;escaping=values", Values),
            ("text/plain; version=1.0.0; escaping=allow-utf-8", Utf8),
            ("text/plain; version=1.0.0; escaping=nonsense", Underscores),
            ("*/*;escaping=values;q=0.1,text/plain;version=0.0.4;escaping=dots", Dots),
            ("*/*;escaping=values,text/plain;version=0.0.4;q=0.5", Underscores),
            ("text/plain;version=0.0.4;q=0.5,*/*;escaping=values", Values),
            (&own, Values),
            ("text/html;escaping=values", Values),
            ("*;escaping=dots", Dots),
            ("text;escaping=dots", Underscores),
            ("text/plain/x;escaping=dots", Underscores),
            ("text/plain;escaping=dots=values", Underscores),
            ("text/plain;q=0.1;escaping=dots,text/html;q=much;escaping=values", Dots),
        ] {
            assert_eq!(
                Format::asked_for(accept),
                Format { encoding: Encoding::Text, escaping: want },
                "{accept}"
            );
        }
    }

    #[test]
    fn protocol_buffers_are_for_who_names_the_message_and_its_encoding() {
        use Encoding::{Protobuf, Text};
        use Escaping::{Dots, Underscores, Utf8, Values};
        let message = "proto=io.prometheus.client.MetricFamily";
        let delimited = format!("application/vnd.google.protobuf;{message};encoding=delimited");
        // The header of Prometheus 3, with native histograms and without.
        let native = format!(
            "{delimited};escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=1.0.0;\
             escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
             text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
        );
        let classic = format!(
            "application/openmetrics-text;version=1.0.0;escaping=values;q=0.6,text/plain;version=0.0.4;q=0.4,\
             {delimited};q=0.3,*/*;q=0.2"
        );
        for (accept, encoding, escaping) in [
            (delimited.clone(), Protobuf, Underscores),
            (delimited.replace(';', " ; "), Protobuf, Underscores),
            (format!("{delimited};escaping=dots"), Protobuf, Dots),
            (native, Protobuf, Utf8),
            (classic, Text, Values),
            (format!("{delimited};q=0.4,text/plain;q=0.5"), Text, Underscores),
            (format!("text/plain;q=0.4;escaping=dots,{delimited};q=0.5"), Protobuf, Underscores),
            (format!("{delimited},text/plain"), Protobuf, Underscores),
            (format!("text/plain,{delimited}"), Text, Underscores),
            (format!("text/html;escaping=values,{delimited};q=0.1"), Protobuf, Values),
            (format!("application/*;{message};encoding=delimited"), Protobuf, Underscores),
            (format!("*/*;{message};encoding=delimited"), Protobuf, Underscores),
            (format!("*/*,{delimited};q=0.1"), Protobuf, Underscores),
            (
                format!("application/*;{message};encoding=delimited,text/plain;q=0.9"),
                Text,
                Underscores,
            ),
            ("*/*".to_owned(), Text, Underscores),
            ("application/vnd.google.protobuf".to_owned(), Text, Underscores),
            (format!("application/vnd.google.protobuf;{message}"), Text, Underscores),
            ("application/vnd.google.protobuf;encoding=delimited".to_owned(), Text, Underscores),
            (format!("application/vnd.google.protobuf;{message};encoding=text"), Text, Underscores),
            (delimited.replace("MetricFamily", "Metric"), Text, Underscores),
        ] {
            assert_eq!(Format::asked_for(&accept), Format { encoding, escaping }, "{accept}");
        }
    }
}
