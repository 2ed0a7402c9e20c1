//! Decompressing and unpacking in the sandbox: good ones beside each kind of hostile one.

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::sync::Mutex;

use camino::{Utf8Path, Utf8PathBuf};
use kiln::command::{Cmd, Tool};
use kiln::digest::Sha256;
use kiln::failure::{Diagnose as _, Exit};
use kiln::kernel::Version;
use kiln::progress::{Event, Progress, Silent};
use kiln::sandbox::{Isolation, Worker};
use kiln::source::keyring::Keyring;
use kiln::source::signature::{self, VerifiedTarball};
use kiln::source::unpack::{self, Select, SourceTree, UnpackError};
use kiln::source::xz::{self, DecompressError, Decompressed, Limits};

use crate::support::keys::TestKey;
use crate::support::tar::{Entry, Tar, kind};
use crate::support::{Case, Env, Outcome, Stop, fail, skip, tree, xz as make_xz};

const VERSION: &str = "6.18.40";
const TOP: &str = "linux-6.18.40";

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("unpack::verified_tarball_becomes_a_tree", whole_tree),
        Case::new("unpack::configuration_only", configuration_only),
        Case::new("unpack::destination_must_be_new", destination_must_be_new),
        Case::new("unpack::long_names_and_large_files", long_and_large),
        Case::new("unpack::bytes_changed_after_verification", changed_after),
        Case::new("unpack::worker_sees_neither_files_nor_privileges", confined),
        Case::new("unpack::no_change_of_an_archive_panics_or_escapes", fuzz),
        Case::new("decompress::in_the_sandbox", decompress_good),
        Case::new(
            "decompress::read_beside_is_what_is_written",
            decompress_beside,
        ),
        Case::new(
            "decompress::bad_files_have_their_own_errors",
            decompress_bad,
        ),
        Case::new("decompress::declared_size_is_checked_first", declared),
    ];
    for hostile in HOSTILE {
        let name = format!("unpack::refuses_{}", hostile.name);
        cases.push(Case::new(name, || refuses(hostile)));
    }
    cases
}

struct Bench {
    env: Env,
    worker: Worker,
    isolation: Isolation,
}

impl Bench {
    fn new() -> Result<Self, Stop> {
        Ok(Self {
            env: Env::new()?,
            worker: Worker {
                program: env!("CARGO_BIN_EXE_kiln").into(),
            },
            isolation: Isolation::probe()?,
        })
    }

    /// Signs an archive and verifies it: a hostile one with a good signature.
    fn verified(&self, tar: &Tar) -> Result<VerifiedTarball, Stop> {
        let key = TestKey::new();
        let certificate = format!("keys/{}.asc", key.fingerprint());
        self.env.write(&certificate, key.armored_cert())?;
        let keyring = Keyring::load(&self.env.path("keys"), &[key.fingerprint().parse()?])?;
        let bytes = tar.bytes();
        let path = self.env.write("linux-6.18.40.tar", &bytes)?;
        let file = File::options().read(true).write(true).open(&path)?;
        let version: Version = VERSION.parse()?;
        let signature = key.sign_detached(&bytes[..]);
        Ok(signature::verify(
            file, &path, &signature, &keyring, &version, &Silent,
        )?)
    }

    fn unpack(&self, tarball: &VerifiedTarball, select: Select) -> Result<SourceTree, UnpackError> {
        let dest = self.dest();
        unpack::unpack(
            tarball,
            &dest,
            select,
            &self.worker,
            &self.isolation,
            &Silent,
        )
    }

    fn dest(&self) -> Utf8PathBuf {
        self.env.path("out/source")
    }

    /// That neither the tree nor anything on the way to it is left.
    fn nothing_left(&self) -> Outcome {
        let left = if self.env.path("out").exists() {
            tree::listing(&self.env.path("out"))?
        } else {
            Vec::new()
        };
        if left.is_empty() {
            Ok(())
        } else {
            Err(fail(format!("left behind: {left:?}")))
        }
    }
}

fn mode(path: &Utf8Path) -> Result<u32, Stop> {
    Ok(path.symlink_metadata()?.permissions().mode() & 0o7777)
}

