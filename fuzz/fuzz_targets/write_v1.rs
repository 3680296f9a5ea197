//! Remote write 1.0: any message decodes or is refused, and a replay gives the same batch.
#![no_main]

mod write;

use libfuzzer_sys::fuzz_target;
use promkairos::model::Protocol;

fuzz_target!(|data: &[u8]| write::check(Protocol::V1, data));
