//! `reproduce`: a build made again from its manifest alone, under other conditions, and compared byte
//! by byte.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

use super::build::{Built, MANIFEST, Options};
use super::carried;
use super::run::{self, Run};
use super::session::Session;
use super::sign::Signing;
use super::vary::{self, Conditions};
use super::verify;
use super::workspace::{Loaded, Workspace};
use crate::clock;
use crate::command::{Cmd, CommandError, Tool};
use crate::digest::Sha256;
use crate::failure::{Exit, Failure};
use crate::files::{self, Wait};
use crate::kbuild::compare::{Difference, compare};
use crate::kbuild::difference::Cause;
use crate::kbuild::root::Look;
use crate::kernel::Release;
use crate::proof::envelope::{Envelope, EnvelopeError};
use crate::proof::evidence::{LAUNCHER, REPRODUCED, Reproduced};
use crate::proof::manifest::{Manifest, Package};
use crate::proof::roles::{Role, Roles};
use crate::sandbox::Sandbox;
use crate::spec;

/// Name of the evidence in a run's directory.
pub const EVIDENCE: &str = "reproduced.json";

/// Name of the directory with other packages than the manifest's in a run's directory.
const REBUILT: &str = "rebuilt";

/// Longest that diffoscope may look at one package: it can take hours over a kernel's debugging
/// information.
const DIFFOSCOPE: Duration = Duration::from_mins(20);

/// What is to be built again.
#[derive(Debug)]
pub struct Question<'a> {
    /// The manifest's file.
    pub manifest: &'a Utf8Path,
    /// Where its packages are: this directory, or `packages` beside it, or beside it. They are only
    /// looked at where the rebuild differs.
    pub packages: Option<&'a Utf8Path>,
    /// Who may sign what.
    pub roles: &'a Roles,
    /// Sign no evidence although signers are configured.
    pub unsigned: bool,
}

/// A package, built twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Twice {
    /// Its name.
    pub name: String,
    /// Digest in the manifest.
    pub first: Sha256,
    /// Digest of the rebuild; nothing where it made no such package.
    pub second: Option<Sha256>,
}

impl Twice {
    /// Whether both are the same bytes.
    pub fn is_same(&self) -> bool {
        self.second == Some(self.first)
    }
}

/// Who vouches for the outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Vouched {
    /// This rebuilder, in this file.
    By(String, Utf8PathBuf),
    /// Nobody, for this reason.
    Nobody(String),
}

/// What became of building again.
#[derive(Debug)]
pub struct Reproduction {
    /// Id of the manifest.
    pub id: Sha256,
    /// What was built.
    pub release: Release,
    /// Every package of either build.
    pub packages: Vec<Twice>,
    /// What differs inside the packages, and why.
    pub differences: Vec<Difference>,
    /// What else of the manifest differs, in its own words.
    pub manifest: Vec<String>,
    /// What was made different on purpose.
    pub varied: BTreeMap<String, String>,
    /// What could not be made different, and why.
    pub unvaried: Vec<String>,
    /// Why the outcome says less than it could.
    pub doubts: Vec<String>,
    /// The run's directory, with the other packages where there are any.
    pub directory: Utf8PathBuf,
    /// What diffoscope says of them, where it is installed.
    pub diffoscope: Option<Utf8PathBuf>,
    /// Who vouches for it.
    pub vouched: Vouched,
}

impl Reproduction {
    /// Whether everything is the same.
    pub fn is_identical(&self) -> bool {
        self.packages.iter().all(Twice::is_same) && self.manifest.is_empty()
    }

    /// Nothing where everything is the same.
    ///
    /// # Errors
    /// With exit code 13 where anything differs.
    pub fn verdict(&self) -> Result<(), Failure> {
        if self.is_identical() {
            return Ok(());
        }
        let differing = self.packages.iter().filter(|twice| !twice.is_same());
        let what = match differing.count() {
            0 => format!(
                "the packages are the same, the manifest differs in {}",
                self.manifest.join(", ")
            ),
            count => format!("{count} of {} packages differ", self.packages.len()),
        };
        let failure = Failure {
            exit: Exit::NotReproducible,
            code: "not-reproduced",
            ..Failure::usage(format!("{} is not reproduced: {what}", self.release))
        };
        Err(match self.diffoscope {
            None if self
                .differences
                .iter()
                .any(|one| one.causes.contains(&Cause::Unclassified)) =>
            {
                failure.hint("install diffoscope for a closer look, and run this again")
            }
            _ => failure,
        })
    }
}

/// A manifest to build again, and who signed it.
struct First<'a> {
    path: &'a Utf8Path,
    manifest: Manifest,
    id: Sha256,
    /// Nobody where it is unsigned.
    builders: BTreeSet<String>,
}

