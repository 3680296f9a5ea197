//! Character classes and escapes of RE2.
//!
//! Reads from a [`Source`] and writes the inside of a bracketed class of the `regex` crate, where
//! classes may nest.

use super::error::RegexError;

/// A class that matches nothing.
pub(super) const NOTHING: &str = "[^\\x00-\\x{10FFFF}]";
const EVERYTHING: &str = "[\\x00-\\x{10FFFF}]";

const GENERAL_CATEGORIES: &[&str] = &[
    "C", "Cc", "Cf", "Cn", "Co", "Cs", "L", "LC", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me",
    "Mn", "N", "Nd", "Nl", "No", "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk",
    "Sm", "So", "Z", "Zl", "Zp", "Zs",
];

/// Long names of categories, without underscores.
const CATEGORY_ALIASES: &[(&str, &str)] = &[
    ("casedletter", "LC"),
    ("closepunctuation", "Pe"),
    ("combiningmark", "M"),
    ("connectorpunctuation", "Pc"),
    ("control", "Cc"),
    ("currencysymbol", "Sc"),
    ("dashpunctuation", "Pd"),
    ("decimalnumber", "Nd"),
    ("enclosingmark", "Me"),
    ("finalpunctuation", "Pf"),
    ("format", "Cf"),
    ("initialpunctuation", "Pi"),
    ("letter", "L"),
    ("letternumber", "Nl"),
    ("lineseparator", "Zl"),
    ("lowercaseletter", "Ll"),
    ("mark", "M"),
    ("mathsymbol", "Sm"),
    ("modifierletter", "Lm"),
    ("modifiersymbol", "Sk"),
    ("nonspacingmark", "Mn"),
    ("number", "N"),
    ("openpunctuation", "Ps"),
    ("other", "C"),
    ("otherletter", "Lo"),
    ("othernumber", "No"),
    ("otherpunctuation", "Po"),
    ("othersymbol", "So"),
    ("paragraphseparator", "Zp"),
    ("privateuse", "Co"),
    ("punctuation", "P"),
    ("separator", "Z"),
    ("spaceseparator", "Zs"),
    ("spacingmark", "Mc"),
    ("surrogate", "Cs"),
    ("symbol", "S"),
    ("titlecaseletter", "Lt"),
    ("unassigned", "Cn"),
    ("uppercaseletter", "Lu"),
    ("cntrl", "Cc"),
    ("digit", "Nd"),
    ("punct", "P"),
];

/// Scripts whose names are as short as abbreviations. Go knows no abbreviations.
const SHORT_SCRIPTS: &[&str] =
    &["ahom", "cham", "kawi", "lisu", "miao", "modi", "newa", "thai", "toto"];

const POSIX_CLASSES: &[&str] = &[
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

/// The rest of a pattern.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) rest: &'a str,
}

impl Source<'_> {
    /// Takes the next character.
    pub(super) fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let c = chars.next();
        self.rest = chars.as_str();
        c
    }

    /// Takes `prefix` if it comes next.
    pub(super) fn take(&mut self, prefix: &str) -> bool {
        let rest = self.rest.strip_prefix(prefix);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }
}

/// Reads a class after its `[`. `whole` begins with the `[`.
pub(super) fn bracketed(source: &mut Source<'_>, whole: &str) -> Result<String, RegexError> {
    let negated = source.take("^");
    let mut out = String::new();
    let mut first = true;
    while first || !source.rest.starts_with(']') {
        first = false;
        if let Some(class) = posix(source)? {
            out.push_str(class);
            continue;
        }
        if let Some(class) = escaped(source)? {
            out.push_str(&class);
            continue;
        }
        let range = source.rest;
        let low = class_character(source, whole)?;
        let mut high = low;
        let mut ahead = source.rest.chars();
        if ahead.next() == Some('-') && ahead.next().is_some_and(|c| c != ']') {
            source.take("-");
            high = class_character(source, whole)?;
            if high < low {
                let at = &range[..range.len() - source.rest.len()];
                return Err(RegexError::syntax("invalid character class range", at));
            }
        }
        push_range(&mut out, low, high);
    }
    source.take("]");
    Ok(match (out.is_empty(), negated) {
        (true, false) => NOTHING.to_owned(),
        (true, true) => EVERYTHING.to_owned(),
        (false, false) => format!("[{out}]"),
        (false, true) => format!("[^{out}]"),
    })
}

/// Reads `\d`, `\pL` and similar as the inside of a class; reads nothing if it is none of them.
pub(super) fn escaped(source: &mut Source<'_>) -> Result<Option<String>, RegexError> {
    let rest = source.rest;
    let class = match rest.as_bytes() {
        [b'\\', b'd', ..] => "0-9",
        [b'\\', b'D', ..] => "[^0-9]",
        [b'\\', b'w', ..] => "0-9A-Za-z_",
        [b'\\', b'W', ..] => "[^0-9A-Za-z_]",
        [b'\\', b's', ..] => "\\t\\n\\x0C\\r\\x20",
        [b'\\', b'S', ..] => "[^\\t\\n\\x0C\\r\\x20]",
        [b'\\', b'p' | b'P', ..] => return unicode(source).map(Some),
        _ => return Ok(None),
    };
    source.rest = &rest[2..];
    Ok(Some(class.to_owned()))
}

/// Reads `[:alpha:]` and similar.
fn posix<'a>(source: &mut Source<'a>) -> Result<Option<&'a str>, RegexError> {
    let rest = source.rest;
    let Some(end) = rest.strip_prefix("[:").and_then(|rest| rest.find(":]")) else {
        return Ok(None);
    };
    let (class, after) = rest.split_at(end + 4);
    let name = &class[2..end + 2];
    if !POSIX_CLASSES.contains(&name.strip_prefix('^').unwrap_or(name)) {
        return Err(RegexError::syntax("invalid character class range", class));
    }
    source.rest = after;
    Ok(Some(class))
}

