//! Looking into a finished `.deb`: its control fields, and in the image package the configuration,
//! the kernel and the modules.
//!
//! A package is made by foreign code, so `dpkg-deb` reads it inside a sandbox, and nothing of it is
//! unpacked: its files are read as a stream.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

use crate::command::{Cmd, CommandError, Tool};
use crate::failure::{Diagnose, Exit};
use crate::files::FileError;
use crate::interrupt::{self, Interrupted};
use crate::sandbox::{Isolation, Sandbox};

/// Longest that reading one package may take. The largest, Debian's with debugging symbols, has
/// 1 GB and takes a minute.
const DEADLINE: Duration = Duration::from_mins(20);

/// Largest configuration in a package; Debian's has 300 KiB.
const CONFIG_LIMIT: u64 = 4 << 20;

/// How much of a kernel image is kept to read its header: the version text lies in its first
/// sectors.
const HEADER_BYTES: u64 = 64 << 10;

/// What the kernel's `scripts/sign-file` appends to a signed module.
const SIGNATURE_MARK: &[u8] = b"~Module signature appended~\n";

/// Why a package could not be read.
#[derive(Debug, thiserror::Error)]
pub enum DebError {
    /// `dpkg-deb` failed.
    #[error("failed to read the package `{path}`")]
    Command {
        /// The package.
        path: Utf8PathBuf,
        /// What happened.
        #[source]
        source: Box<CommandError>,
    },
    /// A file could not be read or written.
    #[error("failed to read a package")]
    File(#[from] FileError),
    /// The archive inside is malformed.
    #[error("the archive inside `{path}` cannot be read")]
    Archive {
        /// The package.
        path: Utf8PathBuf,
        /// What is wrong.
        #[source]
        source: io::Error,
    },
    /// The package holds something that no kernel package holds.
    #[error("`{path}` {what}")]
    Content {
        /// The package.
        path: Utf8PathBuf,
        /// What is wrong, after the name of the package.
        what: String,
    },
    /// A signal arrived.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

impl Diagnose for DebError {
    fn exit(&self) -> Exit {
        match self {
            Self::File(source) => source.exit(),
            Self::Interrupted(source) => source.exit(),
            Self::Command { .. } | Self::Archive { .. } | Self::Content { .. } => Exit::Build,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Interrupted(source) => source.code(),
            _ => "package-unreadable",
        }
    }
}

/// A package file and how to look into it.
#[derive(Debug, Clone)]
pub(crate) struct Deb<'a> {
    path: &'a Utf8Path,
    sandbox: Sandbox,
    inside: Utf8PathBuf,
}

impl<'a> Deb<'a> {
    /// The package at `path`, read under `isolation`.
    pub(crate) fn new(isolation: &Isolation, path: &'a Utf8Path) -> Self {
        let shown = Utf8Path::new("/build/package.deb");
        let sandbox = Sandbox::new(isolation).read_only(path, shown);
        Self {
            path,
            inside: sandbox.path(shown),
            sandbox,
        }
    }

    fn command(&self, verb: &str) -> Result<Cmd, DebError> {
        let tool = Tool::find("dpkg-deb").map_err(|source| self.failed(source))?;
        Ok(Cmd::new(&tool)
            .args([verb, self.inside.as_str()])
            .deadline(DEADLINE)
            .sandbox(&self.sandbox))
    }

    fn failed(&self, source: CommandError) -> DebError {
        match source {
            CommandError::Interrupted(interrupted) => interrupted.into(),
            source => DebError::Command {
                path: self.path.to_owned(),
                source: Box::new(source),
            },
        }
    }

    /// The control fields, without the lines that continue one.
    pub(crate) fn fields(&self) -> Result<BTreeMap<String, String>, DebError> {
        let output = self
            .command("--field")?
            .capture()
            .map_err(|source| self.failed(source))?;
        Ok(fields(&String::from_utf8_lossy(&output)))
    }