fn whole_tree() -> Outcome {
    let bench = Bench::new()?;
    let tar = Tar::kernel(VERSION);
    let tarball = bench.verified(&tar)?;
    let source = bench.unpack(&tarball, Select::All)?;
    assert!(source.is_whole());
    assert_eq!(source.tar_sha256(), Sha256::of(&tar.bytes()));
    assert_eq!(source.version().to_string(), VERSION);
    assert_eq!(source.source_date_epoch(), tarball.source_date_epoch());
    assert_eq!(
        tree::listing(source.path())?,
        [
            "COPYING",
            "Documentation/",
            "Documentation/index.rst",
            "Kconfig",
            "Makefile",
            "kernel/",
            "kernel/fork.c",
            "scripts/",
            "scripts/link",
            "scripts/run.sh",
        ]
    );
    let at = |name: &str| source.path().join(name);
    assert_eq!(std::fs::read(at("kernel/fork.c"))?, b"int fork;\n");
    assert_eq!(mode(&at("kernel/fork.c"))?, 0o644);
    assert_eq!(mode(&at("scripts/run.sh"))?, 0o755);
    assert_eq!(mode(&at("scripts"))?, 0o755);
    assert_eq!(
        std::fs::read_link(at("scripts/link"))?.to_str(),
        Some("../kernel/fork.c")
    );
    for name in ["", "Makefile", "kernel", "scripts/link"] {
        let metadata = at(name).symlink_metadata()?;
        assert_eq!(metadata.mtime(), 1_700_000_000, "{name}");
    }
    // The same tree can be made again from the same proof, elsewhere.
    let again = unpack::unpack(
        &tarball,
        &bench.env.path("again"),
        Select::All,
        &bench.worker,
        &bench.isolation,
        &Silent,
    )?;
    assert_eq!(tree::listing(again.path())?, tree::listing(source.path())?);
    Ok(())
}

fn configuration_only() -> Outcome {
    let bench = Bench::new()?;
    let tarball = bench.verified(&Tar::kernel(VERSION))?;
    let source = bench.unpack(&tarball, Select::Configuration)?;
    assert!(!source.is_whole());
    assert_eq!(
        tree::listing(source.path())?,
        [
            "Kconfig",
            "Makefile",
            "scripts/",
            "scripts/link",
            "scripts/run.sh"
        ]
    );
    Ok(())
}

fn destination_must_be_new() -> Outcome {
    let bench = Bench::new()?;
    let tarball = bench.verified(&Tar::kernel(VERSION))?;
    bench.env.write("out/source/kept", "mine")?;
    let error = bench.unpack(&tarball, Select::All).unwrap_err();
    assert_eq!((error.code(), error.exit()), ("source-exists", Exit::Usage));
    assert_eq!(bench.env.read("out/source/kept")?, "mine");
    // What a killed run left half made does not stop the next one, and does not get into it.
    std::fs::remove_dir_all(bench.dest())?;
    bench.env.write("out/.source.partial/old", "half")?;
    let source = bench.unpack(&tarball, Select::All)?;
    assert!(!source.path().join("old").exists());
    assert_eq!(tree::listing(&bench.env.path("out"))?[0], "source/");
    Ok(())
}

fn long_and_large() -> Outcome {
    let bench = Bench::new()?;
    let deep = format!(
        "{TOP}/{}/file.c",
        ["a-directory-with-a-long-name"; 6].join("/")
    );
    let large = vec![0x2a; (1 << 20) + 17];
    let tar = Tar::kernel(VERSION)
        .file_at(&deep, b"deep")
        .file_at(&format!("{TOP}/large"), &large)
        .entry(Entry {
            path: &format!("{TOP}/second"),
            kind: kind::HARD_LINK,
            link: &format!("{TOP}/large"),
            ..Entry::default()
        });
    let source = bench.unpack(&bench.verified(&tar)?, Select::All)?;
    let below = deep.strip_prefix(TOP).unwrap().trim_start_matches('/');
    assert_eq!(std::fs::read(source.path().join(below))?, b"deep");
    assert_eq!(std::fs::read(source.path().join("large"))?, large);
    assert_eq!(std::fs::read(source.path().join("second"))?, large);
    Ok(())
}

