//! How names are written for a client that may know only plain ones: letters, digits, `_` and `:`.
//!
//! The schemes are those of Prometheus, and so is how one is chosen from a header `Accept`. Plain names stay what they
//! are in every scheme. Nothing is known here of formats but which clause of the header the text format answers.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::Write as _;

/// What becomes of a name that is not plain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Escaping {
    /// Nothing: it is written in quotes.
    Utf8,
    /// Each other character becomes `_`.
    Underscores,
    /// The same with two, and dots become `_dot_`.
    Dots,
    /// Each other character becomes its code, so that the name can be found again.
    Values,
}

impl Escaping {
    /// All of them.
    pub(super) const ALL: [Self; 4] = [Self::Utf8, Self::Underscores, Self::Dots, Self::Values];

    /// Its name in headers.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "allow-utf-8",
            Self::Underscores => "underscores",
            Self::Dots => "dots",
            Self::Values => "values",
        }
    }

    /// The scheme that a header `Accept` asks for. By falling weight, the last clause that names one decides, up to
    /// the first clause that the text format answers.
    pub(super) fn asked_for(accept: &str) -> Self {
        let mut clauses: Vec<Clause<'_>> = accept.split(',').filter_map(Clause::parse).collect();
        clauses.sort_by(Clause::order);
        let mut asked = Self::Underscores;
        for clause in clauses {
            let named = Self::ALL.into_iter().find(|scheme| scheme.name() == clause.escaping);
            asked = named.unwrap_or(asked);
            if clause.is_text() {
                break;
            }
        }
        asked
    }

    /// The name as it is written, without quotes.
    pub(super) fn escaped(self, name: &str) -> Cow<'_, str> {
        if self == Self::Utf8 || is_plain(name) {
            return Cow::Borrowed(name);
        }
        let mut out = String::with_capacity(name.len() * 2);
        if self == Self::Values {
            out.push_str("U__");
        }
        for (at, c) in name.char_indices() {
            let plain = is_plain_at(at, c);
            match self {
                Self::Dots if c == '.' => out.push_str("_dot_"),
                Self::Values if !plain => {
                    let _ = write!(out, "_{:x}_", u32::from(c));
                }
                Self::Dots | Self::Values if c == '_' => out.push_str("__"),
                _ if plain => out.push(c),
                Self::Dots => out.push_str("__"),
                _ => out.push('_'),
            }
        }
        Cow::Owned(out)
    }
}

/// Whether a name needs neither quotes nor escapes.
pub(super) fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.char_indices().all(|(at, c)| is_plain_at(at, c))
}

fn is_plain_at(at: usize, c: char) -> bool {
    c == '_' || c == ':' || c.is_ascii_alphabetic() || (at > 0 && c.is_ascii_digit())
}

/// A clause of a header `Accept`.
struct Clause<'a> {
    kind: &'a str,
    subtype: &'a str,
    weight: f64,
    version: &'a str,
    escaping: &'a str,
}

impl<'a> Clause<'a> {
    /// `None` where it names no type.
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
        let mut clause = Self { kind, subtype, weight: 1.0, version: "", escaping: "" };
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            if value.is_empty() || value.contains('=') {
                continue;
            }
            match blank(key) {
                "q" => clause.weight = value.parse().unwrap_or(0.0),
                "version" => clause.version = blank(value),
                "escaping" => clause.escaping = blank(value),
                _ => {}
            }
        }
        Some(clause)
    }

    /// The weightiest first; of equal ones those that name their type.
    fn order(&self, other: &Self) -> Ordering {
        let open = |clause: &Self| (clause.kind == "*", clause.subtype == "*");
        other.weight.total_cmp(&self.weight).then_with(|| open(self).cmp(&open(other)))
    }

    /// Whether the text format is what it asks for.
    fn is_text(&self) -> bool {
        (self.kind, self.subtype) == ("text", "plain") && matches!(self.version, "" | "0.0.4")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_prometheus_escapes_them() {
        for (name, want) in [
            (
                "mysystem.prod.west.cpu.load_total",
                [
                    "mysystem_prod_west_cpu_load_total",
                    "mysystem_dot_prod_dot_west_dot_cpu_dot_load__total",
                    "U__mysystem_2e_prod_2e_west_2e_cpu_2e_load__total",
                ],
            ),
            (
                "http.status:sum",
                ["http_status:sum", "http_dot_status:sum", "U__http_2e_status:sum"],
            ),
            ("0a b", ["_a_b", "__a__b", "U___30_a_20_b"]),
            (
                "label with 花火",
                ["label_with___", "label__with______", "U__label_20_with_20__82b1__706b_"],
            ),
            ("no:escaping_required", ["no:escaping_required"; 3]),
        ] {
            let schemes = [Escaping::Underscores, Escaping::Dots, Escaping::Values];
            assert_eq!(schemes.map(|scheme| scheme.escaped(name).into_owned()), want);
            assert_eq!(Escaping::Utf8.escaped(name), name);
            assert!(schemes.iter().all(|scheme| is_plain(&scheme.escaped(name))));
        }
    }

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
            ("*/*;escaping=values,text/plain;version=0.0.4;q=0.5", Values),
            (&own, Values),
            ("text/html;escaping=values", Values),
            ("*;escaping=dots", Dots),
            ("text;escaping=dots", Underscores),
            ("text/plain/x;escaping=dots", Underscores),
            ("text/plain;escaping=dots=values", Underscores),
            ("text/plain;q=0.1;escaping=dots,text/html;q=much;escaping=values", Dots),
        ] {
            assert_eq!(Escaping::asked_for(accept), want, "{accept}");
        }
    }
}
