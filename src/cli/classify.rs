//! `kiln classify`: whether a change can reach running kernels as a live patch.

use camino::Utf8PathBuf;
use clap::Args;
use serde_json::{Value, json};

use super::context::Context;
use super::run::arguments;
use super::verbs::{Example, TEXT_AND_JSON, Verb};
use crate::failure::{Exit, Failure};
use crate::files;
use crate::source::live_patch::{Classified, Verdict, classify};
use crate::source::patch_text::{LIMIT, PatchText};
use crate::ui::{Answer, Style, Table, Tone};

pub(super) static VERB: Verb = Verb {
    path: &["classify"],
    summary: "Tell whether a patch needs a reboot, by its text",
    detail: "Says `needs-reboot` with the reasons and their places, or `unsure`. The text alone \
             never proves that a live patch is enough: the compiler may inline, clone or drop what \
             the text does not show.",
    writes: false,
    formats: TEXT_AND_JSON,
    exits: &[],
    examples: &[Example {
        line: "kiln classify patches/0001-fix.patch",
        says: "the verdict, and what in the patch decides it",
    }],
    args: Arguments::augment_args,
    run: |context, matches| run(context, &arguments(matches)?),
};

#[derive(Debug, Args)]
struct Arguments {
    /// The patch, a unified diff
    #[arg(value_parser = super::run::path, value_name = "PATCH")]
    patch: Utf8PathBuf,
}

fn run(context: &Context, arguments: &Arguments) -> Result<Exit, Failure> {
    let patch = &arguments.patch;
    let text = PatchText::parse(files::read(patch, LIMIT)?)
        .map_err(|error| Failure::usage(format!("`{patch}` is no patch: {error}")))?;
    context.answer(&Told {
        patch: patch.to_string(),
        classified: classify(&text),
    })?;
    Ok(Exit::Ok)
}

struct Told {
    patch: String,
    classified: Classified,
}

impl Answer for Told {
    fn text(&self, style: Style) -> String {
        let verdict = match self.classified.verdict {
            Verdict::NeedsReboot => style.paint(Tone::Bad, "needs-reboot"),
            Verdict::Unsure => style.paint(Tone::Strong, "unsure"),
        };
        let mut table = Table::new();
        for finding in &self.classified.findings {
            let place = format!("{}:{}", self.patch, finding.line);
            table.row([
                place,
                finding.file.clone(),
                finding.reason.text().to_owned(),
            ]);
        }
        format!("{verdict}\n{}", table.render(2))
    }

    fn json(&self) -> Value {
        let findings = self.classified.findings.iter().map(|finding| {
            json!({
                "file": finding.file,
                "line": finding.line,
                "reason": finding.reason,
                "text": finding.reason.text(),
            })
        });
        json!({
            "schema": "kiln.classified/1",
            "patch": self.patch,
            "verdict": self.classified.verdict,
            "findings": findings.collect::<Vec<_>>(),
        })
    }
}
