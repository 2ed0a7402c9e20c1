//! Scripts that stand in for `date` and `pahole` inside a build, first on PATH.
//!
//! Both make a package build differ from run to run and take no variable that would stop them. The
//! scripts say why and how; they need nothing but the build root's own shell.

/// A tool that a script stands in for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StandIn {
    /// `date`.
    Date,
    /// `pahole`.
    Pahole,
}

impl StandIn {
    /// Every tool that has a stand-in.
    pub const ALL: [Self; 2] = [Self::Date, Self::Pahole];

    /// The name it is called by.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Date => "date",
            Self::Pahole => "pahole",
        }
    }

    /// The tool itself.
    pub const fn real(self) -> &'static str {
        match self {
            Self::Date => "/usr/bin/date",
            Self::Pahole => "/usr/bin/pahole",
        }
    }

    /// The script.
    pub const fn script(self) -> &'static str {
        match self {
            Self::Date => include_str!("assets/date.sh"),
            Self::Pahole => include_str!("assets/pahole.sh"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Cmd, CommandError, Tool};

    /// What the script does, with a tool in the real one's place that says its arguments.
    fn said(tool: StandIn, line: &str, epoch: Option<&str>) -> Result<String, CommandError> {
        let script = tool
            .script()
            .replace(tool.real(), "/usr/bin/printf '%s,' real");
        let mut cmd = Cmd::new(&Tool::find("sh")?)
            .args(["-c", &script, "sh"])
            .args(line.split_whitespace());
        if let Some(epoch) = epoch {
            cmd = cmd.env("SOURCE_DATE_EPOCH", epoch);
        }
        Ok(String::from_utf8_lossy(&cmd.capture()?).into_owned())
    }

    #[test]
    fn the_changelog_date_is_source_date_epoch() {
        for spelling in ["-R", "-u -R", "--rfc-email", "-Ru"] {
            let said = said(StandIn::Date, spelling, Some("1780300000")).unwrap();
            assert_eq!(said, "real,-u,-R,-d,@1780300000,", "{spelling}");
        }
    }

    #[test]
    fn any_other_question_goes_to_the_real_date() {
        for line in ["+%s", "-u", "-R -d @0", "-u -d @0 -R", "-R -r FILE"] {
            let words = line.replace(' ', ",");
            let said = said(StandIn::Date, line, Some("1")).unwrap();
            assert_eq!(said, format!("real,{words},"), "{line}");
        }
        assert_eq!(said(StandIn::Date, "-R", None).unwrap(), "real,-R,");
    }

    #[test]
    fn a_malformed_epoch_is_an_error_not_the_wall_clock() {
        for epoch in ["", "now", "1.5", "-1"] {
            let error = said(StandIn::Date, "-R", Some(epoch)).unwrap_err();
            let told = matches!(&error, CommandError::Failed { tail, .. }
                if tail.iter().any(|line| line.contains("expected seconds since 1970")));
            assert!(told, "{epoch}: {error}");
        }
    }

    #[test]
    fn pahole_loses_its_threads_and_nothing_else() {
        for (line, kept) in [
            (
                "-J -j --btf_features=var vmlinux",
                "-J,--btf_features=var,vmlinux",
            ),
            ("-j8 -J x", "-J,x"),
            ("--jobs=4 --version", "--version"),
            ("--jobs -J x", "-J,x"),
            ("-J --btf_gen_floats x", "-J,--btf_gen_floats,x"),
        ] {
            let said = said(StandIn::Pahole, line, None).unwrap();
            assert_eq!(said, format!("real,{kept},"), "{line}");
        }
    }
}