/// The file is written to after the verdict: what is unpacked is compared with what was verified.
fn changed_after() -> Outcome {
    let bench = Bench::new()?;
    let tarball = bench.verified(&Tar::kernel(VERSION))?;
    let mut file = File::options().write(true).open(tarball.path())?;
    let bytes = std::fs::read(tarball.path())?;
    let at = bytes
        .windows(9)
        .position(|piece| piece == b"int fork;")
        .unwrap();
    file.seek(std::io::SeekFrom::Start(at as u64))?;
    file.write_all(b"int evil;")?;
    let error = bench.unpack(&tarball, Select::All).unwrap_err();
    assert_eq!(
        (error.code(), error.exit()),
        ("tar-changed", Exit::NotVerified)
    );
    assert!(
        error.to_string().contains(&tarball.sha256().to_string()),
        "{error}"
    );
    bench.nothing_left()
}

/// Owner and view of the tree's maker, told by what it makes.
fn confined() -> Outcome {
    let bench = Bench::new()?;
    let tarball = bench.verified(&Tar::kernel(VERSION))?;
    let source = bench.unpack(&tarball, Select::All)?;
    let owner = source.path().join("Makefile").metadata()?.uid();
    let user = if rustix::process::geteuid().is_root() {
        kiln::sandbox::BUILD_USER
    } else {
        rustix::process::geteuid().as_raw()
    };
    assert_eq!(owner, user);
    if !bench.isolation.is_isolated() {
        return Err(skip("no sandbox can be had here"));
    }
    // A shell in the worker's own place looks around.
    let sandbox = bench.worker.sandbox(&bench.isolation);
    let look = |script: &str| -> Result<String, Stop> {
        let shell = Cmd::new(&Tool::find("sh")?).args(["-c", script]);
        Ok(String::from_utf8(shell.sandbox(&sandbox).capture()?)?)
    };
    assert_eq!(look("id -u")?.trim(), user.to_string());
    let status = look("cat /proc/self/status")?;
    let field = |name: &str| {
        let mut lines = status.lines();
        lines.find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
    };
    for set in ["CapInh:", "CapPrm:", "CapEff:"] {
        assert_eq!(field(set).as_deref(), Some("0000000000000000"), "{set}");
    }
    assert_eq!(field("NoNewPrivs:").as_deref(), Some("1"));
    let links = look("tail -n +3 /proc/net/dev")?;
    assert!(
        links.lines().all(|line| line.trim().starts_with("lo:")),
        "{links}"
    );
    let top = look("ls -A /")?;
    for hidden in ["home", "root", "var", "srv", "mnt", "run"] {
        assert!(!top.lines().any(|name| name == hidden), "{hidden}: {top}");
    }
    let test = format!("test -e {} && echo seen; true", bench.env.root());
    assert_eq!(look(&test)?, "");
    let write = look("touch /usr/x /x 2>/dev/null; ls /usr/x /x 2>/dev/null; true")?;
    assert_eq!(write, "");
    Ok(())
}

struct Hostile {
    name: &'static str,
    code: &'static str,
    make: fn(Tar) -> Tar,
}