/// Reads `\pL`, `\p{Greek}` or `\P{^Greek}`.
fn unicode(source: &mut Source<'_>) -> Result<String, RegexError> {
    let before = source.rest;
    let mut negated = before.as_bytes()[1] == b'P';
    source.rest = &before[2..];
    let refused = |at: &str| Err(RegexError::syntax("invalid character class range", at));
    let name = match source.next() {
        None => return Err(RegexError::syntax("invalid character class range", before)),
        Some('{') => match source.rest.split_once('}') {
            Some((name, rest)) => {
                source.rest = rest;
                name
            }
            None => return refused(before),
        },
        Some(_) => &before[2..before.len() - source.rest.len()],
    };
    let name = match name.strip_prefix('^') {
        Some(name) => {
            negated = !negated;
            name
        }
        None => name,
    };
    match unicode_class(name) {
        Some(class) if negated => Ok(format!("[^{class}]")),
        Some(class) => Ok(format!("[{class}]")),
        None => refused(&before[..before.len() - source.rest.len()]),
    }
}

/// The inside of the class with this name, in the loose spelling of Go.
fn unicode_class(name: &str) -> Option<String> {
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphabetic() || b"_- ".contains(&b)) {
        return None;
    }
    let plain: String =
        name.chars().filter(|c| c.is_ascii_alphabetic()).collect::<String>().to_lowercase();
    match plain.as_str() {
        "any" => return Some("\\x00-\\x{10FFFF}".to_owned()),
        "ascii" => return Some("\\x00-\\x7F".to_owned()),
        "assigned" => return Some("\\P{Cn}".to_owned()),
        _ => {}
    }
    let category = GENERAL_CATEGORIES.iter().find(|known| known.eq_ignore_ascii_case(&plain));
    let alias = || CATEGORY_ALIASES.iter().find(|(known, _)| *known == plain).map(|(_, to)| to);
    match category.or_else(alias) {
        // No string contains a surrogate.
        Some(&"Cs") => return Some(NOTHING.to_owned()),
        Some(category) => return Some(format!("\\p{{gc={category}}}")),
        None => {}
    }
    if plain.len() <= 4 && plain.len() != 2 && plain.len() != 3 && !SHORT_SCRIPTS.contains(&&*plain)
    {
        return None;
    }
    let class = format!("\\p{{sc={plain}}}");
    regex_syntax::parse(&class).is_ok().then_some(class)
}

fn class_character(source: &mut Source<'_>, whole: &str) -> Result<u32, RegexError> {
    if source.rest.starts_with('\\') {
        return character(source);
    }
    source.next().map(u32::from).ok_or_else(|| RegexError::syntax("missing closing ]", whole))
}

/// Reads an escape for one character, which may be a surrogate.
pub(super) fn character(source: &mut Source<'_>) -> Result<u32, RegexError> {
    let before = source.rest;
    source.rest = &before[1..];
    let Some(c) = source.next() else {
        return Err(RegexError::Syntax("trailing backslash at end of expression: ``".to_owned()));
    };
    let found = match c {
        '0' => Some(octal(source, 0)),
        // A single digit would be a backreference.
        '1'..='7' => source
            .rest
            .starts_with(|next: char| next.is_digit(8))
            .then(|| octal(source, u32::from(c) - u32::from('0'))),
        'x' => hexadecimal(source),
        'a' => Some(0x07),
        'f' => Some(0x0c),
        'n' => Some(0x0a),
        'r' => Some(0x0d),
        't' => Some(0x09),
        'v' => Some(0x0b),
        c if c.is_ascii() && !c.is_ascii_alphanumeric() => Some(u32::from(c)),
        _ => None,
    };
    found.ok_or_else(|| {
        RegexError::syntax("invalid escape sequence", &before[..before.len() - source.rest.len()])
    })
}

/// Reads up to two more digits.
fn octal(source: &mut Source<'_>, first: u32) -> u32 {
    let digits = source.rest.bytes().take(2).take_while(|byte| (b'0'..=b'7').contains(byte));
    let (count, value) = digits.fold((0usize, first), |(count, value), digit| {
        (count + 1, value * 8 + u32::from(digit - b'0'))
    });
    source.rest = &source.rest[count..];
    value
}

/// Reads two digits, or any number of them in braces.
fn hexadecimal(source: &mut Source<'_>) -> Option<u32> {
    let first = source.next()?;
    if first != '{' {
        return Some(first.to_digit(16)? * 16 + source.next()?.to_digit(16)?);
    }
    let mut value: Option<u32> = None;
    loop {
        match source.next()? {
            '}' => return value,
            c => {
                let next = value.unwrap_or(0) * 16 + c.to_digit(16)?;
                value = Some(next).filter(|&next| next <= u32::from(char::MAX));
                value?;
            }
        }
    }
}

/// Appends the range to the inside of a class, without surrogates.
fn push_range(out: &mut String, low: u32, high: u32) {
    let low = if (0xd800..=0xdfff).contains(&low) { 0xe000 } else { low };
    let high = if (0xd800..=0xdfff).contains(&high) { 0xd7ff } else { high };
    if low > high {
        return;
    }
    push_character(out, low);
    if high > low {
        out.push('-');
        push_character(out, high);
    }
}

fn push_character(out: &mut String, character: u32) {
    match char::from_u32(character) {
        Some(c) if c.is_ascii_alphanumeric() => out.push(c),
        _ => out.push_str(&format!("\\x{{{character:X}}}")),
    }
}
