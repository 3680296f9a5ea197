//! The bodies that are sent to KairosDB and to promkairos, most of them from probes of a real KairosDB 1.3.0-1.
//!
//! Left out: empty names and values of tags with `skip_validate`, and a negative `ttl`, since Cassandra may refuse the
//! batch that KairosDB makes of them and of points of other tests; two types of a series at one time, of which KairosDB
//! shows both points; gzip files of several members, which KairosDB reads or not as its buffer happens to be filled.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

/// Names and values.
pub(super) type Headers = &'static [(&'static str, &'static str)];

pub(super) const JSON: Headers = &[("Content-Type", "application/json")];
const TEXT: Headers = &[("Content-Type", "text/plain")];
const GZIP_TYPE: Headers = &[("Content-Type", "application/gzip")];
const GZIP: Headers = &[("Content-Type", "application/json"), ("Content-Encoding", "gzip")];
const GZIP_TWICE: Headers = &[("Content-Type", "application/gzip"), ("Content-Encoding", "gzip")];
const IDENTITY: Headers = &[("Content-Type", "application/json"), ("Content-Encoding", "identity")];
const DEFLATE: Headers = &[("Content-Type", "application/json"), ("Content-Encoding", "deflate")];

/// What is sent of a text.
#[derive(Debug, Clone, Copy)]
enum Packing {
    Plain,
    Gzip,
    /// The first half of a gzip file.
    Half,
    /// Nothing.
    Empty,
}

/// Points whose types and values are compared with [`EXACT_VALUES`] too.
const EXACT: &str = r#""datapoints":[[1,9007199254740993],[2,-9223372036854775808],[3,9223372036854775807],
    [4,0],[5,10000000],[6,-0.0],[7,1.0],[8,1.0e7],[9,9007199254740993.0],[10,0.0]]"#;
/// How KairosDB writes them.
pub(super) const EXACT_VALUES: &str = concat!(
    "[[1,9007199254740993],[2,-9223372036854775808],[3,9223372036854775807],[4,0],[5,10000000],",
    "[6,-0],[7,1],[8,1.0E7],[9,9.007199254740992E15],[10,0]]"
);

/// Fields of a metric with a name and a tag.
const FIELDS: &[&str] = &[
    EXACT,
    r#""timestamp":1,"value":5"#,
    r#""time":7,"timestamp":5,"value":1"#,
    r#""timestamp":1,"value":1,"datapoints":[[2,2]]"#,
    r#""timestamp":1,"value":1,"ttl":0"#,
    r#""datapoints":[[1,"7"],[2,"7.5"],[3,"+7"],[4,".5"],[5,"-7"]]"#,
    r#""datapoints":[[1,1e5],[2,1.5e-1],[3,1E+2]]"#,
    r#""datapoints":[[1,99999999999999999999],[2,-99999999999999999999],[3,9223372036854775808]]"#,
    r#""datapoints":[[1,-0],[2,-0.0],[3,"-0.0"]]"#,
    r#""datapoints":[[1,007],[2,00.5],[3,+7]]"#,
    r#""datapoints":[[1.7,1],["2",2],[[3],3]]"#,
    r#""datapoints":[[1,1],[1,1],[2,2.5],[1,1]]"#,
    r#""datapoints":[[1,5,"double"],[2,5.9,"long"],[3,"5","double"],[4,"8","long"],[5,"1e2","double"]]"#,
    r#""datapoints":[[1,[[5.9]],"long"],[2,[7],"double"]]"#,
    r#""type":"double","datapoints":[[1,5],[2,6,"long"],[3,7.25,"double","and",{"more":1}]]"#,
    r#""type":"long","timestamp":1,"value":"12""#,
    r#""type":"double","timestamp":1,"value":10000000"#,
    r#""datapoints":[]"#,
    r#""datapoints":null,"timestamp":null,"ttl":null,"skip_validate":null,"type":null"#,
    r#""skip_validate":true,"timestamp":1,"value":null,"type":"long""#,
    r#""other":[{"x":[1,"y"]}],"timestamp":1,"value":1"#,
    // JSON does not have these values.
    r#""datapoints":[[1,"NaN","double"],[2,1.5]]"#,
    r#""datapoints":[[1,"-Infinity","double"],[2,1.0e400],[3,7]]"#,
    // Refused, in whole or in part.
    r#""datapoints":[[1,null],[null,1],[1]]"#,
    r#""datapoints":[[1,1],[2],[3,3],[4],[]]"#,
    r#""datapoints":[[1,2,"foo"],[2,3]]"#,
    r#""datapoints":[[1,{"a":1}],[2,6]]"#,
    r#""datapoints":[[1,[5]],[2,6]]"#,
    r#""datapoints":[[1,[]],[2,6]]"#,
    r#""datapoints":[[1,""],[2,6]]"#,
    r#""type":"foo","datapoints":[[1,1]]"#,
    r#""timestamp":1"#,
    r#""value":1"#,
    r#""timestamp":1,"value":null"#,
    r#""timestamp":1,"value":"""#,
    r#""timestamp":1,"value":[]"#,
    r#""timestamp":1.5,"value":1"#,
    r#""timestamp":"abc","value":1"#,
    r#""timestamp":true,"value":1"#,
    r#""ttl":0.5,"timestamp":1,"value":1"#,
    r#""skip_validate":1,"timestamp":1,"value":1"#,
    r#""datapoints":{}"#,
    r#""datapoints":[5]"#,
    r#""datapoints":[[1,2]"#,
    // What KairosDB does not expect.
    r#""datapoints":[[1,2],["x",1]]"#,
    r#""datapoints":[[1,"5.5","long"]]"#,
    r#""datapoints":[[1,"99999999999999999999","long"]]"#,
    r#""datapoints":[[1,".1.2"]]"#,
    r#""datapoints":[[1,{},"long"]]"#,
    r#""datapoints":[[1,2,null]]"#,
    // The same, with a text of the Java machine.
    r#""datapoints":[[1,[1,2],"long"]]"#,
    r#""datapoints":[[1,2],null]"#,
    r#""skip_validate":true,"datapoints":[[1,2],[null,2]]"#,
    // Not supported yet.
    r#""timestamp":1,"value":"text""#,
    r#""datapoints":[[1,5],[2,"text"],[3,"1e5"],[4,NaN],[5,true],[6,5.5]]"#,
    r#""type":"string","datapoints":[[1,""],[2,"x"],[3,5]]"#,
    r#""timestamp":1,"value":1,"ttl":600"#,
    // The year 2100.
    r#""datapoints":[[1,2],[4102444800000,1]]"#,
    // Numbers for Java alone.
    r#""datapoints":[[1,2],[2,"\u0663","long"]]"#,
    r#""datapoints":[[1,2],[2,"0x1p3","double"]]"#,
];