/// One archive for each rule; each begins as a good kernel source.
const HOSTILE: &[Hostile] = &[
    Hostile {
        name: "absolute_paths",
        code: "tar-name",
        make: |tar| tar.file_at("/tmp/kiln-absolute", b"x"),
    },
    Hostile {
        name: "climbing_paths",
        code: "tar-name",
        make: |tar| tar.file_at(&format!("{TOP}/../../escape"), b"x"),
    },
    Hostile {
        name: "control_characters",
        code: "tar-name",
        make: |tar| tar.file_at(&format!("{TOP}/a\x1b[2Jb"), b"x"),
    },
    Hostile {
        name: "a_second_top",
        code: "tar-other-top",
        make: |tar| tar.file_at("linux-6.18.41/Makefile", b"x"),
    },
    Hostile {
        name: "symlinks_to_absolute_places",
        code: "tar-link-leaves",
        make: |tar| link(tar, "evil", "/etc/passwd"),
    },
    Hostile {
        name: "symlinks_that_climb_out",
        code: "tar-link-leaves",
        make: |tar| link(tar, "kernel/evil", "../../etc"),
    },
    Hostile {
        name: "symlinks_that_climb_out_together",
        code: "tar-link-leaves",
        make: |tar| link(link(tar, "kernel/up", ".."), "evil", "kernel/up/../x"),
    },
    Hostile {
        name: "files_below_a_symlink",
        code: "tar-below-file",
        make: |tar| link(tar, "dir", "kernel").file_at(&format!("{TOP}/dir/x"), b"x"),
    },
    Hostile {
        name: "files_below_a_file",
        code: "tar-below-file",
        make: |tar| tar.file_at(&format!("{TOP}/COPYING/x"), b"x"),
    },
    Hostile {
        name: "a_file_over_a_symlink",
        code: "tar-duplicate",
        make: |tar| link(tar, "evil", "kernel/fork.c").file_at(&format!("{TOP}/evil"), b"x"),
    },
    Hostile {
        name: "a_directory_over_a_symlink",
        code: "tar-duplicate",
        make: |tar| link(tar, "evil", "kernel").directory(&format!("{TOP}/evil/")),
    },
    Hostile {
        name: "the_same_file_twice",
        code: "tar-duplicate",
        make: |tar| tar.file_at(&format!("{TOP}/Makefile"), b"all:\n"),
    },
    Hostile {
        name: "hard_links_that_leave",
        code: "tar-hard-link",
        make: |tar| hard_link(tar, "/etc/passwd"),
    },
    Hostile {
        name: "hard_links_that_climb",
        code: "tar-hard-link",
        make: |tar| hard_link(tar, &format!("{TOP}/../../etc/passwd")),
    },
    Hostile {
        name: "hard_links_to_symlinks",
        code: "tar-hard-link",
        make: |tar| hard_link(link(tar, "evil", "kernel/fork.c"), &format!("{TOP}/evil")),
    },
    Hostile {
        name: "character_devices",
        code: "tar-kind",
        make: |tar| special(tar, kind::CHARACTER),
    },
    Hostile {
        name: "block_devices",
        code: "tar-kind",
        make: |tar| special(tar, kind::BLOCK),
    },
    Hostile {
        name: "pipes",
        code: "tar-kind",
        make: |tar| special(tar, kind::FIFO),
    },
    Hostile {
        name: "sparse_files",
        code: "tar-damaged",
        make: |tar| special(tar, b'S'),
    },
    Hostile {
        name: "setuid",
        code: "tar-privileged",
        make: |tar| with_mode(tar, 0o4755, kind::FILE),
    },
    Hostile {
        name: "setgid",
        code: "tar-privileged",
        make: |tar| with_mode(tar, 0o2755, kind::FILE),
    },
    Hostile {
        name: "setgid_directories",
        code: "tar-privileged",
        make: |tar| with_mode(tar, 0o2755, kind::DIRECTORY),
    },
    Hostile {
        name: "a_size_beyond_the_end",
        code: "tar-damaged",
        make: |tar| {
            tar.entry(Entry {
                path: &format!("{TOP}/cut"),
                content: b"x",
                size: Some(100_000),
                ..Entry::default()
            })
        },
    },
    Hostile {
        name: "more_bytes_than_any_kernel",
        code: "tar-too-large",
        make: |tar| {
            tar.entry(Entry {
                path: &format!("{TOP}/huge"),
                size: Some((8 << 30) - 1),
                ..Entry::default()
            })
        },
    },
    Hostile {
        name: "bytes_after_the_end",
        code: "tar-trailing",
        make: |tar| Tar::raw(&[&tar.bytes()[..], &[0; 512], &[1; 512]].concat()),
    },
];

fn link(tar: Tar, name: &str, target: &str) -> Tar {
    tar.entry(Entry {
        path: &format!("{TOP}/{name}"),
        kind: kind::SYMLINK,
        link: target,
        ..Entry::default()
    })
}

