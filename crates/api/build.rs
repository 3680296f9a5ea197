//! Compiles the messages under `proto/`, without protoc.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    const PROTO: &str = "../../proto";
    println!("cargo::rerun-if-changed={PROTO}");
    let files = protox::compile(["metrics.proto", "prometheus.proto", "write_v2.proto"], [PROTO])?;
    prost_build::Config::new().compile_fds(files)?;
    Ok(())
}
