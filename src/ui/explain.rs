//! One option explained, for people and machines.

use serde_json::{Value, json};

use super::answer::Answer;
use super::style::{Style, Tone};
use crate::kconfig::explain::{About, Fix, Selector, Would};
use crate::pipeline::explain::Explained;

/// How many symbols of a list are shown where nobody asked for all.
const SHOWN: usize = 8;

/// An option under a pipeline's configuration.
#[derive(Debug)]
pub struct Told<'a> {
    /// What there is to say.
    pub explained: &'a Explained,
    /// Whether all of it is shown.
    pub verbose: bool,
}

impl Told<'_> {
    fn limit(&self) -> usize {
        if self.verbose { usize::MAX } else { SHOWN }
    }

    /// What it is.
    fn what(&self, style: Style, out: &mut Vec<String>) {
        let about = &self.explained.about;
        let kind = about.kind.map_or_else(String::new, |k| k.to_string());
        let name = style.paint(Tone::Strong, &format!("CONFIG_{}", about.symbol));
        let prompts = about.defined.iter().filter_map(|d| d.prompt.as_ref());
        let prompt = prompts.map(|prompt| format!(" \"{prompt}\"")).next();
        let prompt = prompt.unwrap_or_else(|| ", without a prompt".to_owned());
        out.push(format!(
            "{name} ({kind}{prompt}) on linux {}, {}",
            self.explained.version, self.explained.pipeline
        ));
        for definition in &about.defined {
            let menus = definition.menus.join(" > ");
            let menus = if menus.is_empty() {
                menus
            } else {
                format!(" in {menus}")
            };
            out.push(format!("  defined at {}{menus}", definition.site));
            if let Some(depends) = &definition.depends {
                out.push(format!("    needs {depends}"));
            }
        }
        if let Some(choice) = &about.choice {
            let prompt = choice.prompt.as_deref().unwrap_or("a choice");
            let members = about.members.join(", ");
            out.push(format!(
                "  one of \"{prompt}\" at {}: {members}",
                choice.site
            ));
        }
        if let Some(range) = &about.range {
            out.push(format!("  its range is {range}"));
        }
        if let Some(help) = &about.help {
            out.push(String::new());
            let lines = help
                .lines()
                .take(if self.verbose { usize::MAX } else { 12 });
            out.extend(lines.map(|line| format!("    {line}").trim_end().to_owned()));
            out.push(String::new());
        }
    }

    fn relations(&self, about: &About, out: &mut Vec<String>) {
        for (word, list) in [
            ("selected by", &about.selected_by),
            ("implied by", &about.implied_by),
            ("selects", &about.selects),
            ("implies", &about.implies),
        ] {
            if !list.is_empty() {
                out.push(format!("  {word} {}", self.listed(list)));
            }
        }
    }

    /// Symbols with their values, those that are on first.
    fn listed(&self, list: &[Selector]) -> String {
        let on = list.iter().filter(|selector| selector.value != "n");
        let off = list.iter().filter(|selector| selector.value == "n");
        let texts = on
            .chain(off)
            .map(|s| format!("{} [={}]", s.symbol, s.value));
        let mut texts: Vec<String> = texts.collect();
        let more = texts.len().saturating_sub(self.limit());
        texts.truncate(self.limit());
        if more > 0 {
            texts.push(format!("{more} more"));
        }
        texts.join(", ")
    }

    fn would(&self, would: &Would, style: Style, out: &mut Vec<String>) {
        let line = style.paint(Tone::Strong, &would.line);
        if !would.holds {
            out.push(format!("  {line} alone would not hold"));
            let fix = would.fix.iter().flat_map(Fix::told);
            out.extend(fix.map(|told| format!("    {told}")));
            return;
        }
        out.push(match would.changed {
            0 => format!("  {line} would hold, and change nothing else"),
            1 => format!("  {line} would hold, and change 1 symbol more"),
            more => format!("  {line} would hold, and change {more} symbols more"),
        });
        let limit = self.limit();
        for change in would.changes.iter().take(limit) {
            let (symbol, before, after) = (&change.symbol, &change.before, &change.after);
            out.push(format!("    {symbol}: {before} -> {after}"));
        }
        let more = would.changed - would.changes.len().min(limit);
        if more > 0 {
            out.push(format!("    and {more} more"));
        }
    }
}

