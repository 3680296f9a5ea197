//! The name of a label in the path of a URL.
//!
//! A name that begins with `U__` is escaped: `__` is `_`, and `_2e_` is the character with that
//! code. A name with an invalid escape is taken literally.

/// The decoded bytes of a path segment.
pub(super) fn percent_decoded(segment: &str) -> Vec<u8> {
    let bytes = segment.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escape = segment.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match escape.filter(|_| bytes[at] == b'%') {
            Some(byte) => {
                decoded.push(byte);
                at += 3;
            }
            None => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    decoded
}

/// The name without escapes.
pub(super) fn unescaped(name: &str) -> String {
    let Some(escaped) = name.strip_prefix("U__") else { return name.to_owned() };
    unescape(escaped).unwrap_or_else(|| name.to_owned())
}

fn unescape(escaped: &str) -> Option<String> {
    /// The number of digits of the greatest character.
    const MOST_DIGITS: usize = 6;
    let mut out = String::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some(at) = rest.find('_') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let (code, after) = rest.split_once('_')?;
        if code.is_empty() {
            out.push('_');
        } else {
            let plain = code.len() <= MOST_DIGITS && code.bytes().all(|b| b.is_ascii_hexdigit());
            let number = plain.then(|| u32::from_str_radix(code, 16).ok())??;
            out.push(char::from_u32(number)?);
        }
        rest = after;
    }
    out.push_str(rest);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unescaped() {
        let check = |name: &str, want: &str| assert_eq!(unescaped(name), want, "{name}");
        check("job", "job");
        check("U__service_2e_name", "service.name");
        check("U__a__b", "a_b");
        check("U__http_2e_m_e9_todo", "http.método");
        check("U___30_digit", "0digit");
        check("U__", "");
        for odd in ["U__bad_", "U__x_zz_", "U__x_1234567_", "U__x_d800_", "U__x_+1_"] {
            check(odd, odd);
        }
    }

    #[test]
    fn bytes_of_a_path() {
        assert_eq!(percent_decoded("a%2Fb%ff%"), b"a/b\xff%");
        assert_eq!(percent_decoded("%zz%é"), "%zz%é".as_bytes());
    }
}
