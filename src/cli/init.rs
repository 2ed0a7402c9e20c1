//! `kiln init`: a new workspace out of what is embedded in the binary.

use camino::{Utf8Path, Utf8PathBuf};
use clap::Args;
use serde_json::{Value, json};

use super::context::{Context, Format};
use super::run::arguments;
use super::verbs::{Example, TEXT_AND_JSON, Verb};
use crate::command::quoted;
use crate::failure::{Diagnose, Exit, Failure};
use crate::files::{self, FileError};
use crate::pipeline::embedded;
use crate::ui::{Answer, Style, Tone};

pub(super) static VERB: Verb = Verb {
    path: &["init"],
    summary: "Make a workspace with pipelines, fragments and keys to start from",
    detail: "Writes what is embedded in kiln: the pipelines lts and canary (from kernel.org), debian and \
             cloud (from Debian's source) and guest (what kiln's tests boot), their configuration \
             fragments, and the certificates of the people who sign kernels. DIR must be new or \
             empty; nothing that exists is touched. Put the directory under version control: it is \
             yours to change.",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: &[Exit::NoSpace],
    examples: &[
        Example {
            line: "kiln init kernels",
            says: "makes the directory `kernels`",
        },
        Example {
            line: "kiln init .",
            says: "fills the directory you are in, if it is empty",
        },
    ],
    args: Arguments::augment_args,
    run: |context, matches| run(context, &arguments(matches)?),
};

#[derive(Debug, Args)]
struct Arguments {
    /// The new workspace
    #[arg(value_parser = super::run::path, value_name = "DIR")]
    target: Utf8PathBuf,
}

#[derive(Debug, thiserror::Error)]
enum InitError {
    #[error("`{target}` is not empty: it holds {}", names(.found))]
    NotEmpty {
        target: Utf8PathBuf,
        found: Vec<String>,
    },
    #[error("`{target}` is a file, expected a new or empty directory")]
    NotADirectory { target: Utf8PathBuf },
    #[error(transparent)]
    File(#[from] FileError),
}

fn names(found: &[String]) -> String {
    let shown: Vec<String> = found.iter().take(3).map(|n| format!("`{n}`")).collect();
    match found.len().saturating_sub(3) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

impl Diagnose for InitError {
    fn exit(&self) -> Exit {
        match self {
            Self::File(error) => error.exit(),
            _ => Exit::Usage,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::NotEmpty { .. } => "not-empty",
            Self::NotADirectory { .. } => "not-a-directory",
            Self::File(error) => error.code(),
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::NotEmpty { .. } => {
                vec!["name a directory that does not exist yet".to_owned()]
            }
            Self::NotADirectory { .. } => Vec::new(),
            Self::File(error) => error.hints(),
        }
    }
}

fn run(context: &Context, arguments: &Arguments) -> Result<Exit, Failure> {
    if arguments.target.as_str().is_empty() {
        return Err(Failure::usage("the name of the new workspace is empty"));
    }
    let target = context.start().join(&arguments.target);
    make(&target)?;
    // With `-C` the name is not from where the reader stands.
    let shown = if context.start_is_given() {
        target
    } else {
        arguments.target.clone()
    };
    if !context.quiet() || context.format() == Format::Json {
        context.answer(&Made { target: shown })?;
    }
    Ok(Exit::Ok)
}

/// Writes the embedded files beside `target`, then moves them to it.
fn make(target: &Utf8Path) -> Result<(), InitError> {
    if target.is_dir() {
        let found = files::list(target)?;
        if !found.is_empty() {
            let target = target.to_owned();
            return Err(InitError::NotEmpty { target, found });
        }
    } else if target.exists() {
        let target = target.to_owned();
        return Err(InitError::NotADirectory { target });
    }
    let fresh = !target.exists();
    // A directory that is there may be somebody's current one, so it is filled, not replaced. What
    // makes it a workspace, `pipelines`, comes last.
    files::create_dir_all(target)?;
    let staged = target.join(format!(".kiln-init-{}", std::process::id()));
    let filled = write(&staged).and_then(|()| release(&staged, target));
    if filled.is_err() {
        // The first error is the one to tell.
        let _secondary = files::remove_dir_all(&staged);
        if fresh {
            let _secondary = files::remove_dir_all(target);
        }
    }
    filled.map_err(InitError::File)
}

fn write(staged: &Utf8Path) -> Result<(), FileError> {
    for (path, text) in embedded::FILES {
        let path = staged.join(path);
        if let Some(parent) = path.parent() {
            files::create_dir_all(parent)?;
        }
        files::write(&path, text.as_bytes())?;
    }
    Ok(())
}

fn release(staged: &Utf8Path, target: &Utf8Path) -> Result<(), FileError> {
    let mut names = files::list(staged)?;
    names.sort_by_key(|name| name == "pipelines");
    for name in names {
        files::rename(&staged.join(&name), &target.join(&name))?;
    }
    files::remove_dir_all(staged)
}

struct Made {
    target: Utf8PathBuf,
}

impl Made {
    /// Its name as `cd` takes it for one.
    fn directory(&self) -> String {
        match self.target.as_str() {
            option if option.starts_with('-') => format!("./{option}"),
            name => name.to_owned(),
        }
    }

    fn next(&self) -> Vec<String> {
        vec![
            format!("cd {}", quoted(&self.directory())),
            "git init && git add . && git commit --message 'Kernels'".to_owned(),
            "kiln doctor --for build".to_owned(),
            "kiln check".to_owned(),
            "kiln config check debian".to_owned(),
        ]
    }
}

impl Answer for Made {
    fn text(&self, style: Style) -> String {
        let mut out = format!("made the workspace `{}`\n\nnext:\n", self.target);
        for line in self.next() {
            out.push_str("  ");
            out.push_str(&style.paint(Tone::Strong, &line));
            out.push('\n');
        }
        out
    }

    fn json(&self) -> Value {
        let files: Vec<&str> = embedded::FILES.iter().map(|(path, _)| *path).collect();
        json!({
            "schema": "kiln.init/1",
            "workspace": self.target,
            "files": files,
            "next": self.next(),
        })
    }
}
