//! `kiln node`: machines made up, captured ones, and the one that the tests run on.

mod plan;
mod slots;

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;

use camino::{Utf8Path, Utf8PathBuf};
use kiln::failure::Exit;
use kiln::machine::{Fingerprint, Platform, Root};
use serde_json::Value;

use crate::support::dice::Dice;
use crate::support::machines::{Shape, write_files};
use crate::support::{Case, Env, Outcome, Stop, fail, skip};

/// The cases of this module.
pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("node::every_shape_is_read", shapes),
        Case::new("node::fingerprint_is_told", told),
        Case::new("node::capture_gives_the_same_fingerprint", captured),
        Case::new("node::hash_is_of_what_lists_follow_from", hashes),
        Case::new("node::hostile_text_is_told_and_breaks_nothing", hostile),
        Case::new("node::links_stay_inside_a_captured_tree", links),
        Case::new("node::a_directory_without_a_machine_is_refused", no_machine),
        Case::new("node::this_machine_is_read", this_machine),
        Case::new("node::older_kernels_have_masks", masks),
        Case::new("node::captured_machines_are_read", captured_machines),
    ];
    cases.extend(plan::cases());
    cases.extend(slots::cases());
    cases
}

/// The answer of `kiln node fingerprint` on a tree.
fn fingerprint(env: &Env, tree: &Utf8Path) -> Result<Value, Stop> {
    let ran = env
        .kiln(["node", "fingerprint", "--format", "json", "--sysfs"])
        .arg(tree.as_str())
        .run()?;
    Ok(ran.exits(0)?.json()?["fingerprint"].clone())
}

fn read(tree: &Utf8Path) -> Result<Fingerprint, Stop> {
    Ok(Fingerprint::read(&Root::open(tree)?, tree)?)
}

fn shapes() -> Outcome {
    let env = Env::new()?;
    let mut seen = BTreeMap::new();
    for shape in Shape::all() {
        let found = read(&shape.write(&env)?)?;
        let name = shape.name;
        let topology = &found.topology;
        assert_eq!(found.faults, [], "{name}");
        assert_eq!(topology.online, shape.online(|_, _| true), "{name}");
        assert_eq!(topology.present, shape.present(), "{name}");
        assert_eq!(
            topology.cores.len(),
            shape.cores.len() - dead_cores(&shape),
            "{name}"
        );
        let domains: Vec<_> = topology
            .domains
            .iter()
            .map(|d| (&d.cpus, d.size_kib))
            .collect();
        let wanted: Vec<_> = (0..shape.caches.len())
            .map(|at| {
                (
                    shape.online(|_, core| core.cache == at),
                    shape.caches[at].mib * 1024,
                )
            })
            .collect();
        if shape.tells_caches {
            let mut wanted: Vec<_> = wanted.iter().map(|(c, kib)| (c, Some(*kib))).collect();
            wanted.sort();
            assert_eq!(domains, wanted, "{name}");
        } else {
            assert_eq!(domains, [], "{name}");
        }
        let is_virtual = found.platform == Platform::Virtual;
        assert_eq!(is_virtual, shape.is_virtual, "{name}");
        let kinds: Vec<&str> = topology.kinds.iter().map(|kind| &*kind.name).collect();
        let kinds_wanted: &[&str] = match name {
            "hybrid" => &["performance", "efficient"],
            "strix-point" => &["up to 5100000 kHz", "up to 3300000 kHz"],
            _ => &[],
        };
        assert_eq!(kinds, kinds_wanted, "{name}");
        let other = seen.insert(found.hash.to_string(), name);
        assert_eq!(other, None, "{name} has the digest of another shape");
    }
    let odd = read(&env.path("offline-and-holes"))?.topology;
    assert_eq!(odd.offline().to_string(), "3,23");
    assert_eq!(odd.holes().to_string(), "8-11");
    Ok(())
}

/// Cores of which no thread runs.
fn dead_cores(shape: &Shape) -> usize {
    let threads = shape.threads();
    let dead = |cpus: &&Vec<u16>| cpus.iter().all(|cpu| shape.offline.contains(cpu));
    threads.iter().filter(dead).count()
}

