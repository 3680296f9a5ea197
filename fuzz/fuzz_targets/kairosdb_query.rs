//! Fuzzes `kairosdb_query`; see the targets.
#![no_main]

#[path = "../targets/mod.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::check("kairosdb_query", data));
