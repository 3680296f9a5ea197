//! Runs histories of the simulator, from a seed on.

use std::process::ExitCode;

use clap::Parser;
use sim::{history, met::Met};

/// Simulates the embedded store and its log on a disk that fails.
#[derive(Parser)]
struct Arguments {
    /// Seed of the first history.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of histories; each has the next seed.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
}

#[tokio::main]
async fn main() -> ExitCode {
    let Arguments { seed, seeds } = Arguments::parse();
    let (mut met, mut broken) = (Met::default(), 0);
    for seed in (0..seeds).map(|number| seed.wrapping_add(number)) {
        if let Err(error) = history::run(seed, &mut met).await {
            println!("seed {seed}: {error}");
            broken += 1;
        }
    }
    println!("{seeds} histories, {broken} broke the law; met: {met:?}");
    ExitCode::from(u8::from(broken > 0))
}
