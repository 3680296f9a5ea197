//! Determines what a pattern can match: a few known strings, or a known prefix.
//!
//! Both are read from the syntax tree of the translated pattern. They apply to whole values,
//! because matchers are anchored. Alternations of plain words are found in the text itself: they
//! are often long and need not be compiled.

use regex::Regex;
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

use super::anchor::NEST_LIMIT;
use super::translate::translate;

/// Maximum number of strings in a set, for short patterns.
const MAX_LITERALS: usize = 1024;
/// Maximum bytes in a set, for short patterns.
const MAX_LITERAL_BYTES: usize = 64 << 10;
/// Maximum bytes of a prefix.
const MAX_PREFIX_BYTES: usize = 1024;
/// Maximum number of levels of the syntax tree that are examined.
const MAX_LEVELS: u32 = 100;

/// The strings that `pattern` matches, sorted, if the set is finite and small. `compiled` is the
/// same pattern, anchored.
pub(crate) fn literals(pattern: &str, compiled: &Regex) -> Option<Vec<String>> {
    let hir = parse(pattern)?;
    let limits = Limits {
        strings: MAX_LITERALS.max(pattern.len()),
        bytes: MAX_LITERAL_BYTES.max(4 * pattern.len()),
    };
    let mut set = limits.strings_of(&hir, MAX_LEVELS)?;
    set.sort_unstable();
    set.dedup();
    // Assertions were ignored so far.
    if !hir.properties().look_set().is_empty() {
        set.retain(|literal| compiled.is_match(literal));
    }
    Some(set)
}

/// The words of a pattern that consists only of words with `|` between them; sorted, each once.
pub(crate) fn words(pattern: &str) -> Option<Vec<String>> {
    let plain =
        |b: u8| !b.is_ascii() || b.is_ascii_alphanumeric() || b" !\"#%&',-/:;<=>@_`~|".contains(&b);
    if !pattern.bytes().all(plain) {
        return None;
    }
    let mut words: Vec<String> = pattern.split('|').map(str::to_owned).collect();
    words.sort_unstable();
    words.dedup();
    Some(words)
}

/// The common prefix of all matches of `pattern`.
pub(crate) fn prefix(pattern: &str) -> String {
    parse(pattern).map(|hir| beginning(&hir, MAX_LEVELS).text).unwrap_or_default()
}

fn parse(pattern: &str) -> Option<Hir> {
    let translated = translate(pattern).ok()?;
    ParserBuilder::new().nest_limit(NEST_LIMIT).build().parse(&translated).ok()
}

struct Limits {
    strings: usize,
    bytes: usize,
}

impl Limits {
    /// All strings that `hir` matches if its assertions hold.
    fn strings_of(&self, hir: &Hir, levels: u32) -> Option<Vec<String>> {
        let levels = levels.checked_sub(1)?;
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => Some(vec![String::new()]),
            HirKind::Literal(literal) => {
                self.checked(vec![String::from_utf8(literal.0.to_vec()).ok()?])
            }
            HirKind::Class(class) => self.characters(class),
            HirKind::Capture(capture) => self.strings_of(&capture.sub, levels),
            HirKind::Concat(parts) => {
                let mut set = vec![String::new()];
                for part in parts {
                    set = self.joined(&set, &self.strings_of(part, levels)?)?;
                }
                Some(set)
            }
            HirKind::Alternation(branches) => {
                let mut set = Vec::new();
                for branch in branches {
                    set.extend(self.strings_of(branch, levels)?);
                    if set.len() > self.strings {
                        return None;
                    }
                }
                self.checked(set)
            }
            HirKind::Repetition(repetition) => {
                let most = repetition.max?;
                let part = self.strings_of(&repetition.sub, levels)?;
                let mut power = vec![String::new()];
                let mut set = Vec::new();
                for copies in 0..=most {
                    if copies >= repetition.min {
                        set.extend_from_slice(&power);
                    }
                    if copies < most {
                        power = self.joined(&power, &part)?;
                    }
                    if set.len() > self.strings {
                        return None;
                    }
                }
                self.checked(set)
            }
        }
    }

    fn characters(&self, class: &Class) -> Option<Vec<String>> {
        let class = match class {
            Class::Unicode(class) => class,
            // A class without ranges is a byte class and matches nothing.
            Class::Bytes(class) if class.ranges().is_empty() => return Some(Vec::new()),
            Class::Bytes(_) => return None,
        };
        let count: usize = class.iter().map(|range| range.len()).sum();
        if count > self.strings {
            return None;
        }
        let chars = class.iter().flat_map(|range| range.start()..=range.end());
        self.checked(chars.map(String::from).collect())
    }

    fn joined(&self, left: &[String], right: &[String]) -> Option<Vec<String>> {
        let count = left.len().checked_mul(right.len())?;
        let bytes = |set: &[String]| set.iter().map(String::len).sum::<usize>();
        let size = bytes(left) * right.len() + bytes(right) * left.len();
        if count > self.strings || size > self.bytes {
            return None;
        }
        Some(left.iter().flat_map(|l| right.iter().map(move |r| format!("{l}{r}"))).collect())
    }

    fn checked(&self, set: Vec<String>) -> Option<Vec<String>> {
        let bytes: usize = set.iter().map(String::len).sum();
        (set.len() <= self.strings && bytes <= self.bytes).then_some(set)
    }
}

