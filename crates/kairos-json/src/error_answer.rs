//! The JSON of an answer with errors, as Jackson writes it for KairosDB. The texts are not checked or cut.

/// The body of an error answer: `{"errors":[...]}`.
pub fn error_answer<'e>(texts: impl IntoIterator<Item = &'e str>) -> String {
    let mut json = String::from("{\"errors\":[");
    for (at, text) in texts.into_iter().enumerate() {
        if at > 0 {
            json.push(',');
        }
        json.push('"');
        text.chars().for_each(|c| push_escaped(&mut json, c));
        json.push('"');
    }
    json.push_str("]}");
    json
}

/// As Jackson writes it: nothing above the control characters of ASCII is escaped.
fn push_escaped(json: &mut String, c: char) {
    const HEX: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];
    let short = match c {
        '"' | '\\' => c,
        '\u{8}' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\u{c}' => 'f',
        '\r' => 'r',
        '\0'..='\u{1f}' => {
            json.push_str("\\u00");
            json.extend([HEX[c as usize >> 4], HEX[c as usize & 15]]);
            return;
        }
        _ => return json.push(c),
    };
    json.extend(['\\', short]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_as_by_jackson() {
        let cases = [
            ("", r#"{"errors":[""]}"#),
            (
                "a \"b\" \\ / ü \u{7f}\u{2028}😀",
                "{\"errors\":[\"a \\\"b\\\" \\\\ / ü \u{7f}\u{2028}😀\"]}",
            ),
            ("\u{8}\t\n\u{c}\r\0\u{1f}", r#"{"errors":["\b\t\n\f\r\u0000\u001F"]}"#),
        ];
        for (text, json) in cases {
            assert_eq!(error_answer([text]), json);
        }
        let text = "'</b>\u{1f}\u{85}ü";
        assert_eq!(error_answer([text]), "{\"errors\":[\"'</b>\\u001F\u{85}ü\"]}");
        assert_eq!(error_answer(["a", "b"]), r#"{"errors":["a","b"]}"#);
        assert_eq!(error_answer([]), r#"{"errors":[]}"#);
    }
}
