//! Forms of the type `multipart/form-data`, which scripts and some clients send.
//!
//! A form that ends too early or has too many parts has no fields at all, as in Prometheus. Files are ignored. The
//! caller limits the body.

use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;

/// The content type.
const FORM_DATA: &str = "multipart/form-data";
/// Most parts of a form.
const MAX_PARTS: usize = 1000;

/// The boundary of a multipart form; empty if the content type has none, `None` if the body is not a multipart form.
pub(super) fn boundary(headers: &HeaderMap) -> Option<String> {
    let kind = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let (kind, parameters) = kind.split_once(';').unwrap_or((kind, ""));
    let is_form = kind.trim().eq_ignore_ascii_case(FORM_DATA);
    is_form.then(|| parameter(parameters, "boundary").unwrap_or_default())
}

/// Names and values of the fields of a form.
pub(super) fn fields(body: &[u8], boundary: &str) -> Result<Vec<(String, String)>, &'static str> {
    if boundary.is_empty() {
        return Err("no multipart boundary param in Content-Type");
    }
    let line = format!("--{boundary}");
    let mut rest = after_line(body, &line)?;
    let (mut fields, mut parts) = (Vec::new(), 0);
    while let Some(part) = rest {
        parts += 1;
        if parts > MAX_PARTS {
            return Err("multipart: message too large");
        }
        let (part, next) = until_line(part, &line)?;
        rest = next;
        let (head, value) = head_and_value(part);
        let Some(disposition) = disposition(head) else { continue };
        let file = parameter(disposition, "filename").is_some_and(|name| !name.is_empty());
        if let (Some(name), false) = (parameter(disposition, "name"), file) {
            fields.push((name, String::from_utf8_lossy(value).into_owned()));
        }
    }
    Ok(fields)
}

const CUT: &str = "multipart: NextPart: EOF";

/// The bytes after the first boundary line; `None` if that is the last one.
fn after_line<'a>(body: &'a [u8], line: &str) -> Result<Option<&'a [u8]>, &'static str> {
    if let Some(rest) = body.strip_prefix(line.as_bytes())
        && let Some(next) = rest_of_line(rest)
    {
        return Ok(next);
    }
    until_line(body, line).map(|(_, next)| next)
}

type Part<'a> = (&'a [u8], Option<&'a [u8]>);

/// The bytes before the next boundary line, and the bytes after it; `None` if that is the last one.
fn until_line<'a>(bytes: &'a [u8], line: &str) -> Result<Part<'a>, &'static str> {
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|byte| *byte == b'\n') {
        let end = from + at;
        from = end + 1;
        let rest = bytes[from..].strip_prefix(line.as_bytes());
        if let Some(next) = rest.and_then(rest_of_line) {
            let part = &bytes[..end];
            return Ok((part.strip_suffix(b"\r").unwrap_or(part), next));
        }
    }
    Err(CUT)
}

/// The bytes after a boundary line, given its `rest`; `Some(None)` for the last one; `None` if it is not a boundary
/// line.
fn rest_of_line(rest: &[u8]) -> Option<Option<&[u8]>> {
    let is_last = rest.starts_with(b"--");
    let rest = rest.strip_prefix(b"--").unwrap_or(rest);
    let blank = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let rest = &rest[blank..];
    let next = rest.strip_prefix(b"\r\n").or_else(|| rest.strip_prefix(b"\n"));
    match (is_last, next) {
        (true, _) if rest.is_empty() || next.is_some() => Some(None),
        (false, Some(next)) => Some(Some(next)),
        _ => None,
    }
}

/// The header lines of a part, and the bytes after the empty line.
fn head_and_value(part: &[u8]) -> (&[u8], &[u8]) {
    let mut at = 0;
    while let Some(end) = part[at..].iter().position(|byte| *byte == b'\n') {
        let line = &part[at..at + end];
        let next = at + end + 1;
        if line.is_empty() || line == b"\r" {
            return (&part[..at], &part[next..]);
        }
        at = next;
    }
    (part, &[])
}

/// The parameters of `Content-Disposition` in a part's header lines, if its type is `form-data`.
fn disposition(head: &[u8]) -> Option<&str> {
    let lines = head.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
    let mut said = lines.filter_map(|line| line.split_once(':'));
    let (_, value) =
        said.find(|(name, _)| name.trim().eq_ignore_ascii_case("content-disposition"))?;
    let (kind, parameters) = value.split_once(';').unwrap_or((value, ""));
    kind.trim().eq_ignore_ascii_case("form-data").then_some(parameters)
}

