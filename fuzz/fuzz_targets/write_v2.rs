//! Fuzzes `write_v2`; see the targets.
#![no_main]

#[path = "../targets/mod.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::check("write_v2", data));
