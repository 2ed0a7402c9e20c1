//! The program `kiln`.

use std::process::ExitCode;

fn main() -> ExitCode {
    kiln::cli::kiln()
}
