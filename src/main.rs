//! promkairos.
fn main() {}
