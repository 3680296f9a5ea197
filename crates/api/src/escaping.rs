//! Escapes names for clients that may accept only plain ones: letters, digits, `_` and `:`.
//!
//! The schemes are those of Prometheus. Plain names stay unchanged in every scheme. Formats are not handled
//! here.

use std::borrow::Cow;
use std::fmt::Write as _;

/// How a name that is not plain is escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Escaping {
    /// Not at all: it is written in quotes.
    Utf8,
    /// Each other character becomes `_`.
    Underscores,
    /// Each other character becomes `__`, and dots become `_dot_`.
    Dots,
    /// Each other character becomes its code, which is reversible.
    Values,
}

impl Escaping {
    /// All schemes.
    pub(super) const ALL: [Self; 4] = [Self::Utf8, Self::Underscores, Self::Dots, Self::Values];

    /// The name of the scheme in headers.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "allow-utf-8",
            Self::Underscores => "underscores",
            Self::Dots => "dots",
            Self::Values => "values",
        }
    }

    /// The escaped name, without quotes.
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
}
