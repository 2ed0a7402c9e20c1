//! This program once more, in its own place.

use std::os::unix::process::CommandExt as _;

use super::error::CommandError;

/// Starts this program again with the same arguments and with these variables beside its own. It
/// takes this process's place, so it only returns where that fails.
pub fn again(variables: &[(&str, &str)]) -> CommandError {
    let failed = |source| CommandError::Io {
        action: "start again",
        program: "kiln".to_owned(),
        source,
    };
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return failed(error),
    };
    #[expect(clippy::disallowed_methods, reason = "nothing is left to watch it")]
    let mut command = std::process::Command::new(program);
    let arguments = std::env::args_os().skip(1);
    let source = command
        .args(arguments)
        .envs(variables.iter().copied())
        .exec();
    failed(source)
}