impl<'a> First<'a> {
    /// Reads a manifest. An unsigned one can be built again too; one with signatures of which none
    /// counts cannot.
    fn open(question: &Question<'a>) -> Result<Self, Failure> {
        let path = question.manifest;
        let name = path.as_str();
        let envelope = verify::read(path)?;
        let opened = envelope.open(
            name,
            "manifest",
            Role::Builder,
            question.roles,
            clock::today(),
        );
        let builders = match opened {
            Ok(signed) => signed.names(),
            Err(EnvelopeError::Unsigned { .. }) => BTreeSet::new(),
            Err(error) => return Err(error.into()),
        };
        let payload = envelope.payload_of(name, "manifest")?;
        Ok(Self {
            path,
            manifest: verify::manifest(name, &payload)?,
            id: Sha256::of(&payload),
            builders,
        })
    }

    fn line(&self) -> &str {
        self.manifest.lock.inputs.line.as_str()
    }
}

/// A rebuild in its scratch workspace.
struct Second {
    built: Built,
    conditions: Conditions,
}

impl Session<'_> {
    /// Builds again from a manifest, and compares.
    pub fn reproduce(&self, question: &Question<'_>) -> Result<Reproduction, Failure> {
        let first = First::open(question)?;
        // Before anything is compiled: a key that cannot sign is better known now.
        let signing = if question.unsigned {
            Signing::none("`--unsigned` was given")
        } else {
            Signing::open(self.workspace, Role::Rebuilder, clock::today())?
        };
        let line = first.line();
        let purpose = format!("reproduce {line}");
        let _exclusive = self.exclusive(&format!("reproduce-{line}"), &purpose, Wait::No)?;
        let run = Run::begin(&self.workspace.runs(), "reproduce", line, self.progress)?;
        run.building(
            first.manifest.lock.input_digest,
            &first.manifest.release.to_string(),
        )?;
        let result = self.listening(&run).again(&first, question, &signing, &run);
        let ended = match &result {
            Ok(reproduction) => reproduction.verdict(),
            Err(failure) => Err(failure.clone()),
        };
        run.end(&ended)?;
        result
    }

    fn again(
        &self,
        first: &First<'_>,
        question: &Question<'_>,
        signing: &Signing,
        run: &Run<'_>,
    ) -> Result<Reproduction, Failure> {
        let scratch = self
            .workspace
            .dot_kiln()
            .join("reproduce")
            .join(first.line());
        self.discard(&scratch)?;
        files::create_dir_all(&scratch)?;
        let workspace = carried::workspace(
            &scratch,
            first.path.as_str(),
            &first.manifest,
            &self.workspace.keys(),
        )?;
        let second = self.rebuild(first, &workspace);
        // What the programs said is wanted most where they failed.
        let kept = keep_logs(&workspace, run);
        let second = second?;
        kept?;
        let reproduction = self.compared(first, question, second, signing, run)?;
        self.discard(&scratch)?;
        Ok(reproduction)
    }

    /// Builds in the scratch workspace, where as much as can be is different.
    fn rebuild(&self, first: &First<'_>, workspace: &Workspace) -> Result<Second, Failure> {
        let mut pipeline = workspace.pipeline(first.line())?;
        self.reach(&mut pipeline);
        let session = Session {
            workspace,
            locks: workspace.pipelines(),
            ..self.listening(self.progress)
        };
        let lock = session.lock(&pipeline)?;
        // What goes to the store is of the usual kind: others read it too.
        drop(session.acquire_locked(&pipeline, &lock)?);
        let root = session.build_root(&pipeline, &lock, Look::Record)?;
        let (session, conditions) = vary::vary(session, root.as_ref(), first.path)?;
        for line in &conditions.unvaried {
            self.progress.note(format!("cannot be varied here: {line}"));
        }
        let options = Options {
            locked: true,
            again: true,
            unsigned: true,
            keep: false,
        };
        let built = vary::strictly(|| session.build(&pipeline, options, &|_report| {}))?;
        Ok(Second { built, conditions })
    }

    /// A source in a directory is looked for where this workspace has it, or else on its mirrors:
    /// the bytes are what counts.
    fn reach(&self, pipeline: &mut Loaded) {
        if let spec::Source::Dir(path) = &pipeline.spec.source.value {
            let here = self.workspace.root().join(path);
            pipeline.spec.source.value = if here.is_dir() {
                spec::Source::Dir(here)
            } else {
                spec::Source::KernelOrg {}
            };
        }
    }

    fn compared(
        &self,
        first: &First<'_>,
        question: &Question<'_>,
        second: Second,
        signing: &Signing,
        run: &Run<'_>,
    ) -> Result<Reproduction, Failure> {
        let Second { built, conditions } = second;
        self.progress.started(
            "compare",
            format!("{} packages", first.manifest.packages.len()),
        );
        let (packages, pairs) = pairs(first, question.packages, &built);
        let mut differences = Vec::new();
        for pair in &pairs {
            differences.extend(self.differing(pair)?);
        }
        let directory = run.directory().to_owned();
        let mut diffoscope = None;
        if !pairs.is_empty() {
            for pair in &pairs {
                if let Some(package) = &pair.second {
                    let to = directory.join(REBUILT).join(&package.file);
                    files::copy(&built.package(package), &to, Some(&package.sha256))?;
                }
            }
            diffoscope = self.diffoscope(&pairs, &directory)?;
        }
        let mut reproduction = Reproduction {
            id: first.id,
            release: first.manifest.release.clone(),
            manifest: other_facts(&first.manifest, &built.manifest, pairs.is_empty()),
            packages,
            differences,
            varied: conditions.varied,
            unvaried: conditions.unvaried,
            doubts: built.doubts,
            directory,
            diffoscope,
            vouched: Vouched::Nobody(String::new()),
        };
        reproduction.vouched = self.vouch(first, &reproduction, signing)?;
        if !reproduction.is_identical() {
            let manifest = built.directory.join(MANIFEST);
            let to = reproduction.directory.join(REBUILT).join(MANIFEST);
            files::copy(&manifest, &to, None)?;
        }
        let same = reproduction.packages.iter().filter(|twice| twice.is_same());
        let same = same.count();
        self.progress.done(
            "compare",
            format!(
                "{same} of {} packages are the same",
                reproduction.packages.len()
            ),
        );
        Ok(reproduction)
    }

    /// What differs inside two builds of a package.
    fn differing(&self, pair: &Pair) -> Result<Vec<Difference>, Failure> {
        let whole = |detail: &str| Difference {
            package: pair.name.clone(),
            file: String::new(),
            causes: BTreeSet::from([Cause::Unclassified]),
            detail: detail.to_owned(),
        };
        let missing = match (&pair.first, &pair.second) {
            (None, Some(_)) if pair.expected.is_none() => "only the rebuild made it",
            (None, Some(_)) => {
                "the first build's package is not at hand to look into: name its directory with `--dir`"
            }
            (_, None) => "the rebuild did not make it",
            (Some(first), Some(_)) => {
                return Ok(compare(
                    &pair.name,
                    (first, &pair.rebuilt),
                    &self.isolation,
                )?);
            }
        };
        Ok(vec![whole(missing)])
    }

    /// What diffoscope says of the packages that differ, in a file of the run.
    fn diffoscope(
        &self,
        pairs: &[Pair],
        directory: &Utf8Path,
    ) -> Result<Option<Utf8PathBuf>, Failure> {
        let Ok(tool) = Tool::find("diffoscope") else {
            return Ok(None);
        };
        let mut report = None;
        for pair in pairs {
            let (Some(first), Some(_)) = (&pair.first, &pair.second) else {
                continue;
            };
            self.progress.note(format!("diffoscope on {}", pair.name));
            let name = format!("{}.diffoscope.txt", pair.name);
            let path = directory.join(&name);
            let (a, b) = ("/compare/first.deb", "/compare/rebuilt.deb");
            let sandbox = Sandbox::new(&self.isolation)
                .read_only(first, a)
                .read_only(&pair.rebuilt, b);
            let inside = |path: &str| sandbox.path(Utf8Path::new(path)).into_string();
            let output = files::Staged::beside(&path)?;
            let looked = Cmd::new(&tool)
                .args(["--text", "-", "--max-text-report-size", "1048576"])
                .args([inside(a), inside(b)])
                .stdout_file(output.reopen()?)
                .sandbox(&sandbox)
                .deadline(DIFFOSCOPE)
                .status();
            match looked {
                // 1: they differ, which is why it was asked.
                Ok(0 | 1) => {
                    output.commit(&path)?;
                    report.get_or_insert(path);
                }
                Ok(code) => self
                    .progress
                    .warning(format!("diffoscope ended with {code} on {}", pair.name)),
                Err(error @ CommandError::Interrupted(_)) => return Err(error.into()),
                Err(error) => self.progress.warning(format!("diffoscope: {error}")),
            }
        }
        Ok(report)
    }

    /// Signs the evidence, where somebody may and everything is the same.
    fn vouch(
        &self,
        first: &First<'_>,
        reproduction: &Reproduction,
        signing: &Signing,
    ) -> Result<Vouched, Failure> {
        let nobody = |reason: &str| Ok(Vouched::Nobody(reason.to_owned()));
        if !reproduction.is_identical() {
            return nobody("it is not reproduced");
        }
        if first.manifest.lock.inputs.root.pinned().is_none() {
            return nobody("it was built with a host's own tools, not in a pinned root");
        }
        if let Some(doubt) = self.isolation_doubt() {
            return nobody(&doubt);
        }
        if first.builders.is_empty() {
            return nobody("nobody signed the manifest");
        }
        let Some(holder) = signing.holders().next() else {
            return nobody(&signing.idle.join("; "));
        };
        let rebuilder = holder.name.clone();
        if first.builders.contains(&rebuilder) {
            return nobody(&format!(
                "`{rebuilder}` made the build: nobody vouches for oneself"
            ));
        }
        let statement = Reproduced {
            rebuilder: rebuilder.clone(),
            launcher: LAUNCHER.to_owned(),
            conditions: reproduction.varied.clone(),
        };
        let issued = jiff::Timestamp::from_second(clock::now().as_second())
            .map_err(|error| Failure::unexpected(format!("the time cannot be written: {error}")))?;
        let payload = statement.to_payload(&first.id, issued)?;
        let mut envelope = Envelope::unsigned(REPRODUCED, &payload);
        signing.sign(&mut envelope)?;
        let path = reproduction.directory.join(EVIDENCE);
        files::write(&path, &envelope.to_bytes()?)?;
        Ok(Vouched::By(rebuilder, path))
    }
}