fn told() -> Outcome {
    let env = Env::new()?;
    let tree = Shape::x3d().write(&env)?;
    let ran = env
        .kiln(["node", "fingerprint", "--sysfs", tree.as_str()])
        .run()?;
    let mut ran = ran.exits(0)?;
    for text in [
        "A machine made up, metal, unknown\n",
        "kernel 6.18.40, microcode 0xa601209\n",
        "32 CPUs online (0-31) of 32 present; 16 cores of at most 2 threads; 1 package, 1 NUMA node\n",
        "  96 MiB  8 cores  package 0  node 0  0-7,16-23\n",
        "  2  C2    350 us\n",
        "frequency: driver amd-pstate-epp, governor powersave\n",
        "interrupts: 38 in use; 6 can be moved, 32 managed by their drivers, 0 cannot be moved\n",
        "  eth0   network card  4 queues\n  nvme0  NVMe drive    32 queues\n",
    ] {
        ran = ran.says(text)?;
    }
    Ok(())
}

fn captured() -> Outcome {
    let env = Env::new()?;
    for shape in [Shape::x3d(), Shape::offline_and_holes(), Shape::vm_flat()] {
        let tree = shape.write(&env)?;
        let first = fingerprint(&env, &tree)?;
        let capture = |tree: &Utf8Path, file: &str| -> Outcome {
            let words = ["node", "fingerprint", "--capture", file, "--sysfs"];
            env.kiln(words).arg(tree.as_str()).run()?.exits(0)?;
            Ok(())
        };
        capture(&tree, "a.tar")?;
        let unpacked = env.path(&format!("{}-unpacked", shape.name));
        std::fs::create_dir_all(&unpacked)?;
        let words = ["-xf", "a.tar", "-C", unpacked.as_str()];
        env.program("tar", words).run()?.exits(0)?;
        assert_eq!(fingerprint(&env, &unpacked)?, first, "{}", shape.name);
        // What is captured of a capture is the same file.
        capture(&unpacked, "b.tar")?;
        let bytes = |name: &str| std::fs::read(env.path(name));
        assert_eq!(bytes("a.tar")?, bytes("b.tar")?, "{}", shape.name);
        let kept = std::fs::read_to_string(unpacked.join("proc/cmdline"))?;
        assert_eq!(kept, "BOOT_IMAGE=/vmlinuz quiet\n");
    }
    Ok(())
}

fn hashes() -> Outcome {
    let env = Env::new()?;
    let shape = Shape::dual_ccd();
    let files = shape.files();
    let first = read(&shape.write(&env)?)?.hash;
    let cpu = "sys/devices/system/cpu";
    let with = |number: usize, changes: &[(&str, &str)]| -> Result<_, Stop> {
        let mut files = files.clone();
        for (path, text) in changes {
            let old = files.insert((*path).to_owned(), (*text).to_owned());
            assert!(old.is_some_and(|old| old != *text), "{path} is not changed");
        }
        let tree = write_files(&env.path(&format!("changed-{number}")), &files)?;
        Ok(read(&tree)?.hash)
    };
    let cpuinfo = files["proc/cpuinfo"].replace("0xa601209", "0xa60120a");
    for (number, changes) in [
        [("proc/cpuinfo", cpuinfo.as_str())],
        [("sys/kernel/irq/30/actions", "ehci\n")],
        [("proc/irq/31/smp_affinity_list", "0\n")],
        [(&*format!("{cpu}/cpu5/cpuidle/state2/latency"), "18\n")],
        [(
            &*format!("{cpu}/cpu5/cpufreq/scaling_governor"),
            "performance\n",
        )],
        [("proc/sys/kernel/osrelease", "7.2.13\n")],
    ]
    .iter()
    .enumerate()
    {
        assert_eq!(with(number, changes)?, first, "{changes:?}");
    }
    let smaller = "16384K\n";
    let virtual_cpuinfo = files["proc/cpuinfo"].replace("clzero", "hypervisor");
    for (number, changes) in [
        [(&*format!("{cpu}/online"), "0-30\n")],
        [(&*format!("{cpu}/possible"), "0-63\n")],
        [(&*format!("{cpu}/cpu5/cache/index3/size"), smaller)],
        [(&*format!("{cpu}/cpu5/topology/core_cpus_list"), "5\n")],
        [(&*format!("{cpu}/cpu5/topology/physical_package_id"), "1\n")],
        [("sys/devices/system/node/node0/cpulist", "0-15\n")],
        [(&*format!("{cpu}/smt/control"), "off\n")],
        [(
            &*format!("{cpu}/cpu5/cpufreq/cpuinfo_max_freq"),
            "3000000\n",
        )],
        [("proc/cpuinfo", virtual_cpuinfo.as_str())],
    ]
    .iter()
    .enumerate()
    {
        assert_ne!(with(100 + number, changes)?, first, "{changes:?}");
    }
    Ok(())
}

