//! A world in memory: what a Kconfig file sees, and nothing else.

use std::collections::HashMap;

use super::{Host, HostError};

/// Files, answers of programs and variables, all in memory. A program that is not listed is an error,
/// so nothing is asked that was not thought of.
#[derive(Debug, Default)]
pub struct Memory {
    /// Texts by file name.
    pub files: HashMap<&'static str, String>,
    /// Standard outputs by command.
    pub programs: HashMap<&'static str, &'static str>,
    /// Variables of the environment.
    pub variables: HashMap<&'static str, &'static str>,
}

impl Memory {
    /// A world of one file, `Kconfig`.
    pub fn of(text: &str) -> Self {
        Self {
            files: HashMap::from([("Kconfig", text.to_owned())]),
            ..Self::default()
        }
    }
}

impl Host for Memory {
    fn read(&self, path: &str) -> Result<Option<String>, HostError> {
        Ok(self.files.get(path).cloned())
    }

    fn shell(&self, command: &str) -> Result<Vec<u8>, HostError> {
        match self.programs.get(command) {
            Some(output) => Ok(output.as_bytes().to_vec()),
            None => Err(HostError(format!("no answer for `{command}`").into())),
        }
    }

    fn env(&self, name: &str) -> Option<String> {
        self.variables.get(name).map(|value| (*value).to_owned())
    }
}
