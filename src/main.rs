//! Runs the command line. An error becomes one line on stderr and an exit code.

use std::io::Write;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match promkairos::cli::run(std::env::args_os()) {
        Ok(code) => code,
        Err(error) => {
            // If stderr is closed, the error cannot be reported.
            let _ =
                writeln!(std::io::stderr(), "promkairos: {}", promkairos::cli::describe(&error));
            error.exit_code()
        }
    }
}
