//! Reads pages of the exposition format in protocol buffers: `MetricFamily` of the Prometheus
//! client model, each prefixed with its length. Every field becomes text, in the order of the
//! message, so that a test lists all that it expects.

use super::proto::{Value, delimited, fields, unzigzag};

/// Types of a family, by number.
const KINDS: [&str; 6] = ["counter", "gauge", "summary", "untyped", "histogram", "gauge_histogram"];

/// The lines of a page: `TYPE name`, then each metric of the family as `{labels} value @time`.
/// Times are relative to `since`.
pub(crate) fn lines(page: &[u8], since: i64) -> Vec<String> {
    delimited(page).into_iter().flat_map(|message| family(message, since)).collect()
}

fn family(message: &[u8], since: i64) -> Vec<String> {
    let (mut name, mut kind, mut metrics) = (None, None, Vec::new());
    for (field, value) in fields(message) {
        match field {
            1 => name = Some(value.text()),
            3 => kind = Some(KINDS[usize::try_from(value.int()).expect("a type")]),
            4 => metrics.push(metric(value.bytes(), since)),
            other => panic!("field {other} of a family"),
        }
    }
    let head = format!("{} {}", kind.expect("a type"), name.expect("a name"));
    [head].into_iter().chain(metrics).collect()
}

fn metric(message: &[u8], since: i64) -> String {
    let (mut labels, mut values, mut time) = (Vec::new(), Vec::new(), None);
    for (field, value) in fields(message) {
        match field {
            1 => {
                let parts = fields(value.bytes());
                assert!(matches!(parts[..], [(1, _), (2, _)]), "a label has name and value");
                labels.push(format!("{}={:?}", parts[0].1.text(), parts[1].1.text()));
            }
            5 => values.extend(fields(value.bytes()).into_iter().map(|(_, value)| number(value))),
            6 => time = Some(value.int() - since),
            7 => values.push(histogram(value.bytes())),
            other => panic!("field {other} of a metric"),
        }
    }
    let time = time.map_or(String::new(), |time| format!(" @{time}"));
    format!("{{{}}} {}{time}", labels.join(","), values.join(" "))
}

fn histogram(message: &[u8]) -> String {
    let mut parts = Vec::new();
    for (field, value) in fields(message) {
        parts.push(match field {
            1 => format!("count(int):{}", value.int()),
            2 => format!("sum:{}", number(value)),
            3 => bucket(value.bytes()),
            4 => format!("count:{}", number(value)),
            5 => format!("schema:{}", unzigzag(value.bits())),
            6 => format!("zero<={}", number(value)),
            7 => format!("zero(int):{}", value.int()),
            8 => format!("zero:{}", number(value)),
            9 => format!("-span:{}", span(value.bytes())),
            11 => format!("-:{}", number(value)),
            12 => format!("+span:{}", span(value.bytes())),
            14 => format!("+:{}", number(value)),
            other => panic!("field {other} of a histogram"),
        });
    }
    parts.join(" ")
}

fn bucket(message: &[u8]) -> String {
    let mut parts = Vec::new();
    for (field, value) in fields(message) {
        parts.push(match field {
            2 => format!("le:{}", number(value)),
            4 => format!("count:{}", number(value)),
            other => panic!("field {other} of a bucket"),
        });
    }
    format!("[{}]", parts.join(" "))
}

/// Offset and length.
fn span(message: &[u8]) -> String {
    let fields = fields(message);
    assert!(matches!(fields[..], [(1, _), (2, _)]), "a span has offset and length");
    format!("{}x{}", unzigzag(fields[0].1.bits()), fields[1].1.int())
}

fn number(value: Value<'_>) -> String {
    match value {
        Value::Double(value) => value.to_string(),
        other => panic!("not a double: {other:?}"),
    }
}