/// The value of a parameter in `; a=b; c="d"`.
fn parameter(text: &str, wanted: &str) -> Option<String> {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([';', ' ', '\t', '\r']);
        let (name, after) = rest.split_once('=')?;
        let (value, left) = match after.trim_start().strip_prefix('"') {
            Some(quoted) => unquoted(quoted)?,
            None => {
                let (value, left) = after.split_once(';').unwrap_or((after, ""));
                (value.trim().to_owned(), left)
            }
        };
        if name.trim().eq_ignore_ascii_case(wanted) {
            return Some(value);
        }
        rest = left;
    }
}

/// The text up to the closing quote, and the rest.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut characters) = (String::new(), text.char_indices());
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => {
                // Browsers send paths with single backslashes.
                match characters.clone().next() {
                    Some((_, next @ ('"' | '\\'))) => {
                        characters.next();
                        value.push(next);
                    }
                    _ => value.push('\\'),
                }
            }
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn boundary_of(kind: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, kind.parse().expect("a header"));
        boundary(&headers)
    }

    #[test]
    fn boundaries() {
        assert_eq!(boundary_of("multipart/form-data; boundary=a-b"), Some("a-b".into()));
        assert_eq!(
            boundary_of("Multipart/Form-Data;charset=x; Boundary=\"a; b\""),
            Some("a; b".into())
        );
        assert_eq!(boundary_of("multipart/form-data"), Some(String::new()));
        assert_eq!(boundary_of("multipart/mixed; boundary=a"), None);
        assert_eq!(boundary_of("application/x-www-form-urlencoded"), None);
        assert_eq!(boundary(&HeaderMap::new()), None);
    }

    fn read(body: &str) -> Result<Vec<(String, String)>, &'static str> {
        fields(body.as_bytes(), "B")
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    const NAMED: &str = "Content-Disposition: form-data; name";

    #[test]
    fn fields_in_order() {
        let body = format!(
            "to skip\r\n--B\r\n{NAMED}=\"match[]\"\r\nContent-Type: text/plain\r\n\r\na\r\n\r\n--Bee\r\n--B  \r\n\
                            {NAMED}=x\r\n\r\n\r\n--B--\r\nto skip"
        );
        assert_eq!(read(&body), Ok(pairs(&[("match[]", "a\r\n\r\n--Bee"), ("x", "")])));
        let body = format!("--B\n{NAMED}=\"a \\\"b\\\" \\c\"\n\nü=1&2\n--B--");
        assert_eq!(read(&body), Ok(pairs(&[("a \"b\" \\c", "ü=1&2")])));
        assert_eq!(read("--B--"), Ok(Vec::new()));
    }

    #[test]
    fn files_and_parts_without_a_name_are_left_out() {
        let body = format!(
            "--B\r\n{NAMED}=f; filename=\"x.txt\"\r\n\r\n1\r\n--B\r\n\r\n2\r\n--B\r\n\
                            Content-Disposition: attachment; name=a\r\n\r\n3\r\n--B\r\nno head--B\r\n--B--\r\n"
        );
        assert_eq!(read(&body), Ok(Vec::new()));
    }

    #[test]
    fn a_form_that_is_cut_has_no_fields() {
        let body = format!("--B\r\n{NAMED}=query\r\n\r\nplain\r\n--B--");
        for end in 0..body.len() {
            assert_eq!(read(&body[..end]), Err(CUT), "{end}");
        }
        assert!(read(&body).is_ok());
        assert_eq!(fields(body.as_bytes(), ""), Err("no multipart boundary param in Content-Type"));
    }

    #[test]
    fn parts_are_limited() {
        let part = "--B\r\n\r\n\r\n";
        assert_eq!(read(&(part.repeat(MAX_PARTS) + "--B--")), Ok(Vec::new()));
        let error = read(&(part.repeat(MAX_PARTS + 1) + "--B--")).expect_err("too many");
        assert_eq!(error, "multipart: message too large");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            written in prop::collection::vec(("[a-z\\[\\]]{1,4}", "[a-z \r\n-]{0,12}"), 0..5),
        ) {
            let mut body = String::new();
            for (name, value) in &written {
                body += &format!("--boundary\r\n{NAMED}=\"{name}\"\r\n\r\n{value}\r\n");
            }
            body += "--boundary--\r\n";
            prop_assert_eq!(fields(body.as_bytes(), "boundary"), Ok(written));
        }

        #[test]
        fn no_bytes_harm(body in prop::collection::vec(prop::sample::select(b"--B\r\n:;=\"a\\ ".to_vec()), 0..60)) {
            let _ = fields(&body, "B");
        }
    }
}
