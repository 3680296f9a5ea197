//! Fuzzes `trace_headers`; see the targets.
#![no_main]

#[path = "../targets/mod.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::check("trace_headers", data));
