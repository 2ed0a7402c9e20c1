//! `kiln man`: manual pages, one for kiln and one for each verb.

use camino::Utf8PathBuf;
use clap::Args;
use clap_mangen::Man;
use serde_json::{Value, json};

use super::app;
use super::context::Context;
use super::run::arguments;
use super::verbs::{Example, TEXT_AND_JSON, VERBS, Verb};
use crate::failure::{Exit, Failure};
use crate::files;
use crate::ui::{Answer, Style};

pub(super) static VERB: Verb = Verb {
    path: &["man"],
    summary: "Write manual pages into a directory",
    detail: "Writes kiln.1, and a page such as kiln-config-check.1 for each verb. Pages that are \
             there are replaced.",
    writes: true,
    formats: TEXT_AND_JSON,
    exits: &[Exit::NoSpace],
    examples: &[
        Example {
            line: "kiln man /usr/local/share/man/man1",
            says: "makes `man kiln` and `man kiln-check` work",
        },
        Example {
            line: "kiln man ./man",
            says: "writes them to look at, with `man ./man/kiln.1`",
        },
    ],
    args: Arguments::augment_args,
    run: |context, matches| run(context, &arguments(matches)?),
};

#[derive(Debug, Args)]
struct Arguments {
    /// Where to write them
    #[arg(value_parser = super::run::path, value_name = "DIR")]
    target: Utf8PathBuf,
}

fn run(context: &Context, arguments: &Arguments) -> Result<Exit, Failure> {
    let directory = context.start().join(&arguments.target);
    files::create_dir_all(&directory)?;
    let mut written = Vec::new();
    for (name, text) in pages().map_err(|error| Failure {
        exit: Exit::Unexpected,
        code: "man",
        message: "failed to render a manual page".to_owned(),
        causes: vec![error.to_string()],
        hints: Vec::new(),
    })? {
        files::write(&directory.join(&name), &text)?;
        written.push(name);
    }
    context.answer(&Written {
        directory: arguments.target.clone(),
        pages: written,
    })?;
    Ok(Exit::Ok)
}

/// Every page: file name and text.
fn pages() -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut pages = Vec::new();
    let mut page = |name: String, command: clap::Command| {
        let mut text = Vec::new();
        Man::new(command)
            .source(concat!("kiln ", env!("CARGO_PKG_VERSION")))
            .render(&mut text)?;
        pages.push((format!("{name}.1"), text));
        std::io::Result::Ok(())
    };
    page("kiln".to_owned(), app::command())?;
    for verb in VERBS {
        let name = format!("kiln-{}", verb.path.join("-"));
        let command = app::of(verb)
            .display_name(name.clone())
            .bin_name(format!("kiln {}", verb.name()));
        page(name, command)?;
    }
    Ok(pages)
}

struct Written {
    directory: Utf8PathBuf,
    pages: Vec<String>,
}

impl Answer for Written {
    fn text(&self, _style: Style) -> String {
        format!(
            "wrote {} pages into `{}`\n",
            self.pages.len(),
            self.directory
        )
    }

    fn json(&self) -> Value {
        json!({ "schema": "kiln.man/1", "directory": self.directory, "pages": self.pages })
    }
}