const HOSTILE: &[&str] = &[
    "",
    "\n",
    "-1\n",
    "0-8191\n",
    "0-99999999999999\n",
    "5-1\n",
    "0-3:0/0\n",
    "18446744073709551616\n",
    "99999999999999999999K\n",
    "K\n",
    "\u{1b}[2J\u{202e}\n",
    "../../../../../etc/passwd\n",
    "(null)\n",
    "ffffffff,ffffffff\n",
    "\0\0\0\0",
];

/// One file after the other is replaced by what no kernel would write.
fn hostile() -> Outcome {
    let env = Env::new()?;
    let shape = Shape::of("hostile", &[&[(2, 8)]], 1);
    let tree = shape.write(&env)?;
    let mut dice = Dice::new(7);
    let mut faults = 0;
    for (path, text) in shape.files() {
        let path = tree.join(path);
        let mut all: Vec<Vec<u8>> = HOSTILE
            .iter()
            .map(|text| text.as_bytes().to_vec())
            .collect();
        all.push((0..200).map(|_| dice.next().to_le_bytes()[0]).collect());
        for bytes in all {
            std::fs::write(&path, bytes)?;
            let found = read(&tree)?;
            faults += found.faults.len();
            for fault in &found.faults {
                assert!(fault.why.len() < 400, "{path}: {}", fault.why.len());
            }
        }
        // A directory in its place, a pipe that nobody writes to, and nothing at all.
        std::fs::remove_file(&path)?;
        drop(read(&tree));
        std::fs::create_dir(&path)?;
        drop(read(&tree)?);
        std::fs::remove_dir(&path)?;
        env.program("mkfifo", [path.as_str()]).run()?.exits(0)?;
        drop(read(&tree)?);
        std::fs::remove_file(&path)?;
        std::fs::write(&path, text)?;
    }
    assert!(faults > 200, "{faults} faults");
    assert_eq!(read(&tree)?.faults, []);
    // The terminal gets none of it.
    let smt = "sys/devices/system/cpu/cpu0/cpuidle/state1/name";
    std::fs::write(tree.join(smt), "\u{1b}[2J")?;
    let ran = env
        .kiln(["node", "fingerprint", "--sysfs", tree.as_str()])
        .run()?;
    ran.exits(0)?.says("?[2J")?.never_says("\u{1b}[2J")?;
    Ok(())
}

fn links() -> Outcome {
    let env = Env::new()?;
    let tree = Shape::small().write(&env)?;
    let secret = env.write("secret", "0-2\n")?;
    let online = tree.join("sys/devices/system/cpu/online");
    // From inside the tree these names lead nowhere; on the host they lead to the secret.
    for target in [secret.as_str(), "../../../../../secret"] {
        std::fs::remove_file(&online)?;
        symlink(target, &online)?;
        assert!(online.exists(), "{target}");
        assert_eq!(read(&tree)?.topology.online.to_string(), "0-3", "{target}");
    }
    // One that stays inside is followed, as on the machine itself.
    std::fs::remove_file(&online)?;
    std::fs::write(tree.join("elsewhere"), "0-1\n")?;
    symlink("/elsewhere", &online)?;
    assert_eq!(read(&tree)?.topology.online.to_string(), "0-1");
    Ok(())
}

fn no_machine() -> Outcome {
    let env = Env::new()?;
    env.write("empty/file", "")?;
    for (tree, says) in [
        (
            "empty",
            "empty` holds no machine: `sys/devices/system/cpu` is not there",
        ),
        ("none", "failed to open"),
        ("empty/file", "holds no machine"),
    ] {
        let ran = env.kiln(["node", "fingerprint", "--sysfs", tree]).run()?;
        ran.exits(Exit::Usage)?.warns(says)?;
    }
    Ok(())
}

fn this_machine() -> Outcome {
    let online = "/sys/devices/system/cpu/online";
    let Ok(online) = std::fs::read_to_string(online) else {
        return Err(skip(format!("{online} cannot be read here")));
    };
    let env = Env::new()?;
    let first = fingerprint(&env, Utf8Path::new("/"))?;
    assert_eq!(first["topology"]["online"], online.trim());
    let again = env
        .kiln(["node", "fingerprint", "--format", "json"])
        .run()?;
    assert_eq!(
        again.exits(0)?.json()?["fingerprint"]["hash"],
        first["hash"]
    );
    // The kernel's own view: as many CPUs as it lets a process have, unless this one is confined.
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo")?;
    let processors = cpuinfo.lines().filter(|line| line.starts_with("processor"));
    let cpus: kiln::cpus::CpuSet = online.parse()?;
    assert_eq!(processors.count(), cpus.len());
    Ok(())
}