    /// The archive of its files, uncompressed, in an unnamed file.
    pub(crate) fn files(&self) -> Result<File, DebError> {
        self.tar("--fsys-tarfile")
    }

    /// The archive of its control files, likewise.
    pub(crate) fn control(&self) -> Result<File, DebError> {
        self.tar("--ctrl-tarfile")
    }

    fn tar(&self, verb: &str) -> Result<File, DebError> {
        let io = |source| self.archive(source);
        let mut archive = tempfile::tempfile().map_err(io)?;
        self.command(verb)?
            .stdout_file(archive.try_clone().map_err(io)?)
            .run()
            .map_err(|source| self.failed(source))?;
        archive.seek(SeekFrom::Start(0)).map_err(io)?;
        Ok(archive)
    }

    pub(crate) fn archive(&self, source: io::Error) -> DebError {
        DebError::Archive {
            path: self.path.to_owned(),
            source,
        }
    }

    /// Reads what matters of an image package.
    pub(crate) fn image(&self) -> Result<Image, DebError> {
        Image::read(self.files()?).map_err(|error| match error {
            ImageError::Io(source) => self.archive(source),
            ImageError::Interrupted(interrupted) => interrupted.into(),
            ImageError::Content(what) => DebError::Content {
                path: self.path.to_owned(),
                what,
            },
        })
    }
}

fn fields(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect()
}

/// Why an archive of files is not that of a kernel image.
#[derive(Debug)]
enum ImageError {
    Io(io::Error),
    Interrupted(Interrupted),
    Content(String),
}

impl From<io::Error> for ImageError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// What stands in an image package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Image {
    /// `/boot/config-NAME`: the name and the text.
    pub(crate) config: (String, String),
    /// `/boot/vmlinuz-NAME`: the name and the first bytes.
    pub(crate) kernel: (String, Vec<u8>),
    /// Names below `/lib/modules`.
    pub(crate) module_trees: BTreeSet<String>,
    /// Its modules.
    pub(crate) modules: Modules,
}

/// The modules of an image package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Modules {
    /// How many there are.
    pub count: u32,
    /// How many of them carry a signature.
    pub signed: u32,
    /// How many are compressed, so that it cannot be seen whether they are signed.
    pub compressed: u32,
}

impl Image {
    fn read(archive: impl Read) -> Result<Self, ImageError> {
        let (mut config, mut kernel) = (None, None);
        let mut module_trees = BTreeSet::new();
        let mut modules = Modules::default();
        let mut archive = tar::Archive::new(archive);
        for entry in archive.entries()? {
            interrupt::check().map_err(ImageError::Interrupted)?;
            let mut entry = entry?;
            let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            let path = path.trim_start_matches("./");
            if let Some(name) = path.strip_prefix("boot/config-") {
                let text = text(&mut entry)?;
                once(&mut config, "boot/config-", (name.to_owned(), text))?;
            } else if let Some(name) = path.strip_prefix("boot/vmlinuz-") {
                let mut bytes = Vec::new();
                entry.by_ref().take(HEADER_BYTES).read_to_end(&mut bytes)?;
                once(&mut kernel, "boot/vmlinuz-", (name.to_owned(), bytes))?;
            } else if let Some(below) = path.trim_start_matches("usr/").strip_prefix("lib/modules/")
            {
                if let Some(tree) = below.split('/').next().filter(|tree| !tree.is_empty()) {
                    module_trees.insert(tree.to_owned());
                }
                modules.count_entry(below, &mut entry)?;
            }
        }
        let missing = |what: &str| ImageError::Content(format!("holds no `{what}`"));
        Ok(Self {
            config: config.ok_or_else(|| missing("boot/config-*"))?,
            kernel: kernel.ok_or_else(|| missing("boot/vmlinuz-*"))?,
            module_trees,
            modules,
        })
    }
}

/// Two files of one kind would let one be checked and the other be used.
fn once<T>(slot: &mut Option<T>, kind: &str, found: T) -> Result<(), ImageError> {
    if slot.replace(found).is_some() {
        return Err(ImageError::Content(format!(
            "holds more than one `{kind}*`"
        )));
    }
    Ok(())
}