/// A package that the two builds do not share.
struct Pair {
    name: String,
    /// What the manifest says of it.
    expected: Option<Package>,
    /// The first build's file, where it is at hand and the one that the manifest names.
    first: Option<Utf8PathBuf>,
    /// What the rebuild made of it.
    second: Option<Package>,
    /// The rebuild's file.
    rebuilt: Utf8PathBuf,
}

/// Every package of either build, and those that differ.
fn pairs(first: &First<'_>, packages: Option<&Utf8Path>, built: &Built) -> (Vec<Twice>, Vec<Pair>) {
    let directory = verify::directory(first.path, packages);
    let by_name = |packages: &[Package]| -> BTreeMap<String, Package> {
        let named = packages.iter().cloned();
        named
            .map(|package| (package.name.clone(), package))
            .collect()
    };
    let (expected, made) = (
        by_name(&first.manifest.packages),
        by_name(&built.manifest.packages),
    );
    let names: BTreeSet<&String> = expected.keys().chain(made.keys()).collect();
    let (mut twice, mut pairs) = (Vec::new(), Vec::new());
    for name in names {
        let (expected, second) = (expected.get(name), made.get(name));
        let digest = |package: &Package| package.sha256;
        let sha256 = (expected.map(digest), second.map(digest));
        // The manifest's own word where it has one, whatever the rebuild made beside.
        let first = sha256.0.or(sha256.1);
        if let Some(first) = first {
            twice.push(Twice {
                name: name.clone(),
                first,
                second: expected.and(sha256.1),
            });
        }
        if sha256.0 == sha256.1 {
            continue;
        }
        let at_hand = |package: &Package| {
            let path = directory.join(&package.file);
            let (sha256, _bytes) = files::hash(&path).ok()?;
            (sha256 == package.sha256).then_some(path)
        };
        pairs.push(Pair {
            name: name.clone(),
            expected: expected.cloned(),
            first: expected.and_then(at_hand),
            second: second.cloned(),
            rebuilt: second
                .map(|package| built.package(package))
                .unwrap_or_default(),
        });
    }
    (twice, pairs)
}

/// What two manifests of one lock do not share beside the packages.
fn other_facts(first: &Manifest, second: &Manifest, same_packages: bool) -> Vec<String> {
    let facts = [
        ("the resolved configuration", first.config == second.config),
        (
            "the guard's report",
            first.guard_report == second.guard_report,
        ),
        // It lists the packages.
        (
            "the bill of materials",
            first.sbom == second.sbom || !same_packages,
        ),
        ("the toolchain", first.toolchain == second.toolchain),
        (
            "what is signed",
            (first.unsigned_modules, first.unsigned_image)
                == (second.unsigned_modules, second.unsigned_image),
        ),
        ("the release", first.release == second.release),
    ];
    let differing = facts.iter().filter(|(_, same)| !same);
    differing.map(|(what, _)| (*what).to_owned()).collect()
}

/// Copies the logs of the rebuild's programs to the run.
fn keep_logs(workspace: &Workspace, run: &Run<'_>) -> Result<(), Failure> {
    let (past, _unreadable) = run::list(&workspace.runs())?;
    for past in past {
        for log in past.logs()? {
            let name = log.file_name().unwrap_or_default();
            files::copy(&log, &run.logs().join(name), None)?;
        }
    }
    Ok(())
}