/// A metric.
const ONE: &str = r#"{"name":"$","tags":{"a":"b"},"timestamp":1,"value":3}"#;
/// What follows it in an array.
const AFTER_ONE: &[&str] = &[
    "]",
    "",
    ",",
    ",]",
    ";",
    "}",
    ",5]",
    ",[]]",
    ",null]",
    ",{\"name\":\"$.2\",\"tags\":{\"a\":\"b\"},\n\"datapoints\":[[1,2]],\"x\":}]",
    r#",{"name":"$.2","tags":{"a":"b"},"datapoints":[[1,1],[true,1]]}]"#,
    r#",{"name":"$.2","tags":{"c":"d"},"datapoints":[[1,1],[2,2.5]]}]"#,
    r#",{"name":"$.2","tags":{"a":""},"timestamp":1,"value":1}]"#,
    r#",{"name":"$.2","tags":{"a":"b"},"timestamp":1,"value":"text"}]"#,
    r#",{"name":"$.2","tags":{"a":"b"},"timestamp":1,"value":1,"ttl":600}]"#,
];

const BODIES: &[&str] = &[
    ONE,
    "",
    "5",
    "null",
    "\"x\"",
    "{nope",
    "{",
    "{}",
    "[",
    "[]",
    "[,]",
    "]",
    r#"{"name":"$\u12g4"}"#,
    r#"{"name":"$"]"#,
    r#"{"name":"$","tags":{"a":"b"},"timestamp":1,"value":}"#,
    "\u{feff} {name = $; # a comment\n 'tags' => {a: b}, /* x */ datapoints: [[1, 2]; [3; 4]]} and more",
    r#"[{"name":"$","tags":{"host":"é 😀","a b":"c:d=e","dc":5,"up":true},"timestamp":1,"value":1}]"#,
    r#"[{"name":"$","tags":[["a","b"],["c",1]],"timestamp":1,"value":1}]"#,
    r#"[{"name":"$","tags":{"a":null,"b":1,"a":2},"timestamp":1,"value":1}]"#,
    r#"[{"name":"$","tags":{"a":1,"a":1},"timestamp":1,"value":1}]"#,
    r#"[{"name":"$","tags":{"__name__":"x"},"timestamp":1,"value":1}]"#,
    r#"[{"name":"$","tags":5,"timestamp":1,"value":1}]"#,
    r#"[{"name":"$","tags":{},"timestamp":1,"value":1}]"#,
    r#"[{"name":"$","timestamp":1,"value":1}]"#,
    r#"[{"name":"$","skip_validate":true,"tags":{},"datapoints":[[1,1]]}]"#,
    r#"[{"name":"$","skip_validate":true,"tags":{"a":null},"datapoints":[[1,1]]}]"#,
    r#"[{"skip_validate":true,"tags":{"a":"b"},"datapoints":[[1,1]]}]"#,
    r#"[{"name":"","timestamp":1,"value":1,"tags":{"a":""}},{"name":"$","timestamp":1,"value":1,"tags":{"a":"b"}}]"#,
    r#"[{"timestamp":1},{"name":"$","value":2},{"name":"$","tags":{"":null,"x":null},"timestamp":1,"value":null}]"#,
];