/// The common prefix of all matches.
struct Beginning {
    text: String,
    /// Whether the text is the whole of every match.
    whole: bool,
}

fn beginning(hir: &Hir, levels: u32) -> Beginning {
    let unknown = || Beginning { text: String::new(), whole: false };
    let Some(levels) = levels.checked_sub(1) else { return unknown() };
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Beginning { text: String::new(), whole: true },
        HirKind::Literal(literal) => match str::from_utf8(&literal.0) {
            Ok(text) => Beginning { text: text.to_owned(), whole: true },
            Err(_) => unknown(),
        },
        HirKind::Class(_) => unknown(),
        HirKind::Capture(capture) => beginning(&capture.sub, levels),
        HirKind::Concat(parts) => {
            let mut all = Beginning { text: String::new(), whole: true };
            for part in parts {
                let next = beginning(part, levels);
                all.text.push_str(&next.text);
                all.whole = next.whole && all.text.len() <= MAX_PREFIX_BYTES;
                if !all.whole {
                    break;
                }
            }
            all
        }
        HirKind::Alternation(branches) => {
            let mut branches = branches.iter().map(|branch| beginning(branch, levels));
            let Some(mut all) = branches.next() else { return unknown() };
            for branch in branches {
                all.whole &= branch.whole && branch.text == all.text;
                let common = common(&all.text, &branch.text);
                all.text.truncate(common);
            }
            all
        }
        HirKind::Repetition(repetition) if repetition.min > 0 => {
            let one = beginning(&repetition.sub, levels);
            Beginning { whole: false, ..one }
        }
        HirKind::Repetition(_) => unknown(),
    }
}

/// The length in bytes of the common prefix, in whole characters.
fn common(a: &str, b: &str) -> usize {
    let pairs = a.char_indices().zip(b.chars());
    pairs.take_while(|((_, a), b)| a == b).map(|((at, c), _)| at + c.len_utf8()).last().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::anchored;
    use super::*;

    #[test]
    fn words_are_found_where_there_is_nothing_else() {
        let check = |pattern: &str, want: Option<&[&str]>| {
            let want = want.map(|words| words.iter().map(|word| (*word).to_owned()).collect());
            assert_eq!(words(pattern), want, "{pattern}");
        };
        check("b|a|é-1|a", Some(&["a", "b", "é-1"]));
        check("a||b", Some(&["", "a", "b"]));
        check("", Some(&[""]));
        for other in ["a.b", "a*", "(a|b)", "^a", "a$", "a\\d", "[a]", "a{2}", "a?", "a+"] {
            check(other, None);
        }
    }

    proptest! {
        #[test]
        fn words_are_what_the_pattern_matches(
            pattern in "[ab|é :-]{0,6}", values in prop::collection::vec("[abé :-]{0,3}", 8),
        ) {
            let regex = anchored(&pattern, 1 << 20).expect("valid");
            let words = words(&pattern).expect("nothing else");
            for value in values.iter().chain(&words) {
                prop_assert_eq!(words.contains(value), regex.is_match(value), "{} {}", pattern, value);
            }
        }
    }
}