/// Before lists there were masks, and no `online`.
fn masks() -> Outcome {
    let env = Env::new()?;
    let shape = Shape::of("old", &[&[(2, 8), (2, 8)]], 2);
    let mut files = shape.files();
    files.retain(|path, _| {
        let name = path.rsplit('/').next().unwrap_or_default();
        !matches!(
            name,
            "core_cpus_list"
                | "thread_siblings_list"
                | "shared_cpu_list"
                | "cpulist"
                | "online"
                | "present"
                | "possible"
        )
    });
    for cpu in 0..8_u16 {
        let directory = format!("sys/devices/system/cpu/cpu{cpu}");
        let core = cpu % 4;
        let siblings = format!("{:08x}\n", 0x11 << core);
        files.insert(format!("{directory}/topology/thread_siblings"), siblings);
        let sharers = format!("00000000,{:08x}\n", 0x33 << (core / 2 * 2));
        files.insert(format!("{directory}/cache/index3/shared_cpu_map"), sharers);
        if cpu > 0 {
            files.insert(format!("{directory}/online"), "1\n".to_owned());
        }
    }
    let node = "sys/devices/system/node/node0/cpumap".to_owned();
    files.insert(node, "ff\n".to_owned());
    let tree = write_files(&env.path("old"), &files)?;
    let found = read(&tree)?;
    assert_eq!(found.faults, []);
    let newer = read(&Shape::of("new", &[&[(2, 8), (2, 8)]], 2).write(&env)?)?;
    assert_eq!(found.topology, newer.topology);
    // The twin: one that is off.
    std::fs::write(tree.join("sys/devices/system/cpu/cpu3/online"), "0\n")?;
    assert_eq!(read(&tree)?.topology.online.to_string(), "0-2,4-7");
    Ok(())
}

/// Unpacks the archive of a captured machine, from where `KILN_TOPOLOGIES` says.
fn unpacked(env: &Env, archive: &str, inside: &str) -> Result<Utf8PathBuf, Stop> {
    let Ok(directory) = std::env::var("KILN_TOPOLOGIES") else {
        return Err(skip(
            "KILN_TOPOLOGIES names no directory with captured machines",
        ));
    };
    let archive = Utf8Path::new(&directory).join(archive);
    if !archive.is_file() {
        return Err(skip(format!("{archive} is not there")));
    }
    let into = env.workspace();
    let words = ["-xf", archive.as_str(), "-C", into.as_str()];
    env.program("tar", words).run()?.exits(0)?;
    let tree = env.path(inside);
    if tree.is_dir() {
        return Ok(tree);
    }
    Err(fail(format!("{archive} holds no {inside}")))
}

fn captured_machines() -> Outcome {
    let env = Env::new()?;
    let tree = unpacked(&env, "x86_64-epyc_7451.tar.gz", "x86_64-epyc_7451")?;
    let found = read(&tree)?;
    assert_eq!(found.platform, Platform::Metal);
    let topology = &found.topology;
    let sizes = topology.domains.iter().map(|domain| domain.size_kib);
    assert_eq!(sizes.collect::<Vec<_>>(), [Some(8192); 16]);
    assert_eq!(topology.cores.len(), 48);
    assert_eq!((topology.packages.len(), topology.nodes.len()), (2, 8));
    let tree = unpacked(
        &env,
        "16em64t-4s2c2t-offlines.tar.bz2",
        "16em64t-4s2c2t-offlines",
    )?;
    let topology = read(&tree)?.topology;
    assert_eq!(topology.offline().len(), 4);
    let domains = topology
        .domains
        .iter()
        .map(|domain| domain.cpus.to_string());
    assert_eq!(
        domains.collect::<Vec<_>>(),
        ["0,4,8,12", "1,9", "3,7,11,15", "6,10"]
    );
    let inside = "8em64t-2s4c-heterogeneous";
    let tree = unpacked(&env, "8em64t-2s4c-asymcaches.tar.bz2", inside)?;
    assert_eq!(read(&tree)?.topology.packages.len(), 2);
    Ok(())
}