fn text(entry: &mut impl Read) -> Result<String, ImageError> {
    let mut bytes = Vec::new();
    entry.take(CONFIG_LIMIT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > CONFIG_LIMIT {
        let what = format!("holds a configuration of more than {CONFIG_LIMIT} bytes");
        return Err(ImageError::Content(what));
    }
    String::from_utf8(bytes)
        .map_err(|_| ImageError::Content("holds a configuration that is not UTF-8".to_owned()))
}

impl Modules {
    fn count_entry(&mut self, path: &str, entry: &mut impl Read) -> Result<(), ImageError> {
        let (stem, ending) = path.rsplit_once('.').unwrap_or_default();
        let plain = ending == "ko";
        let compressed = matches!(ending, "xz" | "zst" | "gz")
            && stem
                .rsplit_once('.')
                .is_some_and(|(_, inner)| inner == "ko");
        if plain || compressed {
            self.count += 1;
        }
        self.compressed += u32::from(compressed);
        if plain {
            self.signed += u32::from(ends_with(entry, SIGNATURE_MARK)?);
        }
        Ok(())
    }
}

/// Whether a stream ends with `mark`; keeps no more of it than that.
fn ends_with(stream: &mut impl Read, mark: &[u8]) -> io::Result<bool> {
    let mut end = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Ok(end == mark);
        }
        end.extend_from_slice(&buffer[..count]);
        end.drain(..end.len().saturating_sub(mark.len()));
    }
}

/// What the header of a bzImage says.
///
/// Offsets: `Documentation/arch/x86/boot.rst` (`HdrS` at 0x202, `kernel_version` at 0x20e, relative
/// to 0x200) and the PE format (certificate table: fifth data directory).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KernelHeader {
    /// The version text: `RELEASE (USER@HOST) #BUILD SMP ... DATE`.
    pub(crate) version: String,
    /// Whether a Secure Boot signature is attached.
    pub(crate) signed: bool,
}

impl KernelHeader {
    /// Reads the first bytes of a kernel image; nothing where they are not those of a bzImage.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.get(0x202..0x206)? != b"HdrS" {
            return None;
        }
        let start = 0x200 + usize::from(number16(bytes, 0x20e)?);
        let version = bytes.get(start..)?;
        let end = version.iter().position(|byte| *byte == 0)?;
        Some(Self {
            version: String::from_utf8_lossy(&version[..end]).into_owned(),
            signed: certificate_bytes(bytes).is_some_and(|size| size > 0),
        })
    }
}

/// Size of the certificate table of a PE32+ file; nothing where there is no PE header.
fn certificate_bytes(bytes: &[u8]) -> Option<u32> {
    if bytes.get(..2)? != b"MZ" {
        return None;
    }
    let pe = usize::try_from(number32(bytes, 0x3c)?).ok()?;
    let optional = pe.checked_add(24)?;
    if bytes.get(pe..pe.checked_add(4)?)? != b"PE\0\0" || number16(bytes, optional)? != 0x20b {
        return None;
    }
    number32(bytes, optional + 112 + 4 * 8 + 4)
}

fn number16(bytes: &[u8], at: usize) -> Option<u16> {
    let pair = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_le_bytes(pair.try_into().ok()?))
}