fn hard_link(tar: Tar, target: &str) -> Tar {
    tar.entry(Entry {
        path: &format!("{TOP}/hard"),
        kind: kind::HARD_LINK,
        link: target,
        ..Entry::default()
    })
}

fn special(tar: Tar, kind: u8) -> Tar {
    tar.entry(Entry {
        path: &format!("{TOP}/special"),
        kind,
        ..Entry::default()
    })
}

fn with_mode(tar: Tar, mode: u32, kind: u8) -> Tar {
    tar.entry(Entry {
        path: &format!("{TOP}/privileged"),
        kind,
        mode,
        ..Entry::default()
    })
}

fn refuses(hostile: &Hostile) -> Outcome {
    let bench = Bench::new()?;
    let tar = (hostile.make)(Tar::kernel(VERSION));
    let tarball = bench.verified(&tar)?;
    for select in [Select::All, Select::Configuration] {
        match bench.unpack(&tarball, select) {
            Ok(_) => {
                return Err(fail(format!(
                    "{select:?}: unpacked; expected `{}`",
                    hostile.code
                )));
            }
            Err(error) if error.code() == hostile.code && error.exit() == Exit::NotVerified => {}
            Err(error) => return Err(error.into()),
        }
        bench.nothing_left()?;
    }
    assert!(!Utf8Path::new("/tmp/kiln-absolute").exists());
    Ok(())
}

/// A fixed sequence of changes to a good archive. Each is unpacked or refused; whatever is made lies
/// inside, and nothing panics.
fn fuzz() -> Outcome {
    let bench = Bench::new()?;
    let good = Tar::kernel(VERSION).bytes();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap() % limit
    };
    let mut refused = 0;
    for _ in 0..60 {
        let mut bytes = good.clone();
        for _ in 0..=random(3) {
            // Mostly in the fields of a header that mean something.
            let header = 512 * random(bytes.len() / 512);
            let field = [0, 5, 100, 124, 135, 148, 156, 157, 257, 345][random(10)];
            bytes[header + field] = u8::try_from(random(256)).unwrap();
        }
        // Half of them with their sums put right, so that they get past the first check.
        if random(2) == 0 {
            repair_sums(&mut bytes);
        }
        let Ok(tarball) = bench.verified(&Tar::raw(&bytes)) else {
            refused += 1;
            continue;
        };
        match bench.unpack(&tarball, Select::All) {
            Ok(source) => std::fs::remove_dir_all(source.path())?,
            Err(UnpackError::Refused { .. }) => refused += 1,
            Err(error) => return Err(error.into()),
        }
        bench.nothing_left()?;
    }
    assert!(refused > 10, "only {refused} of 60 were refused");
    Ok(())
}