/// Forms of [`ONE`].
const FORMS: &[(Headers, Packing)] = &[
    (TEXT, Packing::Plain),
    (IDENTITY, Packing::Plain),
    (DEFLATE, Packing::Plain),
    (GZIP, Packing::Gzip),
    (GZIP_TYPE, Packing::Gzip),
    (GZIP_TWICE, Packing::Gzip),
    (GZIP, Packing::Plain),
    (GZIP_TYPE, Packing::Plain),
    (GZIP, Packing::Half),
    (GZIP_TYPE, Packing::Half),
    (GZIP, Packing::Empty),
    (GZIP_TYPE, Packing::Empty),
];

/// A body, and the first part of the names of its metrics, which no other body has.
pub(super) struct Sent {
    name: String,
    pub(super) headers: Headers,
    pub(super) body: Vec<u8>,
}

impl Sent {
    /// A query for all points of its metrics.
    pub(super) fn query(&self) -> String {
        let name = &self.name;
        let metrics = format!(r#"[{{"name":"{name}"}},{{"name":"{name}.2"}}]"#);
        format!(r#"{{"start_absolute":0,"metrics":{metrics}}}"#)
    }

    /// As a text.
    pub(super) fn text(&self) -> String {
        format!("{:?} {}", self.headers, String::from_utf8_lossy(&self.body))
    }
}

/// All bodies. The first one is [`EXACT`]. In the texts above, `$` is the name.
pub(super) fn bodies(prefix: &str) -> Vec<Sent> {
    let fields = FIELDS.iter().map(|fields| of_fields(fields));
    let arrays = AFTER_ONE.iter().map(|rest| format!("[{ONE}{rest}"));
    let others = BODIES.iter().map(|body| (*body).to_owned());
    let texts = fields.chain(arrays).chain(others).chain(large());
    let plain = texts.map(|text| (JSON, Packing::Plain, text));
    let forms = FORMS.iter().map(|&(headers, packing)| (headers, packing, ONE.to_owned()));
    let all = plain.chain(forms).enumerate().map(|(at, (headers, packing, text))| {
        let name = format!("{prefix}.{at}");
        let body = packed(packing, text.replace('$', &name).as_bytes());
        Sent { name, headers, body }
    });
    all.collect()
}

fn of_fields(fields: &str) -> String {
    format!(r#"[{{"name":"$","tags":{{"a":"b"}},{fields}}}]"#)
}

/// Bodies beyond limits that KairosDB does not have.
fn large() -> [String; 4] {
    let tags = |count: usize| {
        let tags: Vec<String> = (0..count).map(|at| format!(r#""t{at}":"v""#)).collect();
        let tags = tags.join(",");
        format!(r#"[{{"name":"$","tags":{{{tags}}},"timestamp":1,"value":1}}]"#)
    };
    let nested = ["[", "]"].map(|bracket| bracket.repeat(70)).concat();
    let nested = of_fields(&format!(r#""timestamp":1,"value":1,"other":{nested}"#));
    let bad_points = of_fields(&format!(r#""datapoints":[{}[1,2]]"#, "[],".repeat(1_100)));
    [tags(130), tags(257), nested, bad_points]
}

fn packed(packing: Packing, text: &[u8]) -> Vec<u8> {
    let gzip = || {
        let mut file = GzEncoder::new(Vec::new(), Compression::default());
        file.write_all(text).expect("into memory");
        file.finish().expect("into memory")
    };
    match packing {
        Packing::Plain => text.to_vec(),
        Packing::Gzip => gzip(),
        Packing::Half => {
            let mut file = gzip();
            file.truncate(file.len() / 2);
            file
        }
        Packing::Empty => Vec::new(),
    }
}