impl Answer for Told<'_> {
    fn text(&self, style: Style) -> String {
        let about = &self.explained.about;
        let mut out = Vec::new();
        self.what(style, &mut out);
        out.push(format!("  it is {}: {}", about.value, about.set));
        for rival in &about.asked {
            out.push(format!("  asked: {} at {}", rival.symbol, rival.origin));
        }
        if !about.needs.is_empty() {
            out.push("  it needs, and does not have:".to_owned());
            for need in &about.needs {
                need.lines(4, &mut out);
            }
        }
        self.relations(about, &mut out);
        for would in &about.would {
            self.would(would, style, &mut out);
        }
        for known in &self.explained.known {
            out.push(format!("  known: {} ({})", known.text, known.source));
        }
        out.push(String::new());
        out.join("\n")
    }

    fn json(&self) -> Value {
        json!({
            "schema": "kiln.explain/1",
            "pipeline": self.explained.pipeline,
            "release": self.explained.version,
            "about": self.explained.about,
            "known": self.explained.known,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dotconfig::DotConfig;
    use crate::kconfig::explain::{Explainer, Ground};
    use crate::kconfig::language::{Memory, Model, Tree};

    fn text(symbol: &str) -> String {
        let tree = "menu \"Drivers\"\n\
                    config FOO\n\tbool \"Foo driver\"\n\tdepends on BUS && !SLOW\n\tselect LIB\n\
                    \thelp\n\t  Drives foo.\n\
                    endmenu\n\
                    config BUS\n\tbool \"bus\"\nconfig SLOW\n\tbool \"slow\"\nconfig LIB\n\tbool\n";
        let mut model = Model::new(Tree::parse(&Memory::of(tree), "Kconfig").unwrap());
        let base = DotConfig::parse("CONFIG_SLOW=y\n# CONFIG_BUS is not set\n");
        model.read(base.text());
        let ground = Ground {
            requests: &[],
            base: &base,
        };
        let about = Explainer::new(&mut model, ground).about(symbol, None);
        let explained = Explained {
            pipeline: "lts".to_owned(),
            version: "6.12.117".parse().unwrap(),
            about: about.unwrap(),
            known: Vec::new(),
        };
        let told = Told {
            explained: &explained,
            verbose: false,
        };
        assert_eq!(told.json()["about"]["symbol"], symbol);
        told.text(Style::PLAIN)
    }

    #[test]
    fn an_option_that_cannot_be_set_is_told_with_the_lines_that_let_it() {
        assert_eq!(
            text("FOO"),
            "CONFIG_FOO (bool \"Foo driver\") on linux 6.12.117, lts\n\
             \x20 defined at Kconfig:2 in Drivers\n\
             \x20   needs BUS [=n] && !SLOW [=y]\n\
             \n\
             \x20   Drives foo.\n\
             \n\
             \x20 it is absent: nothing turns it on\n\
             \x20 it needs, and does not have:\n\
             \x20   BUS [=n]\n\
             \x20     BUS is n: set by the base, line 2\n\
             \x20   !SLOW [=y]\n\
             \x20     SLOW is y: set by the base, line 1\n\
             \x20 selects LIB [=n]\n\
             \x20 CONFIG_FOO=y alone would not hold\n\
             \x20   add (tried, a sufficient set):\n\
             \x20       CONFIG_BUS=y\n\
             \x20       # CONFIG_SLOW is not set\n\
             \x20       CONFIG_FOO=y\n\
             \x20   that changes 1 other symbol too\n"
        );
    }

    #[test]
    fn what_would_change_is_told() {
        let told = text("SLOW");
        assert!(
            told.contains("it is y: set by the base, line 1\n"),
            "{told}"
        );
        let would = "# CONFIG_SLOW is not set would hold, and change nothing else\n";
        assert!(told.contains(would), "{told}");
        let told = text("LIB");
        assert!(told.contains("(bool, without a prompt)"), "{told}");
        assert!(told.contains("selected by FOO [=n]\n"), "{told}");
        assert!(
            told.contains("CONFIG_LIB=y alone would not hold\n"),
            "{told}"
        );
    }
}
