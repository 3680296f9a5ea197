//! Regular expressions as in Prometheus: RE2 syntax, run by the `regex` crate.
//!
//! Prometheus' patterns are Go's RE2; the `regex` crate has a slightly different syntax.
//! [`translate()`] reads RE2 and writes a pattern with the same meaning for the crate, or refuses.
//! Remaining differences: nesting is limited to [`MAX_REGEX_DEPTH`](crate::limits::MAX_REGEX_DEPTH), compiled size to
//! [`MAX_REGEX_BYTES`](crate::limits::MAX_REGEX_BYTES), a group name that the crate does not accept
//! is dropped, and Unicode tables come from the crate.

mod anchor;
mod class;
mod error;
mod literals;
mod size;
mod translate;

pub use anchor::anchored;
pub use error::RegexError;
pub(super) use literals::{literals, prefix, words};
pub use size::compiled_bytes;
pub use translate::translate;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::limits::{MAX_REGEX_BYTES, MAX_REGEX_DEPTH};

    /// Pattern, values that match, values that do not; all as in Go's regexp.
    const CASES: &[(&str, &[&str], &[&str])] = &[
        // The dot matches newlines, anchors hold for the whole value.
        ("a.b", &["a\nb", "aéb"], &["ab", "xa.b", "a.b\n"]),
        ("(?-s)a.b", &["a-b"], &["a\nb"]),
        ("a|b", &["a", "b"], &["ab", ""]),
        ("", &[""], &["a"]),
        ("(?m)a$\n^b", &["a\nb"], &["ab"]),
        ("^a$", &["a"], &["a\n"]),
        // Perl classes and boundaries are ASCII; the rest is Unicode.
        (r"\d", &["1"], &["٣"]),
        (r"\w+", &["a_1"], &["é", "σ"]),
        (r"\W", &["é", "-"], &["a"]),
        (r"\s", &[" ", "\u{c}"], &["\u{b}", "\u{a0}"]),
        (r"[[:space:]]", &["\u{b}"], &["\u{a0}"]),
        (r"é\b", &[], &["é"]),
        (r"é\B", &["é"], &[]),
        (r"(?i)é\w", &["Ék", "é\u{212a}", "éſ"], &["éé"]),
        (r"(?i)\W", &["é"], &["\u{212a}"]),
        (r"(?i)σ", &["ς", "Σ"], &["s"]),
        // Classes contain no inner classes and no operators.
        ("[[a]", &["[", "a"], &["[a", "]"]),
        ("[a&&b]", &["a", "b", "&"], &["ab"]),
        ("[~~a]", &["~", "a"], &["~~"]),
        ("[+--]", &["+", ",", "-"], &["."]),
        (r"[\d-a]", &["1", "-", "a"], &["b"]),
        ("[]a]", &["]", "a"], &["[]a]"]),
        ("[^]a]", &["b", "\n"], &["]", "a"]),
        ("[[:word]", &["[", ":", "w", "d"], &["]"]),
        (r"[[:^digit:]1]", &["a", "1"], &["2"]),
        (r"[^\S]", &[" "], &["a", "\u{b}"]),
        (r"[^\x00-\x{10FFFF}]", &[], &["", "a"]),
        // Braces that are not a repetition.
        ("{a}", &["{a}"], &["a"]),
        ("a{,2}", &["a{,2}"], &["a", "aa"]),
        ("a{01}", &["a{01}"], &["a"]),
        ("a{2,}", &["aa", "aaa"], &["a"]),
        ("(?:a{1000}){0}", &[""], &["a"]),
        // Escapes.
        (r"\Qa.b*\E", &["a.b*"], &["axb"]),
        (r"\Qa.", &["a."], &["ab"]),
        (r"\Qab\E*", &["a", "abb"], &["abab"]),
        (r"\101\0\x42\x{e9}", &["A\0Bé"], &[]),
        (r"\<\>\_\-\/", &["<>_-/"], &[]),
        (r"\x{D800}", &[], &["", "\u{fffd}"]),
        (r"[\x{D7FF}-\x{E001}]", &["\u{d7ff}", "\u{e000}"], &["\u{e002}"]),
        (r"\pL\p{Greek}\P{^Lu}\p{letter}", &["aσAé"], &["aaAé", "aσaé"]),
        (r"\p{Cs}", &[], &["a"]),
        (r"\p{Any}\p{ascii}", &["éa"], &["aé"]),
        // Flags.
        ("(?i:a(?-i)b|c)", &["Ab", "c"], &["AB", "C"]),
        ("a(?i)b|c", &["aB", "C"], &["AB"]),
        ("(?)a(?ii)b(?i-i)c", &["aBc"], &["aBC"]),
        ("a(?i)*", &["aaa"], &["A"]),
        ("a*(?i)*", &["aaa"], &["A"]),
        ("(?U)a+?", &["aa"], &[""]),
        ("^*a", &["a"], &["^a"]),
        // Group names.
        ("(?P<n>a)(?<m>b)(?P<n>c)(?P<1>d)", &["abcd"], &[]),
    ];

    #[test]
    fn what_go_matches() {
        for (pattern, yes, no) in CASES {
            let regex = anchored(pattern, MAX_REGEX_BYTES).expect(pattern);
            for value in *yes {
                assert!(regex.is_match(value), "{pattern} should match {value:?}");
            }
            for value in *no {
                assert!(!regex.is_match(value), "{pattern} should not match {value:?}");
            }
        }
    }

    /// Pattern, and the error from Go.
    const REFUSED: &[(&str, &str)] = &[
        ("(?x)a", "invalid or unsupported Perl syntax: `(?x`"),
        ("(?R)", "invalid or unsupported Perl syntax: `(?R`"),
        ("(?u)a", "invalid or unsupported Perl syntax: `(?u`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?!a)", "invalid or unsupported Perl syntax: `(?!`"),
        ("(?<=a)", "invalid named capture: `(?<=a)`"),
        ("(?P=n)", "invalid or unsupported Perl syntax: `(?P`"),
        ("(?-)", "invalid or unsupported Perl syntax: `(?-)`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("x{2}{3}", "invalid nested repetition operator: `{2}{3}`"),
        ("x{1001}", "invalid repeat count: `{1001}`"),
        ("x{99999999999}", "invalid repeat count: `{99999999999}`"),
        ("x{3,2}", "invalid repeat count: `{3,2}`"),
        ("(?:x{500}){3}", "invalid repeat count: `{3}`"),
        ("((x{10}){10}y){11}", "invalid repeat count: `{11}`"),
        ("[a--b]", "invalid character class range: `a--`"),
        ("[b-a]", "invalid character class range: `b-a`"),
        (r"[a-\d]", r"invalid escape sequence: `\d`"),
        ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
        (r"\u0041", r"invalid escape sequence: `\u`"),
        (r"\1", r"invalid escape sequence: `\1`"),
        (r"\C", r"invalid escape sequence: `\C`"),
        (r"\Z", r"invalid escape sequence: `\Z`"),
        (r"\é", r"invalid escape sequence: `\é`"),
        (r"\x{110000}", r"invalid escape sequence: `\x{110000`"),
        (r"\p{Alphabetic}", r"invalid character class range: `\p{Alphabetic}`"),
        (r"\p{Grek}", r"invalid character class range: `\p{Grek}`"),
        (r"\p{sc=Greek}", r"invalid character class range: `\p{sc=Greek}`"),
        ("a|*", "missing argument to repetition operator: `*`"),
        ("(*)", "missing argument to repetition operator: `*`"),
        (r"\Q\E*", "missing argument to repetition operator: `*`"),
        ("a(b", "missing closing ): `a(b`"),
        ("a)(b", "unexpected ): `a)(b`"),
        ("[a", "missing closing ]: `[a`"),
        ("a\\", "trailing backslash at end of expression: ``"),
    ];

    #[test]
    fn what_go_refuses() {
        for (pattern, error) in REFUSED {
            let found = anchored(pattern, MAX_REGEX_BYTES).err().map(|error| error.to_string());
            assert_eq!(found, Some(format!("error parsing regexp: {error}")), "{pattern}");
        }
    }

    #[test]
    fn sizes_are_limited() {
        let nested = |depth| format!("{}a{}", "(?:".repeat(depth), "*)".repeat(depth));
        let deep = nested(MAX_REGEX_DEPTH as usize / 2 - 1);
        // A small stack, because patterns are compiled on the threads of a server.
        let small = std::thread::Builder::new().stack_size(512 << 10);
        let deepest = small.spawn(move || {
            let regex = anchored(&deep, MAX_REGEX_BYTES).expect("just within the limit");
            assert!(regex.is_match("aaa"));
            assert_eq!(literals(&deep, &regex), None);
            assert_eq!(prefix(&deep), "");
        });
        deepest.expect("a thread").join().expect("enough stack");
        assert_eq!(translate(&nested(100_000)), Err(RegexError::TooDeep));
        assert_eq!(translate(&format!("a{}", "(?i)*".repeat(1000))), Err(RegexError::TooDeep));
        let large = anchored(r"(\pL{100}){10}", MAX_REGEX_BYTES).err();
        assert!(matches!(large, Some(RegexError::TooLarge { most: MAX_REGEX_BYTES, .. })));
    }

    #[test]
    fn known_sets() {
        let set = |pattern| literals(pattern, &anchored(pattern, MAX_REGEX_BYTES).expect(pattern));
        let some = |values: &[&str]| Some(values.iter().map(|v| (*v).to_owned()).collect());
        assert_eq!(set("a"), some(&["a"]));
        assert_eq!(set("b|a|b"), some(&["a", "b"]));
        assert_eq!(set("foo(bar|baz)?"), some(&["foo", "foobar", "foobaz"]));
        assert_eq!(set("a[0-2]"), some(&["a0", "a1", "a2"]));
        assert_eq!(set("(?i)é"), some(&["É", "é"]));
        assert_eq!(set("^a$|b\\b|\\bé"), some(&["a", "b"]));
        assert_eq!(set("a{2,3}"), some(&["aa", "aaa"]));
        assert_eq!(set(""), some(&[""]));
        assert_eq!(set("[^\\x00-\\x{10FFFF}]"), some(&[]));
        assert_eq!(set("a*"), None);
        assert_eq!(set("."), None);
        assert_eq!(set("[0-9]{4}"), None);
        let many: Vec<_> = (0..5000).map(|i| format!("node-{i:05}")).collect();
        assert_eq!(set(&many.join("|")), Some(many));
    }

    #[test]
    fn known_beginnings() {
        let cases = [
            ("foo.*", "foo"),
            ("foo(bar|baz).*", "fooba"),
            ("(?:éa|éb)+x", "é"),
            ("éa|èa", ""),
            ("^foo.+", "foo"),
            ("(?i)foo.*", ""),
            ("foo*", "fo"),
            ("foo|bar", ""),
            (".*foo", ""),
            ("(foo|foo.*)", "foo"),
        ];
        for (pattern, expected) in cases {
            assert_eq!(prefix(pattern), expected, "{pattern}");
        }
    }

    fn patterns() -> impl Strategy<Value = String> {
        let leaf = prop::sample::select(vec![
            "a", "b", "é", "ab", ".", "[ab]", "[^a]", r"\w", "^", "$", r"\b", "(?i)", "k", "{", "",
        ]);
        leaf.prop_map(str::to_owned).prop_recursive(4, 16, 3, |inner| {
            let list = || prop::collection::vec(inner.clone(), 1..4);
            prop_oneof![
                list().prop_map(|parts| parts.concat()),
                list().prop_map(|parts| format!("(?:{})", parts.join("|"))),
                (inner.clone(), prop::sample::select(vec!["*", "+", "?", "{2}", "{0,2}"]))
                    .prop_map(|(part, repeat)| format!("(?:{part}){repeat}")),
                inner.prop_map(|part| format!("(?i:{part})")),
            ]
        })
    }

    proptest! {
        #[test]
        fn sets_and_beginnings_agree_with_the_regex(
            pattern in patterns(), values in prop::collection::vec("[abkKéÉ{]{0,4}", 12)
        ) {
            let Ok(regex) = anchored(&pattern, MAX_REGEX_BYTES) else { return Ok(()) };
            let (set, prefix) = (literals(&pattern, &regex), prefix(&pattern));
            for value in values.iter().chain(set.iter().flatten()) {
                let matches = regex.is_match(value);
                prop_assert!(!matches || value.starts_with(&prefix), "{pattern} {prefix} {value}");
                if let Some(set) = &set {
                    prop_assert_eq!(set.contains(value), matches, "{} {}", pattern, value);
                }
            }
        }

        #[test]
        fn any_text_is_read_without_harm(pattern in r"[a-z0-9()\[\]{}|*+?\\^$.:,<>&~#ékPQEx-]{0,40}") {
            if let Ok(translated) = translate(&pattern) {
                let _ = regex_syntax::parse(&translated);
            }
            let _ = prefix(&pattern);
            if let Ok(regex) = anchored(&pattern, MAX_REGEX_BYTES) {
                let _ = literals(&pattern, &regex);
            }
        }

        #[test]
        fn what_is_translated_compiles(pattern in patterns()) {
            if translate(&pattern).is_ok() {
                prop_assert!(anchored(&pattern, MAX_REGEX_BYTES).is_ok());
            }
        }
    }
}
