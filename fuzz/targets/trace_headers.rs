//! The file of headers for the trace collector: every line with content is a valid header, or the
//! file is refused with a line number, and the error repeats nothing of the content.
use promkairos::config::parse_trace_headers;

pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    match parse_trace_headers(text) {
        Ok(headers) => {
            assert_eq!(headers.len(), lines.clone().count());
            for ((name, value), line) in headers.iter().zip(lines) {
                let (before, behind) = line.split_once('=').expect("name=value");
                assert_eq!(*name, before.trim().to_ascii_lowercase());
                assert_eq!(value.reveal(), behind.trim());
                let is_plain = |byte: u8| byte == b'\t' || (byte >= b' ' && byte != 0x7f);
                assert!(value.reveal().bytes().all(is_plain), "{line:?}");
                assert_eq!(format!("{value:?}"), "<secret>", "whatever it is");
            }
        }
        Err(why) => refused(&why, text),
    }
}

/// The error is one of a fixed set, and its number is that of a line with content.
fn refused(why: &str, text: &str) {
    const NONE: &str = "holds no header, such as x-api-key=...";
    const WORDS: [&str; 3] =
        ["must be name=value", "has no name of a header", "has no value that a header can have"];
    let Some((at, what)) = why.strip_prefix("line ").and_then(|rest| rest.split_once(": ")) else {
        assert_eq!((why, text.trim()), (NONE, ""));
        return;
    };
    let at: usize = at.parse().expect("a number");
    let line = text.lines().nth(at - 1).expect("a line that there is");
    assert!(!line.trim().is_empty() && WORDS.contains(&what), "{why}");
}