fn number32(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(four.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (path, bytes) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, path, *bytes).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn signed(body: &[u8]) -> Vec<u8> {
        [body, SIGNATURE_MARK].concat()
    }

    const CONFIG: (&str, &[u8]) = ("./boot/config-1", b"CONFIG_A=y\n");
    const KERNEL: (&str, &[u8]) = ("./boot/vmlinuz-1", b"MZ");

    #[test]
    fn an_image_package_is_read_as_a_stream() {
        let long = signed(&vec![7; 200_000]);
        let bytes = archive(&[
            CONFIG,
            KERNEL,
            ("./lib/modules/1/kernel/a.ko", &long),
            ("./lib/modules/1/kernel/b.ko", b"plain"),
            ("./usr/lib/modules/2/c.ko.xz", b"packed"),
            ("./lib/modules/1/modules.dep", b""),
        ]);
        let image = Image::read(bytes.as_slice()).unwrap();
        assert_eq!(image.config, ("1".to_owned(), "CONFIG_A=y\n".to_owned()));
        assert_eq!(image.kernel, ("1".to_owned(), b"MZ".to_vec()));
        assert_eq!(Vec::from_iter(&image.module_trees), ["1", "2"]);
        let expected = Modules {
            count: 3,
            signed: 1,
            compressed: 1,
        };
        assert_eq!(image.modules, expected);
    }

    #[test]
    fn a_missing_or_a_second_file_is_told() {
        let what = |entries: &[(&str, &[u8])]| match Image::read(archive(entries).as_slice()) {
            Err(ImageError::Content(what)) => what,
            other => panic!("{other:?}"),
        };
        assert_eq!(what(&[CONFIG]), "holds no `boot/vmlinuz-*`");
        assert_eq!(what(&[KERNEL]), "holds no `boot/config-*`");
        let other = ("./boot/config-2", CONFIG.1);
        assert_eq!(
            what(&[CONFIG, KERNEL, other]),
            "holds more than one `boot/config-*`"
        );
    }

    #[test]
    fn a_cut_archive_is_an_error() {
        let bytes = archive(&[CONFIG, KERNEL]);
        assert!(matches!(
            Image::read(&bytes[..700]),
            Err(ImageError::Io(_) | ImageError::Content(_))
        ));
    }

    #[test]
    fn control_fields_without_their_continuations() {
        let found = fields("Package: linux-image-1\nVersion: 1-1\nDescription: a\n b: c\n");
        assert_eq!(found.len(), 3);
        assert_eq!(found["Version"], "1-1");
    }

    /// A header with the version text, and a certificate table of `certificates` bytes.
    fn kernel(certificates: u32) -> Vec<u8> {
        let mut bytes = vec![0; 0x1000];
        bytes[..2].copy_from_slice(b"MZ");
        bytes[0x3c..0x40].copy_from_slice(&0x40u32.to_le_bytes());
        bytes[0x40..0x44].copy_from_slice(b"PE\0\0");
        bytes[0x58..0x5a].copy_from_slice(&0x20bu16.to_le_bytes());
        let directory = 0x58 + 112 + 32 + 4;
        bytes[directory..directory + 4].copy_from_slice(&certificates.to_le_bytes());
        bytes[0x202..0x206].copy_from_slice(b"HdrS");
        bytes[0x20e..0x210].copy_from_slice(&0x100u16.to_le_bytes());
        let text = b"6.12.117-1-guest-00112233 (builder@forge) #1 SMP\0";
        bytes[0x300..0x300 + text.len()].copy_from_slice(text);
        bytes
    }

    #[test]
    fn the_kernel_says_its_own_version_and_whether_it_is_signed() {
        let header = KernelHeader::read(&kernel(0)).unwrap();
        assert_eq!(
            header.version,
            "6.12.117-1-guest-00112233 (builder@forge) #1 SMP"
        );
        assert!(!header.signed);
        assert!(KernelHeader::read(&kernel(1500)).unwrap().signed);
        assert_eq!(KernelHeader::read(b"\x7fELF"), None);
    }

    proptest! {
        #[test]
        fn no_kernel_panics(mut bytes in prop::collection::vec(any::<u8>(), 0..1024), magic: bool) {
            if magic && bytes.len() > 0x206 {
                bytes[0x202..0x206].copy_from_slice(b"HdrS");
                bytes[..2].copy_from_slice(b"MZ");
            }
            let _header = KernelHeader::read(&bytes);
        }

        #[test]
        fn no_archive_panics(bytes in prop::collection::vec(any::<u8>(), 0..2048)) {
            assert!(Image::read(bytes.as_slice()).is_err());
        }
    }
}