fn repair_sums(bytes: &mut [u8]) {
    for header in bytes.chunks_exact_mut(512) {
        if &header[257..262] == b"ustar" {
            header[148..156].fill(b' ');
            let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
            header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
    }
}

const LIMITS: Limits = Limits {
    bytes: 64 << 20,
    ratio: 60,
    memory: 64 << 20,
    threads: 2,
};

/// Counts what it is told.
#[derive(Default)]
struct Counting(Mutex<Vec<Event>>);

impl Progress for Counting {
    fn event(&self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

fn decompress(
    bench: &Bench,
    bytes: &[u8],
    progress: &dyn Progress,
) -> Result<(Decompressed, Vec<u8>), DecompressError> {
    let input_path = bench.env.write("in.tar.xz", bytes).unwrap();
    let output_path = bench.env.write("out.tar", "").unwrap();
    let input = File::open(&input_path).unwrap();
    let mut output = File::options()
        .read(true)
        .write(true)
        .open(&output_path)
        .unwrap();
    let (done, read) = xz::decompress_in_sandbox(
        &bench.worker,
        &bench.isolation,
        (&input, &input_path),
        (&output, &output_path),
        &LIMITS,
        progress,
        |bytes| {
            let mut read = Vec::new();
            bytes.read_to_end(&mut read).map(|_| read)
        },
    )?;
    let mut out = Vec::new();
    output.rewind().unwrap();
    output.read_to_end(&mut out).unwrap();
    assert!(read.unwrap() == out, "what was read is what was written");
    Ok((done, out))
}

fn decompress_good() -> Outcome {
    let bench = Bench::new()?;
    let data: Vec<u8> = (0..3_000_000_u32)
        .flat_map(|n| (n % 251).to_le_bytes())
        .collect();
    for whole in [make_xz::one_block(&data), make_xz::blocks(&data, 1 << 20)] {
        let progress = Counting::default();
        let (done, out) = decompress(&bench, &whole, &progress)?;
        assert!(out == data);
        assert_eq!(done.sha256, Sha256::of(&data));
        assert_eq!(done.compressed, whole.len() as u64);
        let last = progress.0.lock().unwrap().pop();
        assert_eq!(
            last,
            Some(Event::Bytes {
                what: "decompress in.tar.xz".to_owned(),
                done: data.len() as u64,
                total: Some(data.len() as u64),
            })
        );
    }
    Ok(())
}

/// What nobody reads is written all the same, and a disk that fills up is what is told, not the
/// worker's broken pipe.
fn decompress_beside() -> Outcome {
    let bench = Bench::new()?;
    let data: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let input_path = bench.env.write("in.tar.xz", make_xz::one_block(&data))?;
    let output_path = bench.env.write("out.tar", "")?;
    let input = File::open(&input_path)?;
    let to = |output: &File, some: &mut [u8]| {
        xz::decompress_in_sandbox(
            &bench.worker,
            &bench.isolation,
            (&input, &input_path),
            (output, &output_path),
            &LIMITS,
            &Silent,
            |bytes| bytes.read_exact(some).is_ok(),
        )
    };
    for read in [0, 100_000] {
        let output = File::options().write(true).open(&output_path)?;
        let mut some = vec![0; read];
        let (done, was_read) = to(&output, &mut some)?;
        assert!(was_read && some == data[..read]);
        assert_eq!(done.bytes, data.len() as u64);
        assert!(std::fs::read(&output_path)? == data);
    }
    let full = File::options().write(true).open("/dev/full")?;
    let error = to(&full, &mut []).expect_err("no room");
    assert_eq!((error.exit(), error.code()), (Exit::NoSpace, "no-space"));
    Ok(())
}

fn decompress_bad() -> Outcome {
    let bench = Bench::new()?;
    let data = b"text of a kernel ".repeat(10_000);
    let good = make_xz::one_block(&data);
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 1;
    let cases: [(&str, Vec<u8>); 9] = [
        ("xz-truncated", good[..good.len() - 12].to_vec()),
        ("xz-truncated", good[..good.len() / 2].to_vec()),
        ("xz-damaged", flipped),
        ("xz-padding", [&good[..], &[0; 4]].concat()),
        ("xz-second-stream", [&good[..], &good].concat()),
        ("xz-junk", [&good[..], b"junk"].concat()),
        ("xz-foreign", b"<html>404 Not Found</html>".to_vec()),
        ("xz-foreign", Vec::new()),
        ("xz-memory", make_xz::with_dictionary(&data, 256 << 20)),
    ];
    for (code, bytes) in cases {
        match decompress(&bench, &bytes, &Silent) {
            Ok(_) => return Err(fail(format!("decompressed; expected `{code}`"))),
            Err(error) if error.code() == code && error.exit() == Exit::NotVerified => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn declared() -> Outcome {
    let bench = Bench::new()?;
    let bomb = make_xz::one_block(&vec![0; (64 << 20) + 1]);
    let error = decompress(&bench, &bomb, &Silent).unwrap_err();
    assert_eq!(error.code(), "xz-too-large");
    assert!(matches!(error, DecompressError::Declared { .. }), "{error}");
    // A file that hides its size is stopped on the way.
    let hidden = [&bomb[..], b"x"].concat();
    let error = decompress(&bench, &hidden, &Silent).unwrap_err();
    assert_eq!(error.code(), "xz-too-large");
    assert!(matches!(error, DecompressError::Refused { .. }), "{error}");
    Ok(())
}
