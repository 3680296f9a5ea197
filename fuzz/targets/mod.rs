//! Checks for any bytes from outside, a function for each decoder.
//!
//! The fuzzer calls them with its own bytes (`fuzz_targets/`), the tests with the inputs in
//! `tests/data/fuzz/` and changes of them (`tests/it/fuzz.rs`). They panic when something is wrong.

mod answer_frames;
mod authorization;
mod checkpoint;
mod chunk;
mod client_names;
mod compressed;
mod copy_state;
pub(crate) mod dataset;
mod evaluation;
pub(crate) mod expression;
mod frame;
mod index_row;
mod json_answer;
mod kairosdb_conf;
mod kairosdb_query;
mod keyspace_file;
mod log;
mod manifest;
mod memory_disk;
mod metadata_file;
mod part_end;
mod promql;
mod quarantine;
mod read_answer;
mod regex;
mod remote_read;
mod request;
mod row_key;
mod row_spec;
mod server;
mod settings;
mod tag_index;
mod trace_headers;
mod traceparent;
mod web_config;
mod write;

/// A check, which panics when something is wrong with these bytes.
pub(crate) type Check = fn(&[u8]);

/// Name and check of each target.
pub(crate) const TARGETS: &[(&str, Check)] = &[
    ("write_v1", write::check_v1),
    ("write_v2", write::check_v2),
    ("compressed", compressed::check),
    ("remote_read", remote_read::check),
    ("read_answer", read_answer::check),
    ("answer_frames", answer_frames::check),
    ("json_answer", json_answer::check),
    ("copy_state", copy_state::check),
    ("request", request::check),
    ("log", log::check),
    ("checkpoint", checkpoint::check),
    ("keyspace_file", keyspace_file::check),
    ("quarantine", quarantine::check),
    ("chunk", chunk::check),
    ("frame", frame::check),
    ("row_key", row_key::check),
    ("row_spec", row_spec::check),
    ("index_row", index_row::check),
    ("tag_index", tag_index::check),
    ("manifest", manifest::check),
    ("metadata_file", metadata_file::check),
    ("part_end", part_end::check),
    ("settings", settings::check),
    ("web_config", web_config::check),
    ("kairosdb_conf", kairosdb_conf::check),
    ("kairosdb_query", kairosdb_query::check),
    ("authorization", authorization::check),
    ("client_names", client_names::check),
    ("trace_headers", trace_headers::check),
    ("traceparent", traceparent::check),
    ("regex", regex::check),
    ("promql", promql::check),
    ("evaluation", evaluation::check),
];

/// Runs the check of a target.
#[allow(dead_code, reason = "the tests go through the table")]
pub(crate) fn check(target: &str, data: &[u8]) {
    let (_, check) =
        TARGETS.iter().find(|(name, _)| *name == target).expect("a target of the table");
    check(data);
}
